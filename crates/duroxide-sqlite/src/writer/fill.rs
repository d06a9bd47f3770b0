//! What goes into one transaction. In: the jobs that have queued up, and the waiting claims. Out: all of them run in
//! the open group, turns handed out early, and the commits of those turns that came back in time. The protocol is in
//! `early/mod.rs`.

use std::time::{Duration, Instant};

use duroxide_core::provider::HandOut;

use super::batch::Batch;
use super::group::{Group, Ran};
use super::{GROUP_MAX, Writer};
use crate::claims::WaitingClaims;
use crate::early::InFlight;
use crate::error::Result;
use crate::kill;
use crate::requests::{CallerState, ClaimQueue, Job};

/// How long the writer waits for the next turn in flight; a turn that takes longer commits with a later transaction.
const HOLD: Duration = Duration::from_micros(150);
/// How long a transaction stays open at most for turns in flight. Other requests, and other processes, wait for its
/// end.
const HOLD_MAX: Duration = Duration::from_millis(2);
/// With more jobs than this the writer does not wait: many share the commit already.
const HOLD_JOBS_MAX: usize = 8;

impl Writer {
    /// Runs what has queued up and hands out turns, as long as turns come back soon.
    pub(super) fn fill(
        &self,
        group: &mut Group<'_, '_>,
        batch: &mut Batch,
        claims: &mut WaitingClaims,
        in_flight: &InFlight,
    ) -> Result<()> {
        let until = Instant::now() + HOLD_MAX;
        loop {
            let jobs = std::mem::take(&mut batch.jobs);
            run(group, jobs, claims)?;
            claims.note(group.new_effects(), Instant::now(), self.now_ms());
            self.hand_out(group, claims)?;
            if !in_flight.any() || group.len() >= GROUP_MAX || group.has_started_over() {
                break;
            }
            let hold = if group.len() > HOLD_JOBS_MAX {
                Duration::ZERO
            } else {
                HOLD
            };
            let now = Instant::now();
            if now >= until || !self.turns_come_back(batch, claims, until.min(now + hold)) {
                break;
            }
        }
        if group.write_in_flight()? == Ran::Again {
            claims.queues_changed();
        }
        // Last: activities are never handed out early.
        let work = claims.take_due(ClaimQueue::Work, Instant::now());
        run(group, work, claims)
    }

    /// Tries the claims of turns, and answers those whose callers accept turns before the commit.
    fn hand_out(&self, group: &mut Group<'_, '_>, claims: &mut WaitingClaims) -> Result<()> {
        let from = group.len();
        let due = claims.take_due(ClaimQueue::Turns, Instant::now());
        run(group, due, claims)?;
        let (now, now_ms) = (Instant::now(), self.now_ms());
        for claim in group.split_off(from) {
            match claim.claim_state() {
                Some(state) if state.has_answer && state.hand_out == HandOut::BeforeCommit => {
                    self.uncommitted.set(true);
                    if let Some(claim) = claims.keep_unless_answered(claim, &state, now, now_ms) {
                        claim.answer();
                    }
                    kill::point("handed_out_early");
                }
                // It found nothing, and may be tried again in this very transaction.
                Some(state) if !state.has_answer && state.caller == CallerState::Waiting => {
                    group.put_back(claims.keep_unless_answered(claim, &state, now, now_ms));
                }
                Some(_) | None => group.put_back(Some(claim)),
            }
        }
        Ok(())
    }

    /// Waits for jobs. Returns whether any came in time.
    fn turns_come_back(
        &self,
        batch: &mut Batch,
        claims: &mut WaitingClaims,
        until: Instant,
    ) -> bool {
        loop {
            self.gather(Some(Duration::ZERO), batch, claims);
            let left = until.saturating_duration_since(Instant::now());
            if !batch.jobs.is_empty() || left.is_zero() {
                return !batch.jobs.is_empty();
            }
            self.inbox.linger(left);
        }
    }
}

fn run(
    group: &mut Group<'_, '_>,
    jobs: Vec<Box<dyn Job>>,
    claims: &mut WaitingClaims,
) -> Result<()> {
    if group.run(jobs)? == Ran::Again {
        // The claims that had been handed out were rolled back with the rest: their turns can be claimed again.
        claims.queues_changed();
    }
    Ok(())
}
