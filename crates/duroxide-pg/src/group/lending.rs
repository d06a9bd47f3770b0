//! Lends activities: the transaction that writes them leases them to claims of this process. In: a batch with the
//! activities that its turns ask for, and the claims that it carries. Out: which claim gets which activity, and the
//! answers to the claims.
//!
//! An idle claim has found nothing that waits: for all this process knows, no activity has waited longer than those
//! that it is about to write. So they go to idle claims at once. A claim on the server would look for them, past every
//! deleted row that cannot be vacuumed yet, and update each row.

use tokio::time::Instant;
use uuid::Uuid;

use super::batch::{Batch, WorkRider};
use super::loan::{Lent, Loan};
use super::write::Op;
use crate::calls::claim_turns::Claimed;
use crate::calls::claim_work::RawWork;
use crate::calls::commit_turn::Borrower;
use crate::codec::NewWork;
use crate::error::Result;
use crate::time::duration_ms;

impl Batch {
    /// The activities that the turns ask for, in the order of their call.
    fn asked_for(&self) -> impl Iterator<Item = &NewWork> {
        let commits = self.commits().into_iter();
        commits.flat_map(|commit| &commit.to_workers)
    }

    /// Decides which claim gets which activity. None gets any, if a claim could find something else: it was not idle,
    /// or the batch has an activity that belongs to no turn.
    pub(super) fn lend(&mut self) {
        let has_others = self.ops().any(|op| matches!(op, Op::Work(_)));
        let are_idle = self.work.iter().all(|rider| rider.idle.is_some());
        if has_others || !are_idle {
            return;
        }
        let mut room: Vec<usize> = self.work.iter().map(|rider| rider.ask.max).collect();
        let mut loans = Vec::new();
        let mut is_any_left = false;
        for (place, work) in self.asked_for().enumerate() {
            let takes = |(rider, room): &(&WorkRider, &usize)| {
                **room > 0 && work.session.is_none() && rider.plain.contains(&work.lane)
            };
            let Some(rider) = self.work.iter().zip(&room).position(|it| takes(&it)) else {
                is_any_left = true;
                continue;
            };
            room[rider] -= 1;
            loans.push(Loan {
                work: place,
                rider,
                token: Uuid::new_v4(),
            });
        }
        let are_full = room.iter().all(|room| *room == 0);
        if !is_any_left || are_full {
            self.loans = loans;
        }
    }

    /// The lease of each activity that is lent, in the order of their call.
    pub(super) fn borrowers(&self) -> Vec<Option<Borrower>> {
        let mut borrowers = vec![None; self.asked_for().count()];
        for loan in &self.loans {
            borrowers[loan.work] = Some(Borrower {
                token: loan.token,
                lock_ms: self.work[loan.rider].ask.lock_ms(),
            });
        }
        borrowers
    }

    /// The answers to the claims, if activities were lent to them: the exchange did not try them then.
    pub(super) fn answers_of_borrowers(
        &self,
        lent: &[Lent],
    ) -> Vec<(u64, Result<Claimed<RawWork>>)> {
        if self.loans.is_empty() {
            return Vec::new();
        }
        let works: Vec<&NewWork> = self.asked_for().collect();
        let is_more = self.loans.len() < works.len();
        let now = Instant::now();
        let answer = |(place, rider): (usize, &WorkRider)| {
            let loans = self.loans.iter().filter(|loan| loan.rider == place);
            let found: Vec<RawWork> = loans
                .filter_map(|loan| {
                    let lent = lent.iter().find(|one| one.token == loan.token)?;
                    Some(RawWork {
                        id: lent.id,
                        random: lent.token,
                        json: works[loan.work].json.clone(),
                        attempts: 1,
                        incarnation: lent.incarnation,
                    })
                })
                .collect();
            // It knows what it knew before, unless there was more than all of them take.
            let due = rider.idle.flatten();
            let due_ms = match (is_more, found.is_empty()) {
                // What is left waits for the next claim, also if a loan came to nothing: its activity was cancelled by
                // the turn that asked for it, or its instance is paused.
                (true, _) if found.len() < rider.ask.max => Some(0),
                (true, _) => None,
                (false, _) => Some(due.map_or(i64::MAX, |at| duration_ms(at.duration_since(now)))),
            };
            let claimed = Claimed {
                found,
                due_ms,
                ..Claimed::new()
            };
            (rider.id, Ok(claimed))
        };
        self.work.iter().enumerate().map(answer).collect()
    }
}
