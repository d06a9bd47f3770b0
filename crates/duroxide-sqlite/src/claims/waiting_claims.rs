//! Claims that wait for something to claim. In: claims, effects of requests, time. Out: the claims that should be tried
//! now. Belongs to the writer thread; knows no table.
//!
//! The writer tries a claim in the same transaction that made its work, so that a step and the claim of the next one
//! share one commit. A claim on a queue that was just found empty is postponed a little: usually the next request
//! brings something, and a fruitless try is saved.

use std::time::{Duration, Instant};

use crate::requests::{CallerState, ClaimQueue, ClaimState, Job};
use crate::tx::Effects;

/// How long a claim is postponed that would probably find nothing.
const POSTPONE: Duration = Duration::from_millis(1);

struct WaitingClaim {
    claim: Box<dyn Job>,
    queue: ClaimQueue,
    try_at: Instant,
}

/// The claims that wait in the writer.
pub(crate) struct WaitingClaims {
    waiting: Vec<WaitingClaim>,
    /// Whether a queue may hold something that no claim has looked at.
    unseen_turns: bool,
    unseen_work: bool,
    /// How long a claim waits for its next try at most; bounds the harm of a clock that is set.
    recheck: Duration,
}

impl WaitingClaims {
    pub(crate) fn new(recheck: Duration) -> Self {
        Self {
            waiting: Vec::new(),
            unseen_turns: true,
            unseen_work: true,
            recheck,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A claim has arrived.
    pub(crate) fn add(&mut self, claim: Box<dyn Job>, state: &ClaimState, now: Instant) {
        let postpone = match (*self.unseen(state.queue), state.caller) {
            (false, CallerState::Waiting) => POSTPONE,
            _ => Duration::ZERO,
        };
        self.waiting.push(WaitingClaim {
            claim,
            queue: state.queue,
            try_at: now + postpone,
        });
    }

    /// The writer has tried a claim. Returns it if the writer is to answer it; keeps it if its caller waits on.
    pub(crate) fn keep_unless_answered(
        &mut self,
        claim: Box<dyn Job>,
        state: &ClaimState,
        now: Instant,
        now_ms: i64,
    ) -> Option<Box<dyn Job>> {
        if state.leaves_more {
            *self.unseen(state.queue) = true;
        }
        if state.has_answer || state.caller != CallerState::Waiting {
            return Some(claim);
        }
        self.waiting.push(WaitingClaim {
            claim,
            queue: state.queue,
            try_at: now + self.pause(state.due, now_ms),
        });
        None
    }

    /// Requests of the open transaction had these effects: claims that they concern are due now or sooner.
    pub(crate) fn note(&mut self, effects: &[Effects], now: Instant, now_ms: i64) {
        let turns_at = effects.iter().filter_map(Effects::turns_at).min();
        let work_at = effects.iter().filter_map(Effects::work_at).min();
        self.claimable_at(ClaimQueue::Turns, turns_at, now, now_ms);
        self.claimable_at(ClaimQueue::Work, work_at, now, now_ms);
    }

    /// Takes the claims of one queue that should be tried now.
    pub(crate) fn take_due(&mut self, queue: ClaimQueue, now: Instant) -> Vec<Box<dyn Job>> {
        let mut due = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.queue == queue && self.is_due(&waiting, now) {
                due.push(waiting.claim);
            } else {
                self.waiting.push(waiting);
            }
        }
        if !due.is_empty() {
            *self.unseen(queue) = false;
        }
        due
    }

    /// Whether a claim should be tried now, without any request before it.
    pub(crate) fn any_due(&self, now: Instant) -> bool {
        self.waiting.iter().any(|waiting| self.is_due(waiting, now))
    }

    /// When the next claim should be tried, unless a request comes before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.try_at).min()
    }

    /// Takes all claims, to fail them. What the queues hold is not certain afterwards.
    pub(crate) fn take_all(&mut self) -> Vec<Box<dyn Job>> {
        self.queues_changed();
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|waiting| waiting.claim).collect()
    }

    /// Takes the claims whose callers wait no longer, to fail them. What the queues hold is not certain afterwards.
    pub(crate) fn take_overdue(&mut self) -> Vec<Box<dyn Job>> {
        self.queues_changed();
        let all = std::mem::take(&mut self.waiting);
        let (waiting, overdue) = all.into_iter().partition(WaitingClaim::caller_waits);
        self.waiting = waiting;
        overdue
            .into_iter()
            .map(|waiting: WaitingClaim| waiting.claim)
            .collect()
    }

    /// Both queues may have changed in any way: every claim is due.
    pub(crate) fn queues_changed(&mut self) {
        self.unseen_turns = true;
        self.unseen_work = true;
    }

    /// Something becomes claimable at `at`.
    fn claimable_at(&mut self, queue: ClaimQueue, at: Option<i64>, now: Instant, now_ms: i64) {
        match at {
            None => {}
            Some(at) if at <= now_ms => *self.unseen(queue) = true,
            Some(at) => {
                let then = now + self.pause(Some(at), now_ms);
                for waiting in &mut self.waiting {
                    if waiting.queue == queue {
                        waiting.try_at = waiting.try_at.min(then);
                    }
                }
            }
        }
    }

    fn is_due(&self, waiting: &WaitingClaim, now: Instant) -> bool {
        let unseen = match waiting.queue {
            ClaimQueue::Turns => self.unseen_turns,
            ClaimQueue::Work => self.unseen_work,
        };
        unseen || waiting.try_at <= now || !waiting.caller_waits()
    }

    fn unseen(&mut self, queue: ClaimQueue) -> &mut bool {
        match queue {
            ClaimQueue::Turns => &mut self.unseen_turns,
            ClaimQueue::Work => &mut self.unseen_work,
        }
    }

    /// How long until the next try.
    fn pause(&self, due: Option<i64>, now_ms: i64) -> Duration {
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

impl WaitingClaim {
    fn caller_waits(&self) -> bool {
        self.claim
            .claim_state()
            .is_some_and(|state| state.caller == CallerState::Waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::claims::claim::{Deadline, GiveBack, claim};
    use crate::error::Result;
    use crate::ops::claim_try::ClaimTry;
    use crate::writer_tx::WriterTx;

    const RECHECK: Duration = Duration::from_secs(5);

    /// Takes nothing back: nothing is ever claimed here.
    struct Nothing;

    impl GiveBack for Nothing {
        fn give_back(&self, _job: Box<dyn Job>) {}
    }

    /// A claim that finds nothing, and the caller's end of it.
    fn fruitless(queue: ClaimQueue, deadline: &Deadline) -> (Box<dyn Job>, impl Sized + use<>) {
        let work = |_: &mut WriterTx<'_>| Ok(ClaimTry::nothing());
        let undo = |_: &mut WriterTx<'_>, (): &()| -> Result<()> { Ok(()) };
        claim(queue, deadline.clone(), Arc::new(Nothing), work, undo)
    }

    fn add(claims: &mut WaitingClaims, claim: Box<dyn Job>, now: Instant) {
        let state = claim.claim_state().unwrap();
        claims.add(claim, &state, now);
    }

    /// Notes what requests did, then takes the due claims of both queues.
    fn due(
        claims: &mut WaitingClaims,
        effects: &[Effects],
        now: Instant,
        now_ms: i64,
    ) -> Vec<Box<dyn Job>> {
        claims.note(effects, now, now_ms);
        let mut due = claims.take_due(ClaimQueue::Turns, now);
        due.extend(claims.take_due(ClaimQueue::Work, now));
        due
    }

    /// Both queues were found empty, and one claim waits.
    fn waiting(
        queue: ClaimQueue,
        deadline: &Deadline,
        now: Instant,
    ) -> (WaitingClaims, impl Sized + use<>) {
        let mut claims = WaitingClaims::new(RECHECK);
        let (claim, caller) = fruitless(queue, deadline);
        add(&mut claims, claim, now);
        let claim = due(&mut claims, &[], now, 0).pop().unwrap();
        let state = claim.claim_state().unwrap();
        assert!(claims.keep_unless_answered(claim, &state, now, 0).is_none());
        (claims, caller)
    }

    #[test]
    fn the_first_claim_is_tried_at_once() {
        let mut claims = WaitingClaims::new(RECHECK);
        let (claim, _caller) = fruitless(ClaimQueue::Turns, &Deadline::default());
        let now = Instant::now();
        add(&mut claims, claim, now);
        assert!(claims.any_due(now));
        assert_eq!(due(&mut claims, &[], now, 0).len(), 1);
    }

    #[test]
    fn a_claim_on_a_queue_just_found_empty_is_postponed() {
        let (now, patient) = (Instant::now(), Deadline::default());
        let (mut claims, _caller) = waiting(ClaimQueue::Turns, &patient, now);
        let (second, _second_caller) = fruitless(ClaimQueue::Turns, &patient);
        add(&mut claims, second, now);
        assert!(due(&mut claims, &[], now, 0).is_empty());
        assert_eq!(due(&mut claims, &[], now + POSTPONE, 0).len(), 1);
    }

    #[test]
    fn a_request_that_makes_work_makes_the_claims_of_its_queue_due_and_no_others() {
        let now = Instant::now();
        let (mut claims, _caller) = waiting(ClaimQueue::Turns, &Deadline::default(), now);
        let mut work = Effects::default();
        work.work_claimable_at(7);
        assert!(due(&mut claims, &[work], now, 7).is_empty());
        let mut turn = Effects::default();
        turn.turn_claimable_at(7);
        assert_eq!(due(&mut claims, &[turn], now, 7).len(), 1);
    }

    #[test]
    fn work_without_a_waiting_claim_is_found_by_the_next_claim_at_once() {
        let (now, patient) = (Instant::now(), Deadline::default());
        let (mut claims, _caller) = waiting(ClaimQueue::Turns, &patient, now);
        let mut work = Effects::default();
        work.work_claimable_at(7);
        due(&mut claims, &[work], now, 7);
        let (claim, _second_caller) = fruitless(ClaimQueue::Work, &patient);
        add(&mut claims, claim, now);
        assert_eq!(due(&mut claims, &[], now, 7).len(), 1);
    }

    #[test]
    fn a_sooner_due_time_brings_a_claim_forward_and_a_later_one_does_not() {
        let now = Instant::now();
        let (mut claims, _caller) = waiting(ClaimQueue::Turns, &Deadline::default(), now);
        let mut later = Effects::default();
        later.turn_claimable_at(60_000);
        due(&mut claims, &[later], now, 0);
        assert_eq!(claims.next_due(), Some(now + RECHECK));
        let mut sooner = Effects::default();
        sooner.turn_claimable_at(50);
        due(&mut claims, &[sooner], now, 0);
        assert_eq!(claims.next_due(), Some(now + Duration::from_millis(50)));
    }

    #[test]
    fn a_claim_whose_deadline_passed_is_due_and_answered() {
        let (now, deadline) = (Instant::now(), Deadline::default());
        let (mut claims, _caller) = waiting(ClaimQueue::Turns, &deadline, now);
        assert!(!claims.any_due(now));
        deadline.pass();
        let claim = due(&mut claims, &[], now, 0).pop().unwrap();
        let state = claim.claim_state().unwrap();
        assert!(claims.keep_unless_answered(claim, &state, now, 0).is_some());
    }

    #[test]
    fn a_claim_whose_caller_is_gone_does_not_wait_on() {
        let now = Instant::now();
        let (mut claims, caller) = waiting(ClaimQueue::Turns, &Deadline::default(), now);
        drop(caller);
        let claim = due(&mut claims, &[], now, 0).pop().unwrap();
        let state = claim.claim_state().unwrap();
        assert!(claims.keep_unless_answered(claim, &state, now, 0).is_some());
        assert!(claims.is_empty());
    }
}
