//! How much one transaction of a long operation does.

/// How many rows one transaction deletes at most, a page of payload counted like a row: some milliseconds of work.
pub(crate) const STEP_ROWS: usize = 1_000;
/// How many instances one transaction deletes at most: each takes some twenty statements, whatever it holds.
pub(crate) const STEP_INSTANCES: usize = 128;
/// How many rows an instance counts for beside its messages, executions and events.
pub(crate) const INSTANCE_ROWS: usize = STEP_ROWS / STEP_INSTANCES;
/// How many instances a bulk operation takes when the filter has no limit.
pub(crate) const BULK_LIMIT: u32 = 1000;
