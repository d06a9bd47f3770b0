//! What goes into one transaction. In: the requests that have queued up, and claims that wait. Out: all of them run in
//! the open group, turns handed out ahead of the commit, and what those decided in the meantime.
//!
//! A step of an orchestration is a message, the claim of its turn, and the commit of that turn. Handed out ahead, the
//! turn runs while the transaction is open, and all three share one commit. Activities are never handed out ahead:
//! what they do is seen outside, so that they were scheduled must be on disk first.

use std::time::{Duration, Instant};

use super::{Batch, GROUP_MAX, Writer};
use crate::claims::claim::Handover;
use crate::claims::waiting_claims::{Lobby, Patience, Queue};
use crate::early::in_flight::Ahead;
use crate::requests::job::Job;
use crate::tx::Result;
use crate::writer::group::{Group, Ran};

/// How long a transaction waits for the next turn that is out; a turn that takes longer commits with a later one.
const HOLD: Duration = Duration::from_micros(150);
/// How long a transaction stays open at most for turns that are out. Others, and other processes, wait for its end.
const HOLD_MAX: Duration = Duration::from_millis(2);
/// With more jobs than this there is no waiting: a commit is shared by many already.
const HOLD_JOBS_MAX: usize = 8;

impl Writer {
    /// Runs what has queued up and hands out turns, as long as turns come back soon.
    pub(super) fn fill(
        &self,
        group: &mut Group<'_, '_>,
        batch: &mut Batch,
        lobby: &mut Lobby,
        ahead: &Ahead,
    ) -> Result<()> {
        let until = Instant::now() + HOLD_MAX;
        loop {
            let jobs = std::mem::take(&mut batch.jobs);
            run(group, jobs, lobby)?;
            lobby.hear(group.news(), Instant::now(), self.now_ms());
            self.hand_out(group, lobby)?;
            if !ahead.anybody_out() || group.len() >= GROUP_MAX || group.has_started_over() {
                break;
            }
            let hold = if group.len() > HOLD_JOBS_MAX {
                Duration::ZERO
            } else {
                HOLD
            };
            let now = Instant::now();
            if now >= until || !self.turns_come_back(batch, lobby, until.min(now + hold)) {
                break;
            }
        }
        let claims = lobby.call(Queue::Work, Instant::now());
        run(group, claims, lobby)
    }

    /// Tries the claims of turns, and answers those whose callers take turns ahead.
    fn hand_out(&self, group: &mut Group<'_, '_>, lobby: &mut Lobby) -> Result<()> {
        let from = group.len();
        let claims = lobby.call(Queue::Turns, Instant::now());
        run(group, claims, lobby)?;
        let (now, now_ms) = (Instant::now(), self.now_ms());
        for claim in group.split_off(from) {
            match claim.wait() {
                Some(wait) if wait.is_served && wait.handover == Handover::Ahead => {
                    self.uncommitted.say(true);
                    if let Some(claim) = lobby.settle(claim, &wait, now, now_ms) {
                        claim.answer();
                    }
                }
                // Back to where it waits, to be called again.
                Some(wait) if !wait.is_served && wait.patience == Patience::Lasts => {
                    group.extend(lobby.settle(claim, &wait, now, now_ms));
                }
                Some(_) | None => group.extend(Some(claim)),
            }
        }
        Ok(())
    }

    /// Waits for jobs; whether any came in time.
    fn turns_come_back(&self, batch: &mut Batch, lobby: &mut Lobby, until: Instant) -> bool {
        loop {
            self.gather(Some(Duration::ZERO), batch, lobby);
            let left = until.saturating_duration_since(Instant::now());
            if !batch.jobs.is_empty() || left.is_zero() {
                return !batch.jobs.is_empty();
            }
            self.inbox.linger(left);
        }
    }
}

fn run(group: &mut Group<'_, '_>, jobs: Vec<Box<dyn Job>>, lobby: &mut Lobby) -> Result<()> {
    if group.run(jobs)? == Ran::Again {
        // The claims handed out before were undone with the rest, and somebody should claim their turns anew.
        lobby.ring_all();
    }
    Ok(())
}
