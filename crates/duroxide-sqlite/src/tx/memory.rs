//! What a transaction may remember instead of reading it. In: what the tables change. Out: what the tables would
//! otherwise have to read.
//!
//! The trait stands here, below the tables, so that they need not know what remembers: the writer does, in
//! `writer_memory.rs`.

/// What the writer remembers of the queues. Every answer is exactly what the tables hold, or `None`.
pub(crate) trait QueueMemory {
    /// The table is about to enqueue a message for this instance. Returns what the writer remembers of the instance.
    fn message_enqueued(&self, instance: &str) -> Option<Enqueued>;

    /// From this time on a message is visible that has a lane and so stands for the instance; `None`: the table took
    /// messages of the instance away, and does not know.
    fn head_is(&self, instance: &str, visible_at: Option<i64>);

    /// The table is about to enqueue a request to cancel, at this time.
    fn cancel_enqueued(&self, at: i64);

    /// A time before which no request to cancel was enqueued that is still queued.
    fn cancels_from(&self) -> Option<i64>;

    /// The table read that time.
    fn set_cancels_from(&self, from: i64);

    /// Whether parts of deleted instances are left.
    fn deletions(&self) -> Option<Deletions>;

    /// The table read that, or (`None`) changes it.
    fn set_deletions(&self, deletions: Option<Deletions>);

    /// Whether instances are paused.
    fn pauses(&self) -> Option<Pauses>;

    /// The table read that, or (`None`) changes it.
    fn set_pauses(&self, pauses: Option<Pauses>);

    /// Whether the store is closed.
    fn closing(&self) -> Option<Closing>;

    /// The table read that, or (`None`) changes it.
    fn set_closing(&self, closing: Option<Closing>);

    /// Whether instances rest.
    fn rests(&self) -> Option<Rests>;

    /// The table read that, or (`None`) changes it.
    fn set_rests(&self, rests: Option<Rests>);

    /// Whether instances hold queue messages back.
    fn held_queue_messages(&self) -> Option<HeldQueueMessages>;

    /// The table read that, or (`None`) changes it.
    fn set_held_queue_messages(&self, held: Option<HeldQueueMessages>);

    /// Whether messages wait for the start of their instance.
    fn awaiting_start(&self) -> Option<AwaitingStart>;

    /// The table read that, or (`None`) changes it.
    fn set_awaiting_start(&self, awaiting: Option<AwaitingStart>);
}

/// Where a new message of a remembered instance belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enqueued {
    /// The lane of the instance.
    pub(crate) lane: String,
    /// Whether no other message is queued for the instance, due or not.
    pub(crate) is_only_one: bool,
    /// When a queued message that stands for the instance becomes visible, if that is remembered.
    pub(crate) head_at: Option<i64>,
}

/// Whether parts of deleted instances are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletions {
    None,
    Some,
}

/// Whether instances are paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pauses {
    None,
    Some,
}

/// Whether the store is closed for the engine and its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    Open,
    Closed,
}

/// Whether instances rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rests {
    None,
    Some,
}

/// Whether instances hold queue messages back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldQueueMessages {
    None,
    Some,
}

/// Whether messages wait for the start of their instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwaitingStart {
    None,
    Some,
}
