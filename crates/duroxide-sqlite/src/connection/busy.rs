//! Waiting for locks of other connections. In: SQLite's question whether to try again. Out: a short sleep, or no once
//! the limit is reached.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a connection waits for another program's lock, at most.
const BUSY_LIMIT: Duration = Duration::from_secs(5);

thread_local! {
    /// Until when this thread waits for a lock, if it has a limit of its own.
    static WAIT_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    /// How often this thread has waited since it was asked.
    static WAITS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has waited for a lock since it was asked last.
pub(crate) fn take_waits() -> u64 {
    WAITS.take()
}

/// Runs `work` without waiting longer than this for locks of other connections.
pub(crate) fn waiting_at_most<T>(limit: Duration, work: impl FnOnce() -> T) -> T {
    WAIT_UNTIL.set(Some(Instant::now() + limit));
    let done = work();
    WAIT_UNTIL.set(None);
    done
}

/// Waits a little for another program's lock; `false` once the limit is reached. The sleeps are short: with several
/// processes on one file the lock is free again after a commit, and SQLite's own back-off would oversleep it.
pub(crate) fn wait_for_lock(attempt: i32) -> bool {
    const SLEEP: Duration = Duration::from_millis(1);
    let sleeps = BUSY_LIMIT.as_millis() / SLEEP.as_millis();
    let is_in_time = WAIT_UNTIL.get().is_none_or(|until| Instant::now() < until);
    if !is_in_time || u128::from(attempt.unsigned_abs()) >= sleeps {
        return false;
    }
    WAITS.set(WAITS.get().saturating_add(1));
    std::thread::sleep(SLEEP);
    true
}
