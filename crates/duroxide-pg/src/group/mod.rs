//! Group commit. In: commits, completions, messages, activities and renewals of all tasks of this process, and claims
//! that wait. Out: exchanges with the server, each one transaction and one round trip.
//!
//! One task, the group, collects what the others write (`request.rs`, `write.rs`) and sends it in one transaction and
//! one round trip; waiting claims run in the same transaction: the turn that a message makes ready comes back with the
//! answer that the message was stored. The group hands out a turn before that, if this process writes its messages: see
//! [`early`]. One exchange follows the other, so that each carries all that came during the last one; a second one
//! begins only beside one that takes long.
//!
//! An exchange, step by step: `launch.rs` begins it, when `gather.rs` and `exchanges.rs` say so; `batch/` says what it
//! carries, `lending.rs` which activities it leases at once, `marks.rs` where its claims begin; `exchange.rs` sends the
//! calls (`single_call.rs`, if one is enough; `not_done.rs`, if nothing came of it), `answers.rs` reads the rows,
//! `settle.rs` answers the callers, and `finish.rs` takes over what the group has to know (`exchange_result.rs`).
//! `side.rs` has what the group keeps for each of the two queues: `claims.rs` the claims that wait, `lanes.rs` what
//! they may claim from, and the marks. `polls.rs` tries claims when no notification came, `give_back.rs` takes back
//! what came for callers that are gone, `outbox.rs` moves what applications left, `held.rs` keeps apart what waits for
//! rows that others hold, and `unreadable.rs` puts to rest what the server cannot read.

mod answers;
mod batch;
mod claims;
mod early;
mod exchange;
mod exchange_result;
mod exchanges;
mod finish;
mod gather;
mod give_back;
mod held;
mod lanes;
mod launch;
mod lending;
mod loan;
mod marks;
mod not_done;
mod opening;
mod outbox;
mod polls;
mod request;
mod settle;
mod side;
mod single_call;
mod unreadable;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::rules::lane::{self, Needs, WorkNeeds};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) use self::claims::Waiting;
use self::early::Early;
use self::exchanges::Exchanges;
use self::gather::Gathering;
use self::give_back::GivingBack;
use self::held::Held;
use self::opening::Opening;
use self::outbox::{Outbox, Received};
use self::polls::Polls;
pub(crate) use self::request::Request;
use self::side::Side;
pub(crate) use self::unreadable::{NOTED_BY, REST};
use self::write::Reply;
pub(crate) use self::write::{Op, Write};
use crate::calls::claim_turns::{self, RawTurn};
use crate::calls::claim_work::{self, RawWork};
use crate::connection::db::Db;
use crate::news::{ANYWHERE, News, Queues};
use crate::notify::Notifier;
use crate::watch::Watches;

/// How long the end of a store waits for claims that are on their way back.
const CLOSING_PATIENCE: Duration = Duration::from_secs(1);

/// The task that collects what the tasks of this process ask for, and exchanges it with the server.
pub(crate) struct Group {
    db: Arc<Db>,
    watches: Arc<Watches>,
    notifier: Arc<Notifier>,
    requests: mpsc::UnboundedReceiver<Request>,
    writes: VecDeque<Write>,
    turns: Side<claim_turns::Ask, RawTurn, Needs>,
    work: Side<claim_work::Ask, RawWork, WorkNeeds>,
    /// The greatest number of an activity that this process has seen since a claim began at the beginning.
    work_seen: i64,
    exchanges: Exchanges,
    held: Held,
    gathering: Gathering,
    early: Early,
    opening: Opening,
    giving_back: GivingBack,
    outbox: Outbox,
    polls: Polls,
}

impl Group {
    pub(crate) fn new(
        db: Arc<Db>,
        watches: Arc<Watches>,
        notifier: Arc<Notifier>,
        requests: mpsc::UnboundedReceiver<Request>,
        poll_interval: Duration,
    ) -> Self {
        Self {
            giving_back: GivingBack::new(Arc::clone(&db)),
            db,
            watches,
            notifier,
            requests,
            writes: VecDeque::new(),
            turns: Side::new(&[lane::ANY_NODE, lane::BETWEEN], Instant::now()),
            work: Side::new(&[], Instant::now()),
            work_seen: ANYWHERE,
            exchanges: Exchanges::new(Instant::now()),
            held: Held::new(Instant::now()),
            gathering: Gathering::new(Instant::now()),
            early: Early::new(),
            opening: Opening::new(Instant::now()),
            outbox: Outbox::default(),
            polls: Polls::new(poll_interval, Instant::now()),
        }
    }

    /// Runs until every handle is gone and everything is answered.
    pub(crate) async fn run(mut self) {
        let mut is_open = true;
        let mut launches_at = None;
        while is_open || !self.is_idle() {
            let wakes_at = self.wakes_at(launches_at);
            tokio::select! {
                request = self.requests.recv(), if is_open => match request {
                    Some(request) => self.take(request),
                    None => is_open = false,
                },
                done = self.exchanges.next() => self.finish(done),
                received = self.outbox.received() => self.received(received),
                from = self.opening.starts_from() => self.early.starts_from(from),
                news = self.giving_back.next() => self.given_back(news),
                () = tokio::time::sleep_until(wakes_at) => {}
            }
            while let Ok(request) = self.requests.try_recv() {
                self.take(request);
            }
            self.hand_out_early();
            self.tick();
            launches_at = self.launch_all();
        }
        let given_back = self.giving_back.finish(CLOSING_PATIENCE).await;
        self.notifier.notify(given_back, &[]);
        self.opening.forget(&self.db).await;
    }

    /// Whether everything is answered.
    fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.exchanges.is_empty() && self.early.is_idle()
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Write(Write { op, reply, .. }) => self.take_write(op, reply),
            Request::Turns(claim) => {
                self.notifier.claims(Instant::now());
                if claim.ask.takes_early {
                    self.opening.claimed(&self.db, Instant::now());
                    self.early.claimed(Instant::now());
                }
                self.turns.claims.wait(claim);
            }
            Request::Work(claim) => {
                self.notifier.claims(Instant::now());
                self.work.claims.wait(claim);
            }
            Request::Look(news) => self.look(news),
            Request::GiveBackTurn(turn) => self.give_back(turn),
            Request::GiveBackWork(work) => self.giving_back.work(&work),
            Request::Hold(hold) => self.early.hold_for(hold),
            Request::Store(token, done) => {
                let lease = self.early.lease(token);
                self.writes.extend(lease);
                self.early.answer_when_stored(token, done);
            }
        }
    }

    fn take_write(&mut self, op: Op, reply: Reply) {
        match op {
            Op::Commit(commit) => {
                self.gathering.commit(commit.token);
                self.early.memory.learn_from(&commit);
                self.writes.extend(self.early.commit(commit, reply));
            }
            Op::RenewTurn { token, .. } => {
                self.writes.extend(self.early.lease(token));
                if let Some(write) = self.early.park(token, Write::new(op, reply)) {
                    self.writes.push_front(write);
                }
            }
            // Leases first: what waits behind them is worth nothing without them.
            op if op.is_renewal() => self.writes.push_front(Write::new(op, reply)),
            op => {
                if let Op::Ack(ack) = &op {
                    self.gathering.complete(ack.token);
                }
                let write = Write::new(op, reply);
                let waits = !self.turns.claims.is_empty();
                let left = self.early.take(write, &self.writes, waits, Instant::now());
                self.writes.extend(left);
            }
        }
    }

    /// Gives back a turn that no caller takes: its messages and its lease are stored first, if they are not yet.
    fn give_back(&mut self, turn: RawTurn) {
        if !self.early.owes(turn.random) {
            return self.giving_back.turn(turn);
        }
        self.writes.extend(self.early.lease(turn.random));
        let (done, is_done) = oneshot::channel();
        self.early.answer_when_stored(turn.random, done);
        self.giving_back.turn_when(turn, is_done);
    }

    /// A claim whose caller was gone is in its queue again, for everybody.
    fn given_back(&mut self, news: News) {
        self.look(news);
        self.notifier.notify(news, &[]);
    }

    /// Hands out the turns that this process can decide on before their messages are stored. If no claim waits idly
    /// until the next exchange begins, the messages are written as any others.
    fn hand_out_early(&mut self) {
        let now = Instant::now();
        if self.early.backs_off(now) {
            self.writes.extend(self.early.withdraw());
        }
        while self.early.has_proposals() {
            let Some((id, ask)) = self.turns.claims.idle(now, |ask| ask.takes_early) else {
                break;
            };
            let turns = self.early.hand_out(&ask, now, &mut self.writes);
            if turns.is_empty() {
                continue;
            }
            let tokens: Vec<Uuid> = turns.iter().map(|turn| turn.random).collect();
            self.gathering
                .hand_out(tokens.into_iter(), std::iter::empty(), now);
            for turn in self.turns.claims.hand_out(id, turns) {
                self.give_back(turn);
                self.turns.claims.news();
            }
        }
    }

    /// The messages of applications are in the queue.
    fn received(&mut self, received: Received) {
        let news = News {
            turns: Some(received.from),
            ..News::default()
        };
        self.look(news);
        if received.any {
            self.notifier.notify(news, &[]);
        }
    }

    /// Something may have become claimable.
    fn look(&mut self, news: News) {
        if let Some(from) = news.turns {
            self.turns.marks.heard(from);
        }
        if let Some(from) = news.work {
            self.work.marks.heard(from);
        }
        self.try_claims(Queues {
            turns: news.turns.is_some(),
            work: news.work.is_some(),
        });
    }

    /// The claims of these queues are tried again.
    fn try_claims(&mut self, queues: Queues) {
        if queues.turns {
            self.turns.claims.news();
        }
        if queues.work {
            self.work.claims.news();
        }
    }
}
