//! Group commit. In: commits, completions, messages, activities and renewals of all tasks of this process, and claims
//! that wait. Out: exchanges with the server, each one transaction and one round trip.
//!
//! One task collects what the others write and sends it in one transaction and one round trip; waiting claims run in
//! the same transaction: the turn that a message makes ready comes back with the answer that the message was stored. A
//! turn whose messages this process writes itself is handed out before that: see [`early`].
//! One exchange follows the other, so that each carries all that came during the last one; a second one begins only
//! beside one that takes long.

mod answers;
mod batch;
mod claims;
mod done;
mod early;
mod exchange;
mod familiar;
mod gather;
mod give_back;
mod lanes;
mod loan;
mod loans;
mod marks;
mod opening;
mod outbox;
mod plain;
mod polls;
mod settle;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::rules::lane::{self, Needs, WorkNeeds};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use self::batch::Batch;
use self::claims::Claims;
pub(crate) use self::claims::Waiting;
use self::done::Done;
use self::early::Early;
pub(crate) use self::early::EarlyTurn;
use self::gather::Gathering;
use self::give_back::{give_back_turn, give_back_work};
use self::lanes::Lanes;
use self::marks::Marks;
use self::opening::Opening;
use self::polls::Polls;
use crate::calls::claim_turns::{self, RawTurn};
use crate::calls::claim_work::{self, RawWork};
use crate::calls::commit_turn::Commit;
use crate::calls::enqueue::Ack;
use crate::codec::{NewMessage, NewWork};
use crate::connection::db::{Db, EXCHANGES_MAX};
use crate::error::Result;
use crate::notify::Notifier;
use crate::queues::{ANYWHERE, NOTHING_NEW, News, Queues};
use crate::watch::Watches;

/// An exchange that takes longer does not hold up the next one: it may wait for a row that another program holds.
const SLOW_EXCHANGE: Duration = Duration::from_millis(20);

/// Something to be written.
#[derive(Debug)]
pub(crate) enum Op {
    Commit(Box<Commit>),
    /// A turn with the messages that it decided on.
    Early(Box<EarlyTurn>, Box<Commit>),
    /// The messages of a turn that was handed out before them, and its lease.
    Lease(Box<EarlyTurn>),
    Ack(Ack),
    Message(NewMessage),
    Work(NewWork),
    RenewTurn {
        instance: String,
        shown_instance: String,
        token: Uuid,
        for_ms: i64,
    },
    RenewWork {
        id: i64,
        token: Uuid,
        for_ms: i64,
    },
}

impl Op {
    /// The instances whose inboxes it needs, as they are stored.
    fn instances(&self) -> Vec<&str> {
        match self {
            Self::Lease(turn) => vec![turn.instance.as_str()],
            Self::Commit(commit) | Self::Early(_, commit) => {
                let sent = commit.to_orchestrators.iter();
                let sent = sent.map(|message| message.instance.as_str());
                sent.chain([commit.instance.as_str()]).collect()
            }
            Self::Ack(ack) => {
                let completion = ack.completion.as_ref();
                completion
                    .map(|it| it.instance.as_str())
                    .into_iter()
                    .collect()
            }
            Self::Message(message) => vec![message.instance.as_str()],
            Self::RenewTurn { instance, .. } => vec![instance.as_str()],
            Self::Work(_) | Self::RenewWork { .. } => Vec::new(),
        }
    }

    fn is_renewal(&self) -> bool {
        matches!(self, Self::RenewTurn { .. } | Self::RenewWork { .. })
    }
}

/// Where the answer goes.
pub(crate) type Reply = oneshot::Sender<Result<()>>;

/// Something to be written, and who waits for it.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) op: Op,
    pub(crate) reply: Reply,
}

/// What the tasks of this process ask for.
pub(crate) enum Request {
    Write(Write),
    Turns(Waiting<claim_turns::Ask, RawTurn>),
    Work(Waiting<claim_work::Ask, RawWork>),
    /// Something may have become claimable that was not written here.
    Look(News),
    /// A claimed turn that cannot be handed out.
    GiveBack(RawTurn),
    /// The holder of a lease needs it stored before it uses it for something else than its commit.
    Store(Uuid, oneshot::Sender<bool>),
    /// For tests: how long turns that were handed out early are waited for.
    Hold(Duration),
}

/// The task that collects.
pub(crate) struct Group {
    db: Arc<Db>,
    watches: Arc<Watches>,
    notifier: Arc<Notifier>,
    requests: mpsc::UnboundedReceiver<Request>,
    writes: VecDeque<Write>,
    turns: Claims<claim_turns::Ask, RawTurn>,
    work: Claims<claim_work::Ask, RawWork>,
    turn_lanes: Lanes<Needs>,
    work_lanes: Lanes<WorkNeeds>,
    turn_marks: Marks,
    work_marks: Marks,
    /// The greatest number of an activity that this process has seen since a claim began at the beginning.
    work_seen: i64,
    /// Counts exchanges.
    exchange: u64,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
    /// When the last exchange began.
    launched_at: Instant,
    gathering: Gathering,
    early: Early,
    opening: Opening,
    /// The move of what applications left to the queue, if one is under way.
    receiving: Option<BoxFuture<'static, bool>>,
    /// The time before it began.
    received_from: i64,
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
            db,
            watches,
            notifier,
            requests,
            writes: VecDeque::new(),
            turns: Claims::default(),
            work: Claims::default(),
            turn_lanes: Lanes::new(&[lane::ANY_NODE, lane::BETWEEN]),
            work_lanes: Lanes::new(&[]),
            turn_marks: Marks::new(Instant::now()),
            work_marks: Marks::new(Instant::now()),
            work_seen: ANYWHERE,
            exchange: 0,
            running: FuturesUnordered::new(),
            launched_at: Instant::now(),
            gathering: Gathering::new(Instant::now()),
            early: Early::new(),
            opening: Opening::new(Instant::now()),
            receiving: None,
            received_from: ANYWHERE,
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
                Some(done) = self.running.next() => self.finish(done),
                moved = received(&mut self.receiving) => {
                    self.receiving = None;
                    let news = News {
                        turns: Some(self.received_from),
                        ..News::default()
                    };
                    self.look(news);
                    if moved {
                        self.notifier.tell(news, &[]);
                    }
                }
                from = self.opening.starts_from() => self.early.starts_from(from),
                () = tokio::time::sleep_until(wakes_at) => {}
            }
            while let Ok(request) = self.requests.try_recv() {
                self.take(request);
            }
            self.hand_out_early();
            self.tick();
            launches_at = self.launch_all();
        }
        self.opening.forget(&self.db).await;
    }

    /// Whether everything is answered.
    fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.running.is_empty() && self.early.is_idle()
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Write(Write { op, reply }) => self.take_write(op, reply),
            Request::Turns(claim) => {
                if claim.ask.takes_early {
                    self.opening.claimed(&self.db, Instant::now());
                    self.early.claimed(Instant::now());
                }
                self.turns.wait(claim);
            }
            Request::Work(claim) => self.work.wait(claim),
            Request::Look(news) => self.look(news),
            Request::GiveBack(turn) => self.give_back(turn),
            Request::Hold(hold) => self.early.hold_for(hold),
            Request::Store(token, done) => {
                let lease = self.early.lease(token);
                self.writes.extend(lease);
                self.early.tell_when_stored(token, done);
            }
        }
    }

    fn take_write(&mut self, op: Op, reply: Reply) {
        match op {
            Op::Commit(commit) => {
                self.gathering.commit(commit.token);
                self.early.familiar.learn_from(&commit);
                self.writes.extend(self.early.commit(commit, reply));
            }
            Op::RenewTurn { token, .. } => {
                self.writes.extend(self.early.lease(token));
                if let Some(write) = self.early.park(token, Write { op, reply }) {
                    self.writes.push_front(write);
                }
            }
            // Leases first: what waits behind them is worth nothing without them.
            op if op.is_renewal() => self.writes.push_front(Write { op, reply }),
            op => {
                if let Op::Ack(ack) = &op {
                    self.gathering.complete(ack.token);
                }
                let write = Write { op, reply };
                let waits = !self.turns.is_empty();
                let left = self.early.take(write, &self.writes, waits, Instant::now());
                self.writes.extend(left);
            }
        }
    }

    /// Gives back a turn that no caller takes: its messages and its lease are stored first, if they are not yet.
    fn give_back(&mut self, turn: RawTurn) {
        let mut give_back = give_back_turn(&self.db);
        if !self.early.owes(turn.random) {
            return give_back(turn);
        }
        self.writes.extend(self.early.lease(turn.random));
        let (done, is_done) = oneshot::channel();
        self.early.tell_when_stored(turn.random, done);
        tokio::spawn(async move {
            // An error: the group has ended, and the lease lapses.
            if is_done.await.is_ok() {
                give_back(turn);
            }
        });
    }

    /// Hands out the turns that this process can decide on before their messages are stored. If no claim waits idly
    /// until the next exchange begins, the messages are written as any others.
    fn hand_out_early(&mut self) {
        let now = Instant::now();
        if self.early.backs_off(now) {
            self.writes.extend(self.early.withdraw());
        }
        while self.early.has_proposals() {
            let Some((id, ask)) = self.turns.idle(now, |ask| ask.takes_early) else {
                break;
            };
            let turns = self.early.hand_out(&ask, now, &mut self.writes);
            if turns.is_empty() {
                continue;
            }
            let tokens: Vec<Uuid> = turns.iter().map(|turn| turn.random).collect();
            self.gathering
                .hand_out(tokens.into_iter(), std::iter::empty(), now);
            for turn in self.turns.hand_out(id, turns) {
                self.give_back(turn);
                self.turns.news();
            }
        }
    }

    /// Something may have become claimable.
    fn look(&mut self, news: News) {
        if let Some(from) = news.turns {
            self.turn_marks.heard(from);
        }
        if let Some(from) = news.work {
            self.work_marks.heard(from);
        }
        self.try_claims(Queues {
            turns: news.turns.is_some(),
            work: news.work.is_some(),
        });
    }

    /// The claims of these queues are tried again.
    fn try_claims(&mut self, queues: Queues) {
        if queues.turns {
            self.turns.news();
        }
        if queues.work {
            self.work.news();
        }
    }

    /// When the next exchange may begin, unless something happens before; `None` if it may begin now.
    fn launches_at(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let far = || now + Duration::from_secs(3_600);
        let after_others = match self.running.len() {
            0 => None,
            EXCHANGES_MAX.. => Some(far()),
            _ => Some(self.launched_at + SLOW_EXCHANGE).filter(|at| *at > now),
        };
        let is_urgent = self
            .writes
            .front()
            .is_some_and(|write| write.op.is_renewal());
        let after_gathering = self.gathering.waits_until(now).filter(|_| !is_urgent);
        // A claim that waits and was not answered early has to be tried first.
        let is_answered = self.turns.is_empty() && !is_urgent;
        let after_claims = self.early.waits_until(now).filter(|_| is_answered);
        after_others.max(after_gathering).max(after_claims)
    }

    /// Begins what may begin now. Tells when the next exchange may; `None` if there is nothing to exchange.
    fn launch_all(&mut self) -> Option<Instant> {
        loop {
            match self.launches_at() {
                None if self.launch() => {}
                at => return at,
            }
        }
    }

    /// When to look again. `launches_at` is what the last look told: asked anew, it could have passed unseen.
    fn wakes_at(&self, launches_at: Option<Instant>) -> Instant {
        let is_busy = launches_at.is_some();
        let claims = self
            .turns
            .wakes_at(is_busy)
            .into_iter()
            .chain(self.work.wakes_at(is_busy));
        let net = if self.turns.is_empty() && self.work.is_empty() {
            Instant::now() + Duration::from_secs(3_600)
        } else {
            self.polls.at()
        };
        let early = self.early.wakes_at();
        claims
            .chain(launches_at)
            .chain(early)
            .fold(net, Instant::min)
    }

    /// Answers claims whose time is over, and looks around when it is time.
    fn tick(&mut self) {
        let now = Instant::now();
        self.writes.extend(self.early.overdue(now));
        self.turns.expire(now);
        self.work.expire(now);
        if let Some(queues) = self.polls.due(now, self.notifier.hears()) {
            self.try_claims(queues);
        }
    }

    /// Begins an exchange, if there is anything to exchange.
    fn launch(&mut self) -> bool {
        self.writes.extend(self.early.withdraw());
        let mut batch = Batch::fill(&mut self.writes);
        let now = Instant::now();
        let brings = batch.brings();
        for chosen in self.turns.choose(now, brings.turns) {
            batch.claim_turns(chosen, &self.turn_lanes);
        }
        for chosen in self.work.choose(now, brings.work) {
            batch.claim_work(chosen, &self.work_lanes);
        }
        if batch.is_empty() {
            return false;
        }
        batch.lend();
        self.begin(&mut batch, now);
        self.launched_at = now;
        let (db, watches) = (Arc::clone(&self.db), Arc::clone(&self.watches));
        self.running
            .push(Box::pin(exchange::run(db, watches, batch)));
        true
    }

    /// Numbers the exchange and tells its claims where to begin.
    fn begin(&mut self, batch: &mut Batch, now: Instant) {
        self.exchange += 1;
        batch.exchange = self.exchange;
        let (turns_base, work_base) = (self.db.expected.last(), self.work_seen);
        self.turn_marks.launch(batch.exchange, turns_base, now);
        self.work_marks.launch(batch.exchange, work_base, now);
        if batch.looks_at_all {
            self.turn_marks.be_whole();
            self.work_marks.be_whole();
        }
        if !batch.turns.is_empty() {
            batch.turns_begin = self.turn_marks.begin(self.turn_lanes.all(), now);
        }
        if !batch.work.is_empty() && batch.loans.is_empty() {
            batch.work_begin = self.work_marks.begin(self.work_lanes.all(), now);
        }
    }

    /// Takes the marks from what the claims of an exchange saw. Tells from where on it wrote.
    fn mark(&mut self, done: &Done) -> News {
        let now = Instant::now();
        let left = done.left_behind.turns.into_iter().chain(done.turns_from);
        let turns = seen(&done.turns);
        let left = left.min().unwrap_or(NOTHING_NEW);
        let turns = self.turn_marks.end(done.exchange, left, turns, now);
        let work = seen(&done.work);
        let work = self.work_marks.end(done.exchange, NOTHING_NEW, work, now);
        if work.is_whole {
            self.work_seen = ANYWHERE;
        }
        let numbers = found(&done.work).map(|work| work.id);
        let smallest = seen(&done.work).flatten().map(|(_, number)| *number);
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
        if claimed.arrivals && self.receiving.is_none() {
            self.received_from = self.db.expected.last();
            self.receiving = Some(Box::pin(outbox::receive(Arc::clone(&self.db))));
        }
    }

    fn finish(&mut self, done: Done) {
        let wrote = self.mark(&done);
        if let Some(took) = done.looked_for {
            self.polls.looked_for(took);
        }
        for write in done.again.into_iter().rev() {
            self.writes.push_front(write);
        }
        self.writes.extend(self.early.leased(&done.leased));
        match done.early {
            Some(true) => self.early.went_well(),
            Some(false) => self.early.back_off(Instant::now()),
            None => {}
        }
        for (instance, (life, name, version)) in
            found(&done.turns).filter_map(|turn| Some((&turn.instance, turn.code()?)))
        {
            self.early.familiar.learn(instance, life, name, version);
        }
        for work in found(&done.work) {
            self.early.familiar.work_began(work.id, work.attempts);
        }
        // What was written in an exchange was seen by the claims in it, and by no others.
        self.try_claims(done.brought);
        let mut left = done.brought;
        let turns = found(&done.turns).map(|turn| turn.random);
        let work = found(&done.work).map(|work| work.random);
        self.gathering.hand_out(turns, work, Instant::now());
        for (id, claimed) in done.turns {
            self.turn_lanes.learn(&claimed, lane::needs);
            if let Ok(claimed) = &claimed {
                self.notice(claimed);
            }
            left.turns &=
                !self
                    .turns
                    .answer(id, claimed, done.brought.turns, give_back_turn(&self.db));
        }
        for (id, claimed) in done.work {
            self.work_lanes.learn(&claimed, WorkNeeds::of);
            left.work &=
                !self
                    .work
                    .answer(id, claimed, done.brought.work, give_back_work(&self.db));
        }
        if done.left_behind.turns.is_some() {
            self.try_claims(Queues::TURNS);
            left.turns |= self.turns.is_empty();
        }
        let news = News {
            turns: wrote.turns.filter(|_| left.turns),
            work: wrote.work.filter(|_| left.work),
        };
        self.notifier.tell(news, &done.ended);
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
fn seen<T>(
    claims: &[(u64, Result<claim_turns::Claimed<T>>)],
) -> impl Iterator<Item = &[(String, i64)]> {
    let answered = claims
        .iter()
        .filter_map(|(_, claimed)| claimed.as_ref().ok());
    answered
        .filter(|claimed| claimed.now.is_some())
        .map(|claimed| claimed.first.as_slice())
}

/// Whether something was moved; never, if no move is under way.
async fn received(receiving: &mut Option<BoxFuture<'static, bool>>) -> bool {
    match receiving {
        Some(move_them) => move_them.await,
        None => std::future::pending().await,
    }
}
