//! Where claims wait for work. In: claims, effects of requests, time. Out: the claims that should be tried now. Knows no
//! table, and is never locked: it belongs to the writer thread.
//!
//! A claim is tried in the very transaction that made its work, so that a step and the claim of the next one share one
//! commit. A claim that comes when its queue was just found empty is put off a little: usually the next request brings
//! something, and the fruitless try is saved.

use std::time::{Duration, Instant};

use crate::claims::claim::Handover;
use crate::requests::job::Job;
use crate::tx::Effects;

/// How long a claim is put off that would probably find nothing.
const PUT_OFF: Duration = Duration::from_millis(1);

/// One of the two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Turns,
    Work,
}

/// How long a claim's caller still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    Lasts,
    /// It wants an answer, whatever it is.
    Over,
    /// It went away.
    Gone,
}

/// A claim as the lobby sees it.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) queue: Queue,
    pub(crate) patience: Patience,
    /// It has an answer worth giving.
    pub(crate) is_served: bool,
    /// Its last try did not exhaust the queue.
    pub(crate) leaves_more: bool,
    /// Whether it is to be answered at once, or after the commit.
    pub(crate) handover: Handover,
    /// When something becomes claimable, as its last try found out.
    pub(crate) due: Option<i64>,
}

struct Parked {
    claim: Box<dyn Job>,
    queue: Queue,
    try_at: Instant,
}

pub(crate) struct Lobby {
    parked: Vec<Parked>,
    /// Whether a queue may hold something that no claim has looked at.
    fresh_turns: bool,
    fresh_work: bool,
    /// How long a claim rests at most; bounds the harm of a clock that is set.
    recheck: Duration,
}

impl Lobby {
    pub(crate) fn new(recheck: Duration) -> Self {
        Self {
            parked: Vec::new(),
            fresh_turns: true,
            fresh_work: true,
            recheck,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// A claim has arrived.
    pub(crate) fn admit(&mut self, claim: Box<dyn Job>, wait: &Wait, now: Instant) {
        let put_off = match (*self.fresh(wait.queue), wait.patience) {
            (false, Patience::Lasts) => PUT_OFF,
            _ => Duration::ZERO,
        };
        self.parked.push(Parked {
            claim,
            queue: wait.queue,
            try_at: now + put_off,
        });
    }

    /// A claim was tried and the transaction committed; returns it if it is to be answered.
    pub(crate) fn settle(
        &mut self,
        claim: Box<dyn Job>,
        wait: &Wait,
        now: Instant,
        now_ms: i64,
    ) -> Option<Box<dyn Job>> {
        if wait.leaves_more {
            *self.fresh(wait.queue) = true;
        }
        if wait.is_served || wait.patience != Patience::Lasts {
            return Some(claim);
        }
        self.parked.push(Parked {
            claim,
            queue: wait.queue,
            try_at: now + self.nap(wait.due, now_ms),
        });
        None
    }

    /// Requests did this.
    pub(crate) fn hear(&mut self, effects: &[Effects], now: Instant, now_ms: i64) {
        let turns_at = effects.iter().filter_map(Effects::turns_at).min();
        let work_at = effects.iter().filter_map(Effects::work_at).min();
        self.note(Queue::Turns, turns_at, now, now_ms);
        self.note(Queue::Work, work_at, now, now_ms);
    }

    /// The claims of one queue to be tried now.
    pub(crate) fn call(&mut self, queue: Queue, now: Instant) -> Vec<Box<dyn Job>> {
        let mut called = Vec::new();
        for parked in std::mem::take(&mut self.parked) {
            if parked.queue == queue && self.is_called(&parked, now) {
                called.push(parked.claim);
            } else {
                self.parked.push(parked);
            }
        }
        if !called.is_empty() {
            *self.fresh(queue) = false;
        }
        called
    }

    /// Whether a claim should be tried now, without any request before it.
    pub(crate) fn is_anybody_called(&self, now: Instant) -> bool {
        self.parked.iter().any(|parked| self.is_called(parked, now))
    }

    /// When the next claim should be tried, unless something happens.
    pub(crate) fn next_call(&self) -> Option<Instant> {
        self.parked.iter().map(|parked| parked.try_at).min()
    }

    /// Sends everybody away. Nobody knows what the queues hold then.
    pub(crate) fn dismiss(&mut self) -> Vec<Box<dyn Job>> {
        self.ring_all();
        let parked = std::mem::take(&mut self.parked);
        parked.into_iter().map(|parked| parked.claim).collect()
    }

    /// Sends away who does not want to wait, or not any longer.
    pub(crate) fn give_up(&mut self) -> Vec<Box<dyn Job>> {
        self.ring_all();
        let all = std::mem::take(&mut self.parked);
        let (patient, gone) = all.into_iter().partition(Parked::is_patient);
        self.parked = patient;
        gone.into_iter()
            .map(|parked: Parked| parked.claim)
            .collect()
    }

    /// Both queues may have changed, nobody knows how.
    pub(crate) fn ring_all(&mut self) {
        self.fresh_turns = true;
        self.fresh_work = true;
    }

    /// Something becomes claimable at `at`.
    fn note(&mut self, queue: Queue, at: Option<i64>, now: Instant, now_ms: i64) {
        match at {
            None => {}
            Some(at) if at <= now_ms => *self.fresh(queue) = true,
            Some(at) => {
                let then = now + self.nap(Some(at), now_ms);
                for parked in &mut self.parked {
                    if parked.queue == queue {
                        parked.try_at = parked.try_at.min(then);
                    }
                }
            }
        }
    }

    fn is_called(&self, parked: &Parked, now: Instant) -> bool {
        let fresh = match parked.queue {
            Queue::Turns => self.fresh_turns,
            Queue::Work => self.fresh_work,
        };
        fresh || parked.try_at <= now || !parked.is_patient()
    }

    fn fresh(&mut self, queue: Queue) -> &mut bool {
        match queue {
            Queue::Turns => &mut self.fresh_turns,
            Queue::Work => &mut self.fresh_work,
        }
    }

    fn nap(&self, due: Option<i64>, now_ms: i64) -> Duration {
        match due {
            // At least a millisecond: a due time in the past was not claimable for another reason.
            Some(due) => {
                let ms = u64::try_from(due.saturating_sub(now_ms)).unwrap_or(0);
                Duration::from_millis(ms.max(1)).min(self.recheck)
            }
            None => self.recheck,
        }
    }
}

impl Parked {
    fn is_patient(&self) -> bool {
        self.claim
            .wait()
            .is_some_and(|wait| wait.patience == Patience::Lasts)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::claims::claim::{Overdue, Tried, claim};
    use crate::requests::inbox::Inbox;
    use crate::tx::{Result, Tx};

    const RECHECK: Duration = Duration::from_secs(5);

    /// A claim that finds nothing, and what keeps its caller's place.
    fn fruitless(queue: Queue, overdue: &Overdue) -> (Box<dyn Job>, impl Sized + use<>) {
        let work = |_: &mut Tx<'_>| Ok(Tried::nothing());
        let undo = |_: &mut Tx<'_>, (): &()| -> Result<()> { Ok(()) };
        claim(queue, overdue.clone(), Arc::new(Inbox::new()), work, undo)
    }

    fn admit(lobby: &mut Lobby, claim: Box<dyn Job>, now: Instant) {
        let wait = claim.wait().unwrap();
        lobby.admit(claim, &wait, now);
    }

    /// Tells the lobby what requests did and tries the claims it calls then, of both queues.
    fn call(
        lobby: &mut Lobby,
        effects: &[Effects],
        now: Instant,
        now_ms: i64,
    ) -> Vec<Box<dyn Job>> {
        lobby.hear(effects, now, now_ms);
        let mut called = lobby.call(Queue::Turns, now);
        called.extend(lobby.call(Queue::Work, now));
        called
    }

    /// A lobby in which both queues were found empty, with one claim that waits.
    fn waiting(queue: Queue, overdue: &Overdue, now: Instant) -> (Lobby, impl Sized + use<>) {
        let mut lobby = Lobby::new(RECHECK);
        let (claim, place) = fruitless(queue, overdue);
        admit(&mut lobby, claim, now);
        let claim = call(&mut lobby, &[], now, 0).pop().unwrap();
        let wait = claim.wait().unwrap();
        assert!(lobby.settle(claim, &wait, now, 0).is_none());
        (lobby, place)
    }

    #[test]
    fn the_first_claim_is_tried_at_once() {
        let mut lobby = Lobby::new(RECHECK);
        let (claim, _place) = fruitless(Queue::Turns, &Overdue::default());
        let now = Instant::now();
        admit(&mut lobby, claim, now);
        assert!(lobby.is_anybody_called(now));
        assert_eq!(call(&mut lobby, &[], now, 0).len(), 1);
    }

    #[test]
    fn a_claim_on_a_queue_just_found_empty_is_put_off_a_little() {
        let (now, patient) = (Instant::now(), Overdue::default());
        let (mut lobby, _place) = waiting(Queue::Turns, &patient, now);
        let (second, _second_place) = fruitless(Queue::Turns, &patient);
        admit(&mut lobby, second, now);
        assert!(call(&mut lobby, &[], now, 0).is_empty());
        assert_eq!(call(&mut lobby, &[], now + PUT_OFF, 0).len(), 1);
    }

    #[test]
    fn a_request_that_makes_work_calls_the_claims_of_its_queue_only() {
        let now = Instant::now();
        let (mut lobby, _place) = waiting(Queue::Turns, &Overdue::default(), now);
        let mut work = Effects::default();
        work.work_claimable_at(7);
        assert!(call(&mut lobby, &[work], now, 7).is_empty());
        let mut turn = Effects::default();
        turn.turn_claimable_at(7);
        assert_eq!(call(&mut lobby, &[turn], now, 7).len(), 1);
    }

    #[test]
    fn work_nobody_waited_for_is_found_by_the_next_claim_at_once() {
        let (now, patient) = (Instant::now(), Overdue::default());
        let (mut lobby, _place) = waiting(Queue::Turns, &patient, now);
        let mut work = Effects::default();
        work.work_claimable_at(7);
        call(&mut lobby, &[work], now, 7);
        let (claim, _second_place) = fruitless(Queue::Work, &patient);
        admit(&mut lobby, claim, now);
        assert_eq!(call(&mut lobby, &[], now, 7).len(), 1);
    }

    #[test]
    fn a_sooner_due_time_calls_a_claim_sooner_and_a_later_one_does_not() {
        let now = Instant::now();
        let (mut lobby, _place) = waiting(Queue::Turns, &Overdue::default(), now);
        let mut later = Effects::default();
        later.turn_claimable_at(60_000);
        call(&mut lobby, &[later], now, 0);
        assert_eq!(lobby.next_call(), Some(now + RECHECK));
        let mut sooner = Effects::default();
        sooner.turn_claimable_at(50);
        call(&mut lobby, &[sooner], now, 0);
        assert_eq!(lobby.next_call(), Some(now + Duration::from_millis(50)));
    }

    #[test]
    fn a_caller_whose_patience_is_over_is_called_and_answered() {
        let (now, overdue) = (Instant::now(), Overdue::default());
        let (mut lobby, _place) = waiting(Queue::Turns, &overdue, now);
        assert!(!lobby.is_anybody_called(now));
        overdue.tell();
        let claim = call(&mut lobby, &[], now, 0).pop().unwrap();
        let wait = claim.wait().unwrap();
        assert!(lobby.settle(claim, &wait, now, 0).is_some());
    }

    #[test]
    fn a_caller_that_went_away_leaves_the_lobby() {
        let now = Instant::now();
        let (mut lobby, place) = waiting(Queue::Turns, &Overdue::default(), now);
        drop(place);
        let claim = call(&mut lobby, &[], now, 0).pop().unwrap();
        let wait = claim.wait().unwrap();
        assert!(lobby.settle(claim, &wait, now, 0).is_some());
        assert!(lobby.is_empty());
    }
}
