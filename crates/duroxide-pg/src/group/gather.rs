//! When to send what waits. In: what was handed out, and what came back. Out: whether to wait for more of it.
//!
//! Turns that one exchange hands out are committed a moment later, one by one. An exchange that left with the first of those commits
//! would carry it alone, and most of what an exchange costs does not depend on how much it carries. So the group waits until all
//! have come back, but never for longer than [`MOMENT`], and not at all for those who lately took longer than that.

use std::time::Duration;

use tokio::time::Instant;

/// For how long an exchange waits for those who were handed something.
const MOMENT: Duration = Duration::from_millis(3);

/// Those who were handed something and are expected back.
#[derive(Debug)]
struct Callers {
    expected: usize,
    /// Whether one of them came back within a moment, the last time.
    are_quick: bool,
}

impl Callers {
    const NONE: Self = Self {
        expected: 0,
        are_quick: true,
    };

    fn left_with(&mut self, handed_out: usize) {
        if self.are_quick {
            self.expected += handed_out;
        }
    }

    fn came_back(&mut self, in_time: bool) {
        self.expected = self.expected.saturating_sub(1);
        self.are_quick |= in_time;
    }

    fn give_up(&mut self) {
        self.are_quick &= self.expected == 0;
        self.expected = 0;
    }
}

/// Who is expected back, and until when.
#[derive(Debug)]
pub(super) struct Gathering {
    turns: Callers,
    work: Callers,
    until: Instant,
}

impl Gathering {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            turns: Callers::NONE,
            work: Callers::NONE,
            until: now,
        }
    }

    /// Turns and activities were handed out.
    pub(super) fn hand_out(&mut self, turns: usize, work: usize, now: Instant) {
        if turns + work > 0 {
            self.turns.left_with(turns);
            self.work.left_with(work);
            self.until = now + MOMENT;
        }
    }

    /// A turn wants to be committed.
    pub(super) fn commit(&mut self, now: Instant) {
        self.turns.came_back(now < self.until);
    }

    /// An activity wants to be completed.
    pub(super) fn complete(&mut self, now: Instant) {
        self.work.came_back(now < self.until);
    }

    /// Until when to wait for more; `None` if nobody is expected.
    pub(super) fn waits_until(&mut self, now: Instant) -> Option<Instant> {
        if now >= self.until {
            self.turns.give_up();
            self.work.give_up();
        }
        (self.turns.expected + self.work.expected > 0).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_were_handed_something_are_waited_for() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now);
        assert_eq!(gathering.waits_until(now), None);
        gathering.hand_out(2, 1, now);
        gathering.commit(now);
        gathering.complete(now);
        assert_eq!(gathering.waits_until(now), Some(now + MOMENT));
        gathering.commit(now);
        assert_eq!(gathering.waits_until(now), None);
    }

    #[test]
    fn nobody_is_waited_for_longer_than_a_moment() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now);
        gathering.hand_out(1, 0, now);
        assert_eq!(gathering.waits_until(now + MOMENT), None);
    }

    #[test]
    fn those_who_take_long_are_not_waited_for_until_one_is_quick_again() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now);
        gathering.hand_out(0, 2, now);
        let late = now + MOMENT;
        assert_eq!(gathering.waits_until(late), None);
        gathering.complete(late);
        gathering.hand_out(0, 1, late);
        assert_eq!(gathering.waits_until(late), None, "they took too long");
        gathering.complete(late);
        gathering.hand_out(0, 1, late);
        assert_eq!(gathering.waits_until(late), Some(late + MOMENT));
    }

    #[test]
    fn slow_activities_do_not_keep_turns_from_being_waited_for() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now);
        gathering.hand_out(0, 1, now);
        let late = now + MOMENT;
        assert_eq!(gathering.waits_until(late), None);
        gathering.hand_out(1, 1, late);
        assert_eq!(gathering.waits_until(late), Some(late + MOMENT));
        gathering.commit(late);
        assert_eq!(gathering.waits_until(late), None);
    }
}
