//! Polls: claims that are tried again without a notification, because notifications can be lost. In: the time, and how
//! long the last claim took. Out: which queue to try now.

use std::time::Duration;

use tokio::time::Instant;

use crate::news::Queues;

/// How often to poll while no notification can arrive.
const BLIND_POLL: Duration = Duration::from_millis(500);
/// How many times as long as the last claim took the pause after a poll is at least, and how long that becomes at most.
/// A claim takes long while deleted rows cannot be vacuumed.
const APART: u32 = 50;
const APART_MAX: Duration = Duration::from_secs(60);

pub(super) struct Polls {
    interval: Duration,
    at: Instant,
    /// The queue of the next poll. Turns and activities alternate, because a claim that is alone is one statement.
    next: Queues,
    /// How long the last claim took.
    took: Duration,
}

impl Polls {
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            at: now + BLIND_POLL,
            next: Queues::TURNS,
            took: Duration::ZERO,
        }
    }

    /// When the next poll is due.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// A claim took this long.
    pub(super) fn looked_for(&mut self, took: Duration) {
        self.took = took;
    }

    /// The queue to try, if a poll is due. `hears`: whether notifications arrive.
    pub(super) fn due(&mut self, now: Instant, hears: bool) -> Option<Queues> {
        if now < self.at {
            return None;
        }
        let pause = if hears {
            (self.interval / 2).max((self.took * APART).min(APART_MAX))
        } else {
            self.interval.min(BLIND_POLL) / 2
        };
        self.at = now + pause;
        let other = match self.next {
            Queues::TURNS => Queues::WORK,
            _ => Queues::TURNS,
        };
        Some(std::mem::replace(&mut self.next, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    #[test]
    fn polls_of_turns_and_activities_alternate_each_once_in_an_interval() {
        let now = Instant::now();
        let mut polls = Polls::new(INTERVAL, now);
        assert_eq!(polls.due(now, true), None);
        let first = polls.at();
        assert_eq!(polls.due(first, true), Some(Queues::TURNS));
        assert_eq!(polls.at(), first + INTERVAL / 2);
        assert_eq!(polls.due(polls.at(), true), Some(Queues::WORK));
        assert_eq!(polls.due(polls.at(), true), Some(Queues::TURNS));
    }

    #[test]
    fn polls_that_take_long_are_rare_as_long_as_notifications_arrive() {
        let mut polls = Polls::new(INTERVAL, Instant::now());
        polls.looked_for(Duration::from_millis(200));
        let first = polls.at();
        assert!(polls.due(first, true).is_some());
        assert_eq!(polls.at(), first + Duration::from_secs(10));
        polls.looked_for(Duration::from_secs(9));
        let second = polls.at();
        assert!(polls.due(second, true).is_some());
        assert_eq!(polls.at(), second + APART_MAX);
        let third = polls.at();
        assert!(polls.due(third, false).is_some());
        assert_eq!(polls.at(), third + BLIND_POLL / 2);
    }
}
