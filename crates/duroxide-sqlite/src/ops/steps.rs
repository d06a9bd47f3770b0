//! How much one transaction of a long operation does.

/// How many rows one transaction deletes at most, a page of payload counted like a row: some milliseconds of work.
pub(crate) const STEP_ROWS: usize = 1_000;
/// How many instances a bulk operation takes when the filter has no limit.
pub(crate) const BULK_LIMIT: u32 = 1000;
