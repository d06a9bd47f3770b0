//! When the next exchange begins. In: what the group handed out, and what came back. Out: until when to wait for more.
//!
//! Dispatchers commit the turns of one exchange a moment later, one by one. An exchange that left with the first of
//! those commits would carry it alone, and most of what an exchange costs does not depend on how much it carries. So
//! the group waits until all commits have come, but never for longer than [`GATHER_MAX`], and not at all if turns, or
//! activities, lately took longer than that.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

/// For how long an exchange waits for what was handed out.
const GATHER_MAX: Duration = Duration::from_millis(3);

/// Turns or activities that were handed out and have not come back, by their tokens.
#[derive(Debug)]
struct HandedOut {
    tokens: HashSet<Uuid>,
    /// Whether one of the last ones came back in time.
    are_quick: bool,
}

impl HandedOut {
    fn none() -> Self {
        Self {
            tokens: HashSet::new(),
            are_quick: true,
        }
    }

    fn came_back(&mut self, token: Uuid) {
        self.are_quick |= self.tokens.remove(&token);
    }

    fn give_up(&mut self) {
        self.are_quick &= self.tokens.is_empty();
        self.tokens.clear();
    }

    fn are_expected(&self) -> bool {
        self.are_quick && !self.tokens.is_empty()
    }
}

/// What is expected back, and until when.
#[derive(Debug)]
pub(super) struct Gathering {
    turns: HandedOut,
    work: HandedOut,
    until: Instant,
}

impl Gathering {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            turns: HandedOut::none(),
            work: HandedOut::none(),
            until: now,
        }
    }

    /// The group handed out turns and activities.
    pub(super) fn hand_out(
        &mut self,
        turns: impl Iterator<Item = Uuid>,
        work: impl Iterator<Item = Uuid>,
        now: Instant,
    ) {
        let before = self.turns.tokens.len() + self.work.tokens.len();
        self.turns.tokens.extend(turns);
        self.work.tokens.extend(work);
        if self.turns.tokens.len() + self.work.tokens.len() > before {
            self.until = now + GATHER_MAX;
        }
    }

    /// A dispatcher commits a turn.
    pub(super) fn commit(&mut self, token: Uuid) {
        self.turns.came_back(token);
    }

    /// A worker completes an activity.
    pub(super) fn complete(&mut self, token: Uuid) {
        self.work.came_back(token);
    }

    /// Until when to wait for more; `None` if nothing is expected.
    pub(super) fn waits_until(&mut self, now: Instant) -> Option<Instant> {
        if now >= self.until {
            self.turns.give_up();
            self.work.give_up();
        }
        let are_expected = self.turns.are_expected() || self.work.are_expected();
        are_expected.then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn hand_out(gathering: &mut Gathering, turns: &[u128], work: &[u128], now: Instant) {
        let tokens = |all: &[u128]| all.iter().map(|n| token(*n)).collect::<Vec<_>>();
        let (turns, work) = (tokens(turns), tokens(work));
        gathering.hand_out(turns.into_iter(), work.into_iter(), now);
    }

    #[test]
    fn all_that_was_handed_out_is_waited_for() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now);
        assert_eq!(gathering.waits_until(now), None);
        hand_out(&mut gathering, &[1, 2], &[3], now);
        gathering.commit(token(1));
        gathering.complete(token(3));
        assert_eq!(gathering.waits_until(now), Some(now + GATHER_MAX));
        gathering.commit(token(2));
        assert_eq!(gathering.waits_until(now), None);
    }

    #[test]
    fn nothing_is_waited_for_longer_than_the_limit() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now);
        hand_out(&mut gathering, &[1], &[], now);
        assert_eq!(gathering.waits_until(now + GATHER_MAX), None);
    }

    #[test]
    fn slow_activities_are_not_waited_for_until_one_is_quick_again() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now);
        hand_out(&mut gathering, &[], &[1, 2], now);
        let late = now + GATHER_MAX;
        assert_eq!(gathering.waits_until(late), None);
        hand_out(&mut gathering, &[], &[3], late);
        gathering.complete(token(1));
        assert_eq!(gathering.waits_until(late), None, "the first one took long");
        gathering.complete(token(3));
        hand_out(&mut gathering, &[], &[4], late);
        assert_eq!(gathering.waits_until(late), Some(late + GATHER_MAX));
    }

    #[test]
    fn slow_activities_do_not_keep_turns_from_being_waited_for() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now);
        hand_out(&mut gathering, &[], &[1], now);
        let late = now + GATHER_MAX;
        assert_eq!(gathering.waits_until(late), None);
        hand_out(&mut gathering, &[2], &[3], late);
        assert_eq!(gathering.waits_until(late), Some(late + GATHER_MAX));
        gathering.commit(token(2));
        assert_eq!(gathering.waits_until(late), None);
    }
}
