//! What logs and metadata hold: events, entries, and the sizes of partitions. Bytes the store does not look into.

/// One stored event: its number in the partition, and bytes the store does not look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Unique within the partition; numbers may have gaps.
    pub number: u64,
    /// The event.
    pub data: Vec<u8>,
}

/// Sizes of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionInfo {
    /// The number of events.
    pub events: u64,
    /// Sum of their lengths.
    pub bytes: u64,
    /// Highest number, 0 if empty.
    pub last: u64,
}

/// One value and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key within the scope.
    pub key: String,
    /// Bytes the store does not look into.
    pub value: Vec<u8>,
}
