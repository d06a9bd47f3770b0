//! How exchanges end. In: what an exchange brought. Out: claims answered, marks and lanes learnt, other processes
//! notified of what is left.

use duroxide_core::provider::rules::lane::{self, WorkNeeds};
use tokio::time::Instant;

use super::Group;
use super::exchange_result::ExchangeResult;
use super::marks::Seen;
use crate::calls::claim_turns::{self, RawTurn};
use crate::error::Result;
use crate::news::{ANYWHERE, NOTHING_NEW, News, Queues};

impl Group {
    /// An exchange has ended: takes over what it learnt, answers its claims, and notifies other processes of what is
    /// left.
    pub(super) fn finish(&mut self, mut done: ExchangeResult) {
        self.held.ended(&done.tried, &done.held, Instant::now());
        let wrote = self.mark(&done);
        self.learn(&done);
        for write in std::mem::take(&mut done.again).into_iter().rev() {
            self.writes.push_front(write);
        }
        let released = self
            .early
            .exchanged(&done.leased, done.early, Instant::now());
        self.writes.extend(released);
        // What was written in an exchange was seen by the claims in it, and by no others.
        self.try_claims(done.brought);
        let mut left = self.answer_claims(&mut done);
        if done.left_behind.turns.is_some() {
            self.try_claims(Queues::TURNS);
            left.turns |= self.turns.claims.is_empty();
        }
        let news = News {
            turns: wrote.turns.filter(|_| left.turns),
            work: wrote.work.filter(|_| left.work),
        };
        self.notifier.notify(news, &done.ended);
    }

    /// Takes the marks from what the claims of an exchange saw. Returns from where on it wrote.
    fn mark(&mut self, done: &ExchangeResult) -> News {
        let now = Instant::now();
        let left = done.left_behind.turns.into_iter().chain(done.turns_from);
        let turns = seen(&done.turns);
        let left = left.min().unwrap_or(NOTHING_NEW);
        let turns = self.turns.marks.end(done.exchange, left, turns, now);
        let work = seen(&done.work);
        let work = self.work.marks.end(done.exchange, NOTHING_NEW, work, now);
        if work.is_whole {
            self.work_seen = ANYWHERE;
        }
        let numbers = found(&done.work).map(|work| work.id);
        let smallest = seen(&done.work).filter_map(|claim| claim.first).flatten();
        let smallest = smallest.map(|(_, number)| *number);
        self.work_seen = numbers.chain(smallest).fold(self.work_seen, i64::max);
        News {
            turns: Some(turns.from),
            work: Some(work.from),
        }
    }

    /// What a claim noticed beside the turns it found.
    fn notice(&mut self, claimed: &claim_turns::Claimed<RawTurn>) {
        if claimed.dead > 0 {
            tracing::warn!(target: "duroxide::providers::postgres", messages = claimed.dead, reason = "their instances were not started in time", "a message was dead-lettered");
        }
        if claimed.arrivals {
            self.outbox.receive(&self.db);
        }
    }

    /// Remembers how long the claims of an exchange took, and what they found.
    fn learn(&mut self, done: &ExchangeResult) {
        if let Some(took) = done.looked_for {
            self.polls.looked_for(took);
        }
        let codes = found(&done.turns).filter_map(|turn| Some((&turn.instance, turn.code()?)));
        for (instance, (incarnation, name, version)) in codes {
            self.early
                .memory
                .learn(instance, incarnation, name, version);
        }
        for work in found(&done.work) {
            self.early.memory.work_began(work.id, work.attempts);
        }
    }

    /// Answers the claims of an exchange. Returns the queues in which it left something for other processes.
    fn answer_claims(&mut self, done: &mut ExchangeResult) -> Queues {
        let mut left = done.brought;
        let turns = found(&done.turns).map(|turn| turn.random);
        let work = found(&done.work).map(|work| work.random);
        self.gathering.hand_out(turns, work, Instant::now());
        if found(&done.turns).next().is_some() || found(&done.work).next().is_some() {
            self.notifier.found();
        }
        for (id, claimed) in std::mem::take(&mut done.turns) {
            self.turns.lanes.learn(&claimed, lane::needs);
            if let Ok(claimed) = &claimed {
                self.notice(claimed);
            }
            let give_back = |turn| self.giving_back.turn(turn);
            left.turns &= !self
                .turns
                .claims
                .answer(id, claimed, done.brought.turns, give_back);
        }
        for (id, claimed) in std::mem::take(&mut done.work) {
            self.work.lanes.learn(&claimed, WorkNeeds::of);
            let give_back = |work| self.giving_back.work(&work);
            left.work &= !self
                .work
                .claims
                .answer(id, claimed, done.brought.work, give_back);
        }
        left
    }
}

/// What these claims found.
fn found<T>(claims: &[(u64, Result<claim_turns::Claimed<T>>)]) -> impl Iterator<Item = &T> {
    let answered = claims
        .iter()
        .filter_map(|(_, claimed)| claimed.as_ref().ok());
    answered.flat_map(|claimed| &claimed.found)
}

/// What each of these claims saw of its lanes.
fn seen<T>(claims: &[(u64, Result<claim_turns::Claimed<T>>)]) -> impl Iterator<Item = Seen<'_>> {
    let answered = claims
        .iter()
        .filter_map(|(_, claimed)| claimed.as_ref().ok());
    answered
        .filter(|claimed| claimed.now.is_some())
        .map(|claimed| Seen {
            first: claimed.tells_first.then_some(claimed.first.as_slice()),
            walked_long: claimed.walked_long,
        })
}
