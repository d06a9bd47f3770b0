//! How exchanges begin. In: writes and claims that wait. Out: exchanges under way, and when to look again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Batch;
use super::{Group, exchange};

/// Later than anything that is waited for.
const FAR: Duration = Duration::from_secs(3_600);

impl Group {
    /// When the next exchange may begin, unless something happens before; `None` if it may begin now.
    fn launches_at(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let after_others = self.exchanges.next_at(now);
        let is_urgent = self
            .writes
            .front()
            .is_some_and(|write| write.op.is_renewal());
        let after_gathering = self.gathering.waits_until(now).filter(|_| !is_urgent);
        // A claim that waits and was not answered early has to be tried first.
        let is_answered = self.turns.claims.is_empty() && !is_urgent;
        let after_claims = self.early.waits_until(now).filter(|_| is_answered);
        after_others.max(after_gathering).max(after_claims)
    }

    /// Begins every exchange that may begin now. Returns when the next one may; `None` if there is nothing to exchange.
    pub(super) fn launch_all(&mut self) -> Option<Instant> {
        loop {
            match self.launches_at() {
                None if self.launch() => {}
                at => return at,
            }
        }
    }

    /// When the task wakes up next. `launches_at` is what [`launch_all`](Self::launch_all) returned: computed anew, the
    /// time could have passed without an exchange.
    pub(super) fn wakes_at(&self, launches_at: Option<Instant>) -> Instant {
        let is_busy = launches_at.is_some();
        let turns = self.turns.claims.wakes_at(is_busy);
        let claims = turns.into_iter().chain(self.work.claims.wakes_at(is_busy));
        let nobody_waits = self.turns.claims.is_empty() && self.work.claims.is_empty();
        let net = if nobody_waits {
            Instant::now() + FAR
        } else {
            self.polls.at()
        };
        let early = self.early.wakes_at();
        // While nothing can be exchanged, all writes that are left wait for what is held.
        let held = self.held.next_at();
        let held = held.filter(|_| !is_busy && !self.writes.is_empty());
        claims
            .chain(launches_at)
            .chain(early)
            .chain(held)
            .fold(net, Instant::min)
    }

    /// Answers claims whose time is over, stores the leases of slow turns, and tries claims again when a poll is due.
    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        if !self.turns.claims.is_empty() || !self.work.claims.is_empty() {
            // Some wait for longer than a claim is remembered.
            self.notifier.claims(now);
        }
        self.writes.extend(self.early.overdue(now));
        self.turns.claims.expire(now);
        self.work.claims.expire(now);
        if let Some(queues) = self.polls.due(now, self.notifier.hears()) {
            self.try_claims(queues);
        }
    }

    /// Begins an exchange, if there is anything to exchange.
    fn launch(&mut self) -> bool {
        self.writes.extend(self.early.withdraw());
        let now = Instant::now();
        self.held.forget_over(now);
        if self.held.may_try(now) {
            let batch = Batch::fill_held(&mut self.writes, &self.held);
            if !batch.is_empty() {
                self.held.begin();
                self.exchange(batch, now);
                return true;
            }
        }
        let mut batch = Batch::fill(&mut self.writes, &self.held);
        let brings = batch.brings();
        for chosen in self.turns.claims.choose(now, brings.turns) {
            batch.claim_turns(chosen, &self.turns.lanes);
        }
        for chosen in self.work.claims.choose(now, brings.work) {
            batch.claim_work(chosen, &self.work.lanes);
        }
        if batch.is_empty() {
            return false;
        }
        batch.lend();
        self.exchange(batch, now);
        true
    }

    fn exchange(&mut self, mut batch: Batch, now: Instant) {
        self.begin(&mut batch, now);
        let (db, watches) = (Arc::clone(&self.db), Arc::clone(&self.watches));
        let exchange = Box::pin(exchange::run(db, watches, batch));
        self.exchanges.launch(exchange, now);
    }

    /// Numbers the exchange and says to its claims where to begin.
    fn begin(&mut self, batch: &mut Batch, now: Instant) {
        batch.exchange = self.exchanges.number();
        let (turns_base, work_base) = (self.db.expected.last(), self.work_seen);
        self.turns.marks.launch(batch.exchange, turns_base, now);
        self.work.marks.launch(batch.exchange, work_base, now);
        if batch.looks_at_all {
            self.turns.marks.be_whole();
            self.work.marks.be_whole();
        }
        if !batch.turns.is_empty() {
            batch.turns_begin = self.turns.marks.begin(self.turns.lanes.all(), now);
        }
        if !batch.work.is_empty() && batch.loans.is_empty() {
            batch.work_begin = self.work.marks.begin(self.work.lanes.all(), now);
        }
    }
}
