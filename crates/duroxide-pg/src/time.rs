//! Times between Rust and the server. In: durations and times of callers. Out: milliseconds that can be added without
//! leaving the range of a database's integers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Stands for any longer duration: some 30,000 years.
const LONGEST_MS: i64 = 1_000_000_000_000_000;
/// How long an answer may have taken to say what time it is: below the second by which the server's clock may be off.
const ANSWER_MAX: Duration = Duration::from_millis(800);
/// How long the last answer is worth something: no two clocks drift apart by a second in that time.
const WORTH_FOR: Duration = Duration::from_secs(60);

pub(crate) fn duration_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).map_or(LONGEST_MS, |ms| ms.min(LONGEST_MS))
}

/// A time of the outside world as it is stored; later than that means never.
pub(crate) fn stored_ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// A stored time as the outside world sees it.
pub(crate) fn shown_ms(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

/// What this process takes for the time of the store: the last answer, and what passed since. Sent along with every
/// call, so that a server whose clock was set back goes on from there. Never a source of time of its own.
#[derive(Debug, Default)]
pub(crate) struct Expected(Mutex<Option<Reading>>);

/// What the server answered when a call asked for its time.
#[derive(Debug, Clone, Copy)]
struct Reading {
    now: i64,
    /// What its clock could have said at most when the answer came.
    at_most: i64,
    at: Instant,
}

impl Expected {
    /// The server answered with its time to a call that was sent at `asked`. It may have looked at its clock as soon as
    /// it was asked, and what is expected must not be behind the store: then a clock that is set back would take the
    /// store back as far. An answer that took long says little about the time it arrives at.
    pub(crate) fn note(&self, now: i64, asked: Instant) {
        let took = asked.elapsed();
        if took <= ANSWER_MAX {
            let reading = Reading {
                now,
                at_most: now.saturating_add(duration_ms(took)),
                at: Instant::now(),
            };
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
        }
    }

    /// The last time that the server answered with: whatever it writes later has no earlier one, unless its clock was
    /// set back. `i64::MIN` as long as nothing is known.
    pub(crate) fn last(&self) -> i64 {
        let reading = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reading.map_or(i64::MIN, |it| it.now)
    }

    /// As much time has passed as a test moved the server's clock by.
    pub(crate) fn pass(&self, by: Duration) {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = reading.as_mut() {
            reading.at_most = reading.at_most.saturating_add(duration_ms(by));
        }
    }

    /// The time that the server is expected to have now; 0 as long as nothing is known, or if its last answer is so old
    /// that the clocks may have drifted apart.
    pub(crate) fn now(&self) -> i64 {
        let reading = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reading
            .filter(|it| it.at.elapsed() <= WORTH_FOR)
            .map_or(0, |it| {
                it.at_most.saturating_add(duration_ms(it.at.elapsed()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_expected_is_never_behind_the_store() {
        let expected = Expected::default();
        let asked = Instant::now();
        // The server looks at its clock at once, and the answer is on its way for a while.
        let answered = 1_000_000;
        tokio::time::advance(Duration::from_millis(300)).await;
        expected.note(answered, asked);
        assert_eq!(expected.now(), answered + 300);
        tokio::time::advance(Duration::from_millis(50)).await;
        assert_eq!(expected.now(), answered + 350);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_took_long_changes_nothing() {
        let expected = Expected::default();
        expected.note(1_000_000, Instant::now());
        let asked = Instant::now();
        tokio::time::advance(Duration::from_millis(900)).await;
        expected.note(1_000_000, asked);
        assert_eq!(expected.now(), 1_000_900);
        tokio::time::advance(WORTH_FOR).await;
        assert_eq!(expected.now(), 0, "the clocks may have drifted apart");
    }
}
