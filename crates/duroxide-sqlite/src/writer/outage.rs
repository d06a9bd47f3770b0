//! A database that cannot be opened again. In: failed attempts. Out: the error for the callers, and when to try again.

use std::time::Duration;

use crate::error::SqliteError;

/// The first pause between two attempts, and the longest.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the database has been out of reach.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failed_attempts: u32,
}

impl Outage {
    pub(super) fn is_on(&self) -> bool {
        self.failed_attempts > 0
    }

    /// An attempt failed. Returns the error for the callers: they may try again, because the file was ours when the
    /// store was opened, and whatever is wrong with it now may be put right.
    pub(super) fn goes_on(&mut self, why: &SqliteError) -> SqliteError {
        self.failed_attempts = self.failed_attempts.saturating_add(1);
        if self.failed_attempts == 1 {
            tracing::warn!(target: "duroxide::providers::sqlite", error = %why, "the database is out of reach, the writer tries to open it again");
        }
        SqliteError::OutOfReach {
            why: why.to_string(),
        }
    }

    pub(super) fn is_over(&mut self) {
        if self.is_on() {
            tracing::info!(target: "duroxide::providers::sqlite", attempts = self.failed_attempts, "the database is back");
        }
        self.failed_attempts = 0;
    }

    /// Until the next attempt, if no request comes before.
    pub(super) fn pause(&self) -> Option<Duration> {
        let doublings = self.failed_attempts.checked_sub(1)?.min(5);
        Some((RETRY_PAUSE * (1 << doublings)).min(RETRY_PAUSE_MAX))
    }
}
