//! Turns that the group hands out before it stores their messages. This text is the protocol; everything else links
//! here.
//!
//! # Why
//!
//! The result of an activity is a message: it is stored, claimed with its instance, and deleted by the turn that takes
//! it. If the process that stores it is also the one that runs the turn, most of that is for nothing. So the group
//! keeps the message, hands the turn out at once, and stores what the turn decided together with what it decided on:
//! one transaction instead of two, and a message that is never written. The start of an instance goes the same way. A
//! caller permits it by [`HandOut::BeforeCommit`](duroxide_core::provider::HandOut::BeforeCommit).
//!
//! # States
//!
//! ```text
//!             an idle claim takes it               the turn is committed
//!  proposed ────────────────────────► in flight ─────────────────────────────────────► Op::Early
//!     │                                   │  it takes long, or is renewed or given back
//!     │ no claim is idle                  └──────────────────────────────────────────► Op::Lease
//!     └──────────────────────────────────────────────────────────────────────────────► an ordinary write
//! ```
//!
//! - **Proposed** ([`Proposal`]): the result of an activity or a start has come, and the group has nothing else to
//!   write about its instance.
//! - **In flight** ([`EarlyTurn`]): a dispatcher works on the turn. Nothing of it is stored: not the message, not the
//!   lease. What comes for the instance meanwhile waits behind the turn.
//! - **[`Op::Early`]**: message, claim and turn are stored in one transaction. The server checks that the instance has
//!   not changed (`0018_early.sql`): no inbox, the same incarnation, execution and last event, the activity still
//!   leased to its worker.
//! - **[`Op::Lease`]**: message and lease are stored, as if the turn had been claimed by its token (`leasing.rs`). Its
//!   commit comes later, like any other.
//!
//! # What goes wrong
//!
//! - **The instance has changed**: another node or client wrote first. The server rolls the transaction back as a
//!   whole. The group stores the message as any other, and answers the commit as one whose lease is lost; the engine
//!   decides the turn anew from the history. For a while the group hands nothing out early, for longer each time
//!   (`back_off.rs`).
//! - **The turn wants to do more than decide**: run an effect in place, or ask the store. Then the engine has its lease
//!   stored first (`Provider::store_lease`), and a turn that cannot be stored does nothing.
//! - **The turn is committed while its lease is on its way.** The commit waits for that.
//! - **The process dies.** Nothing is stored: the activity is run again when its lease has run out, and the caller that
//!   started the instance gets no answer and may repeat the start. A turn that ends its process must be counted before
//!   it is tried again, so only results of first attempts go this way, and starts not for [`CAUTION`] after a process
//!   began to claim turns beside others that may have ended uncleanly (table `openings`, see `opening.rs`).
//! - **The answer of the server is lost.** As with any commit: the callers get an error that says that it may have
//!   happened.
//! - **The store holds more work than this process takes.** Then its claims are not idle, and the group hands nothing
//!   out early: what has waited longer comes first.
//!
//! # Time limits
//!
//! - [`HOLD`], 20 ms: a turn in flight for longer gets its message and its lease stored.
//! - [`CLAIM_PATIENCE`], 1 ms: how long an exchange waits for a claim that takes a proposed turn.
//! - [`RETURN`], 100 ms: how long after a claim the group expects the next one of the same dispatcher; without one, it
//!   proposes nothing.
//! - 50 ms to 10 s (`back_off.rs`): how long the group hands nothing out early after a refusal or a slow turn.
//! - [`CAUTION`], 60 s: see "The process dies".

mod back_off;
mod leasing;
mod memory;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use duroxide_core::provider::rules::lane;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use self::back_off::BackOff;
use self::leasing::Leasing;
use self::memory::Memory;
use super::write::{EarlyTurn, Op, Reply, Write, bytes_of, message_of};
use crate::calls::claim_turns::{Ask, KnownUpTo, RawTurn};
use crate::calls::commit_turn::Commit;
use crate::text;

/// How long a turn is waited for before its message and its lease are stored.
const HOLD: Duration = Duration::from_millis(20);
/// How long an exchange waits for a claim that takes what could be handed out early.
const CLAIM_PATIENCE: Duration = Duration::from_millis(1);
/// How long after the end of a claim the next one of the same dispatcher is expected.
const RETURN: Duration = Duration::from_millis(100);
/// How long starts are not handed out early beside nodes that may have ended uncleanly.
pub(super) const CAUTION: Duration = Duration::from_secs(60);
/// How large the messages of one turn become at most.
const CAUSES_BYTES_MAX: usize = 1024 * 1024;
/// How many turns are proposed at most, and up to how many writes that wait.
const PROPOSED_MAX: usize = 512;

/// What the turn of one instance would decide on.
#[derive(Debug)]
struct Proposal {
    instance: String,
    causes: Vec<Write>,
    behind: Vec<Write>,
}

impl Proposal {
    fn has_room(&self) -> bool {
        bytes_of(&self.causes) < CAUSES_BYTES_MAX
    }

    /// Leaves what is more than a claim takes behind the turn.
    fn cut(&mut self, messages_max: usize) {
        let more = self.causes.split_off(messages_max.min(self.causes.len()));
        self.behind.splice(..0, more);
    }
}

/// The turns that are proposed or in flight.
#[derive(Debug)]
pub(super) struct Early {
    proposed: Vec<Proposal>,
    /// When the first of them came.
    proposed_at: Instant,
    /// By instance.
    in_flight: HashMap<String, EarlyTurn>,
    /// The instances of those, by the tokens of their leases.
    tokens: HashMap<Uuid, String>,
    leasing: Leasing,
    pub(super) memory: Memory,
    /// From when on starts may be handed out early; `None` while that is not known.
    starts_from: Option<Instant>,
    /// When the last claim came that accepts early turns, or was handed some.
    served_at: Instant,
    back_off: BackOff,
    /// How long a turn is in flight before its message and its lease are stored.
    hold: Duration,
}

impl Early {
    pub(super) fn new() -> Self {
        Self {
            proposed: Vec::new(),
            proposed_at: Instant::now(),
            in_flight: HashMap::new(),
            tokens: HashMap::new(),
            leasing: Leasing::default(),
            memory: Memory::default(),
            starts_from: None,
            served_at: Instant::now(),
            back_off: BackOff::new(Instant::now()),
            hold: HOLD,
        }
    }

    /// A claim that accepts early turns has arrived.
    pub(super) fn claimed(&mut self, now: Instant) {
        self.served_at = now;
    }

    /// From when on starts may be handed out.
    pub(super) fn starts_from(&mut self, from: Instant) {
        self.starts_from = Some(from);
    }

    /// Whether such a claim waits or is expected within [`RETURN`].
    fn is_served(&self, waits: bool, now: Instant) -> bool {
        waits || now < self.served_at + RETURN
    }

    /// How long turns are in flight at most, from now on.
    pub(super) fn hold_for(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// Whether no turn is in flight and none is proposed.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.proposed.is_empty()
    }

    /// When the first turn has been in flight for long enough.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.in_flight.values().map(|turn| turn.until).min()
    }

    /// Takes a write that a turn could decide on, or that has to wait behind one; gives back any other. `queued`: the
    /// writes before it. `waits`: whether a claim waits.
    pub(super) fn take(
        &mut self,
        write: Write,
        queued: &VecDeque<Write>,
        waits: bool,
        now: Instant,
    ) -> Option<Write> {
        let may_cause = self.may_cause(&write.op, now);
        let Some(message) = message_of(&write.op) else {
            return Some(write);
        };
        let instance = message.instance.as_str();
        if let Some(turn) = self.in_flight.get_mut(instance) {
            turn.behind.push(write);
            return None;
        }
        if let Some(proposal) = self.proposed.iter_mut().find(|it| it.instance == instance) {
            let is_room = proposal.has_room() && proposal.behind.is_empty();
            if may_cause && is_room && matches!(write.op, Op::Ack(_)) {
                proposal.causes.push(write)
            } else {
                proposal.behind.push(write)
            }
            return None;
        }
        let is_first = || {
            !queued
                .iter()
                .any(|it| it.op.instances().contains(&instance))
        };
        let is_time = !self.backs_off(now) && self.is_served(waits, now);
        let is_room = self.proposed.len() < PROPOSED_MAX && queued.len() < PROPOSED_MAX;
        if !may_cause || !is_time || !is_room || !is_first() {
            return Some(write);
        }
        if self.proposed.is_empty() {
            self.proposed_at = now;
        }
        self.proposed.push(Proposal {
            instance: instance.to_owned(),
            causes: vec![write],
            behind: Vec::new(),
        });
        None
    }

    fn may_cause(&mut self, op: &Op, now: Instant) -> bool {
        match op {
            Op::Ack(ack) => self.memory.is_last_result(ack),
            Op::Message(message) => {
                let is_plain = message.due.is_none() && message.delay == 0;
                let is_root = message.starts_child_of.is_none() && message.begins.is_some();
                let is_time = self.starts_from.is_some_and(|from| now >= from);
                message.is_start() && is_plain && is_root && is_time
            }
            _ => false,
        }
    }

    pub(super) fn has_proposals(&self) -> bool {
        !self.proposed.is_empty()
    }

    /// Until when the next exchange waits for a claim that takes what is proposed.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        let until = self
            .has_proposals()
            .then(|| self.proposed_at + CLAIM_PATIENCE)?;
        (until > now).then_some(until)
    }

    /// Turns for an idle claim, at most as many as it wants. What this claimer cannot take goes to `writes`.
    pub(super) fn hand_out(
        &mut self,
        ask: &Ask,
        now: Instant,
        writes: &mut VecDeque<Write>,
    ) -> Vec<RawTurn> {
        let mut turns = Vec::new();
        self.served_at = now;
        for mut proposal in self.take_proposals(ask.max) {
            proposal.cut(ask.messages_max());
            let token = Uuid::new_v4();
            let Some((turn, known)) = self.turn_of(&proposal, token, ask) else {
                writes.extend(proposal.causes);
                writes.extend(proposal.behind);
                continue;
            };
            turns.push(turn);
            self.tokens.insert(token, proposal.instance.clone());
            let out = EarlyTurn {
                instance: proposal.instance.clone(),
                token,
                known,
                has_inbox: self.memory.sends_itself(&proposal.instance),
                lock_ms: ask.lock_ms(),
                causes: proposal.causes,
                behind: proposal.behind,
                until: now + self.hold,
            };
            self.in_flight.insert(proposal.instance, out);
        }
        turns
    }

    fn take_proposals(&mut self, max: usize) -> Vec<Proposal> {
        let count = self.proposed.len().min(max);
        self.proposed.drain(..count).collect()
    }

    /// The turn as its claimer gets it; `None` if the claimer does not hold the instance, or lacks the code.
    fn turn_of(
        &self,
        proposal: &Proposal,
        token: Uuid,
        ask: &Ask,
    ) -> Option<(RawTurn, Option<KnownUpTo>)> {
        let messages = proposal.causes.iter().filter_map(|it| message_of(&it.op));
        let items: Vec<String> = messages.clone().map(|it| it.json.clone()).collect();
        let start = messages.clone().find(|message| message.is_start());
        if let Some(start) = start {
            let begins = text::shown(start.begins.clone()?);
            let needs = lane::needs(&begins);
            let fits = ask.abilities.are_all() || ask.abilities.fit(needs.as_ref());
            return fits.then(|| (RawTurn::first(&proposal.instance, token, items), None));
        }
        let code = self.memory.code(&proposal.instance)?;
        let shown = text::shown(proposal.instance.clone());
        let held = ask.cached.as_ref()?.cached(&shown)?;
        let known = KnownUpTo {
            incarnation: held.incarnation.to_stored(),
            execution: i64::try_from(held.execution_id).ok()?,
            event: i64::try_from(held.last_event_id).ok()?,
        };
        let named = (code.name.clone(), code.version.clone());
        (known.incarnation == code.incarnation).then(|| {
            let turn = RawTurn::next(&proposal.instance, token, items, known, named);
            (turn, Some(known))
        })
    }

    /// The writes of all proposals, as ordinary ones: no claim took them.
    pub(super) fn withdraw(&mut self) -> impl Iterator<Item = Write> {
        let proposed = self.proposed.drain(..);
        proposed.flat_map(|it| it.causes.into_iter().chain(it.behind))
    }

    /// A turn is no longer in flight.
    fn end(&mut self, token: Uuid) -> Option<EarlyTurn> {
        let instance = self.tokens.remove(&token)?;
        self.in_flight.remove(&instance)
    }

    /// The engine commits a turn. Returns what the group has to write.
    pub(super) fn commit(&mut self, commit: Box<Commit>, reply: Reply) -> Vec<Write> {
        let Some(mut turn) = self.end(commit.token) else {
            let token = commit.token;
            let op = Op::Commit(commit);
            return self
                .park(token, Write::new(op, reply))
                .into_iter()
                .collect();
        };
        let behind = std::mem::take(&mut turn.behind);
        let op = Op::Early(Box::new(turn), commit);
        std::iter::once(Write::new(op, reply))
            .chain(behind)
            .collect()
    }

    /// The group stores the messages and the lease of a turn in flight. Returns what it has to write.
    pub(super) fn lease(&mut self, token: Uuid) -> Vec<Write> {
        let Some(mut turn) = self.end(token) else {
            return Vec::new();
        };
        self.leasing.begin(token);
        let behind = std::mem::take(&mut turn.behind);
        // No caller waits for the lease itself.
        let (reply, _) = oneshot::channel();
        let op = Op::Lease(Box::new(turn));
        std::iter::once(Write::new(op, reply))
            .chain(behind)
            .collect()
    }

    /// Stores the leases of turns that have been in flight for long enough. Returns what the group has to write.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Write> {
        let is_over = |turn: &&EarlyTurn| turn.until <= now;
        let over: Vec<Uuid> = self
            .in_flight
            .values()
            .filter(is_over)
            .map(|it| it.token)
            .collect();
        if !over.is_empty() {
            self.back_off.pause(now);
        }
        over.into_iter()
            .flat_map(|token| self.lease(token))
            .collect()
    }

    /// Answers `caller` with whether the lease of this turn is stored, once that is known.
    pub(super) fn answer_when_stored(&mut self, token: Uuid, caller: oneshot::Sender<bool>) {
        self.leasing.answer_when_stored(token, caller);
    }

    /// Keeps a write that uses a lease until the lease is stored; gives back any other.
    pub(super) fn park(&mut self, token: Uuid, write: Write) -> Option<Write> {
        self.leasing.park(token, write)
    }

    /// Whether the lease of this turn is not stored yet.
    pub(super) fn owes(&self, token: Uuid) -> bool {
        self.tokens.contains_key(&token) || self.leasing.contains(token)
    }

    /// An exchange has ended. `leases`: those it settled, with `false` if they are refused or unknown. `stored`:
    /// whether the server stored the early turns of the exchange, if there were any. Returns the writes that waited for
    /// leases.
    pub(super) fn exchanged(
        &mut self,
        leases: &[(Uuid, bool)],
        stored: Option<bool>,
        now: Instant,
    ) -> Vec<Write> {
        match stored {
            Some(true) => self.back_off.ease(),
            Some(false) => self.back_off.pause(now),
            None => {}
        }
        self.leasing.settle(leases)
    }

    /// Whether the group hands nothing out early for now.
    pub(super) fn backs_off(&self, now: Instant) -> bool {
        self.back_off.holds(now)
    }
}
