//! What a store says about its own state, for gauges. Every value may be missing: stores differ in what they have.

use std::time::Duration;

/// How a store is doing, as one process sees it. Totals count from the opening of the store.
///
/// ```
/// use duroxide_core::provider::StoreReadings;
/// assert_eq!(StoreReadings::default().commits, None, "a store that says nothing");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct StoreReadings {
    /// Transactions that were committed.
    pub commits: Option<u64>,
    /// Requests that shared them.
    pub commit_requests: Option<u64>,
    /// Time that they took together, from their begin to the end of their commit.
    pub commit_time: Option<Duration>,
    /// The longest since the last reading.
    pub commit_time_max: Option<Duration>,
    /// How often a writer waited for a lock of another connection or process, in pauses of about a millisecond.
    pub busy_waits: Option<u64>,
    /// Requests that wait for the writer now.
    pub writer_queue: Option<u64>,
    /// Size of the write-ahead log, in bytes.
    pub log_bytes: Option<u64>,
    /// Time since the last checkpoint that succeeded; none if there was none.
    pub checkpoint_age: Option<Duration>,
    /// Checkpoints that failed.
    pub checkpoint_failures: Option<u64>,
    /// Bytes of the file that are free for new data.
    pub free_bytes: Option<u64>,
    /// Size of the file, in bytes.
    pub file_bytes: Option<u64>,
}
