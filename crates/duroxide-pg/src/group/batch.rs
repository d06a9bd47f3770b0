//! What one exchange carries. In: the queue of writes, claims that want to be tried. Out: calls in the order of the locks.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use duroxide_core::provider::rules::lane::{Needs, WorkNeeds};

use super::lanes::Lanes;
use super::{Op, Write};
use crate::args::Call;
use crate::codec::{NewMessage, NewWork};
use crate::look::Look;
use crate::ops::commit_turn::{self, Commit};
use crate::ops::enqueue::{self, Ack};
use crate::ops::{claim_turns, claim_work};

/// How much one exchange carries at most.
const WRITES_MAX: usize = 256;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A claim of turns with the lanes it may and may not claim from.
pub(super) struct TurnRider {
    pub(super) id: u64,
    pub(super) ask: Arc<claim_turns::Ask>,
    fit: Vec<String>,
    unfit: Vec<String>,
    /// Of those the ones whose engine version the claimer cannot replay.
    barred: Vec<String>,
}

/// A claim of activities, the same way.
pub(super) struct WorkRider {
    pub(super) id: u64,
    pub(super) ask: Arc<claim_work::Ask>,
    plain: Vec<String>,
    bound: Vec<String>,
    unfit: Vec<String>,
}

#[derive(Default)]
pub(super) struct Batch {
    pub(super) writes: Vec<Write>,
    pub(super) turns: Vec<TurnRider>,
    pub(super) work: Vec<WorkRider>,
}

/// Which call an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Nothing to be learnt from it.
    Silent,
    Commits,
    Messages,
    Acks,
    RenewTurns,
    RenewWork,
    ClaimTurns(usize),
    ClaimWork(usize),
}

impl Batch {
    /// Takes what waits, at most as much as one exchange carries. A lease is used once in an exchange: its second use
    /// must see what the first one did.
    pub(super) fn fill(writes: &mut VecDeque<Write>) -> Self {
        let mut batch = Self::default();
        let mut bytes = 0;
        let mut held: HashSet<uuid::Uuid> = HashSet::new();
        while batch.writes.len() < WRITES_MAX && bytes < BYTES_MAX {
            let Some(write) = writes.front() else {
                break;
            };
            let (size, token) = match &write.op {
                Op::Commit(commit) => (commit.bytes(), Some(commit.token)),
                Op::Ack(ack) => (
                    ack.completion.as_ref().map_or(0, |one| one.json.len()),
                    Some(ack.token),
                ),
                Op::Message(message) => (message.json.len(), None),
                Op::Work(work) => (work.json.len(), None),
                Op::RenewTurn { token, .. } | Op::RenewWork { token, .. } => (0, Some(*token)),
            };
            if token.is_some_and(|token| !held.insert(token)) {
                break;
            }
            bytes += size;
            batch.writes.extend(writes.pop_front());
        }
        batch
    }

    /// One write alone.
    pub(super) fn alone(write: Write) -> Self {
        Self {
            writes: vec![write],
            ..Self::default()
        }
    }

    pub(super) fn claim_turns(
        &mut self,
        id: u64,
        ask: Arc<claim_turns::Ask>,
        lanes: &Lanes<Needs>,
    ) {
        let (fit, unfit) = match ask.abilities.are_all() {
            true => (Vec::new(), Vec::new()),
            false => lanes.sorted(|needs| ask.abilities.fit(needs)),
        };
        // A node that cannot replay an execution cannot carry out a request to cancel it either.
        let cannot_replay = |lane: &&String| {
            let pinned = lanes.needs(lane).and_then(|needs| needs.pinned.as_ref());
            let filter = ask.abilities.filter.as_ref();
            pinned.is_some_and(|version| filter.is_some_and(|it| !it.is_compatible(version)))
        };
        let barred = unfit.iter().filter(cannot_replay).cloned().collect();
        self.turns.push(TurnRider {
            id,
            ask,
            fit,
            unfit,
            barred,
        });
    }

    pub(super) fn claim_work(
        &mut self,
        id: u64,
        ask: Arc<claim_work::Ask>,
        lanes: &Lanes<WorkNeeds>,
    ) {
        let (fit, unfit) = lanes.sorted(|needs| ask.fits(needs));
        let (bound, plain) = fit
            .into_iter()
            .partition(|lane| lanes.needs(lane).is_some_and(|needs| needs.in_session));
        self.work.push(WorkRider {
            id,
            ask,
            plain,
            bound,
            unfit,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// How many parts it has that could break.
    pub(super) fn size(&self) -> usize {
        self.writes.len() + self.turns.len() + self.work.len()
    }

    /// What the writes make claimable.
    pub(super) fn brings(&self) -> Look {
        let mut brings = Look::default();
        for write in &self.writes {
            match &write.op {
                Op::Commit(commit) => {
                    brings.turns |= !commit.to_orchestrators.is_empty();
                    brings.work |= !commit.to_workers.is_empty();
                }
                Op::Ack(ack) => brings.turns |= ack.completion.is_some(),
                Op::Message(_) => brings.turns = true,
                Op::Work(_) => brings.work = true,
                Op::RenewTurn { .. } | Op::RenewWork { .. } => {}
            }
        }
        brings
    }

    fn ops(&self) -> impl Iterator<Item = &Op> {
        self.writes.iter().map(|write| &write.op)
    }

    /// Commits, in the order of their call.
    pub(super) fn commits(&self) -> Vec<&Commit> {
        self.ops()
            .filter_map(|op| match op {
                Op::Commit(commit) => Some(&**commit),
                _ => None,
            })
            .collect()
    }

    fn acks(&self) -> Vec<&Ack> {
        self.ops()
            .filter_map(|op| match op {
                Op::Ack(ack) => Some(ack),
                _ => None,
            })
            .collect()
    }

    fn messages(&self) -> Vec<&NewMessage> {
        self.ops()
            .filter_map(|op| match op {
                Op::Message(message) => Some(message),
                _ => None,
            })
            .collect()
    }

    fn new_work(&self) -> Vec<&NewWork> {
        self.ops()
            .filter_map(|op| match op {
                Op::Work(work) => Some(work),
                _ => None,
            })
            .collect()
    }

    /// The calls of the exchange. Renewals come first: nothing that takes long may stand before them.
    pub(super) fn calls(&self, expected: i64) -> Vec<(Part, Call<'_>)> {
        let mut calls = Vec::with_capacity(8);
        let (commits, acks) = (self.commits(), self.acks());
        let (messages, work) = (self.messages(), self.new_work());
        self.open(&commits, &acks, &messages, expected, &mut calls);
        self.renewals(expected, &mut calls);
        if !commits.is_empty() {
            let fed = fed(&commits, &acks, &messages);
            calls.push((Part::Commits, commit_turn::call(&commits, &fed, expected)));
        }
        if !acks.is_empty() {
            calls.push((Part::Acks, enqueue::acks(&acks, expected)));
        }
        if !messages.is_empty() {
            calls.push((Part::Messages, enqueue::messages(&messages, expected)));
        }
        if !work.is_empty() {
            calls.push((Part::Silent, enqueue::work(&work, expected)));
        }
        // Activities act on the world: a worker must not begin one whose claim a crash of the server could undo.
        let lazy = self.writes.is_empty() && self.work.is_empty();
        for (place, rider) in self.turns.iter().enumerate() {
            let (fit, unfit) = (&rider.fit, &rider.unfit);
            let call = rider.ask.call(fit, unfit, &rider.barred, lazy, expected);
            calls.push((Part::ClaimTurns(place), call));
        }
        for (place, rider) in self.work.iter().enumerate() {
            let (plain, bound) = (&rider.plain, &rider.bound);
            let call = rider.ask.call(plain, bound, &rider.unfit, expected);
            calls.push((Part::ClaimWork(place), call));
        }
        calls
    }

    fn open<'a>(
        &'a self,
        commits: &[&'a Commit],
        acks: &[&'a Ack],
        messages: &[&'a NewMessage],
        expected: i64,
        calls: &mut Vec<(Part, Call<'a>)>,
    ) {
        let renewed = self.ops().filter_map(|op| match op {
            Op::RenewTurn { instance, .. } => Some(instance.as_str()),
            _ => None,
        });
        let held: Vec<&str> = commits
            .iter()
            .map(|commit| commit.instance.as_str())
            .chain(renewed)
            .collect();
        let sent: Vec<&NewMessage> = commits
            .iter()
            .flat_map(|commit| &commit.to_orchestrators)
            .chain(acks.iter().filter_map(|ack| ack.completion.as_ref()))
            .chain(messages.iter().copied())
            .collect();
        if !held.is_empty() || !sent.is_empty() {
            calls.push((Part::Silent, enqueue::open(held, &sent, expected)));
        }
    }

    fn renewals<'a>(&'a self, expected: i64, calls: &mut Vec<(Part, Call<'a>)>) {
        let turns = || {
            self.ops().filter_map(|op| match op {
                Op::RenewTurn {
                    instance,
                    token,
                    for_ms,
                    ..
                } => Some((instance.as_str(), *token, *for_ms)),
                _ => None,
            })
        };
        if turns().next().is_some() {
            let call = Call::new("renew_turns")
                .int(expected)
                .texts(turns().map(|(instance, _, _)| instance))
                .uuids(turns().map(|(_, token, _)| token))
                .ints(turns().map(|(_, _, for_ms)| for_ms));
            calls.push((Part::RenewTurns, call));
        }
        let work = || {
            self.ops().filter_map(|op| match op {
                Op::RenewWork { id, token, for_ms } => Some((*id, *token, *for_ms)),
                _ => None,
            })
        };
        if work().next().is_some() {
            let call = Call::new("renew_work")
                .int(expected)
                .ints(work().map(|(id, _, _)| id))
                .uuids(work().map(|(_, token, _)| token))
                .ints(work().map(|(_, _, for_ms)| for_ms));
            calls.push((Part::RenewWork, call));
        }
    }
}

/// Instances whose turn is committed here and which are sent something by a later call of the same exchange.
fn fed<'a>(commits: &[&'a Commit], acks: &[&'a Ack], messages: &[&'a NewMessage]) -> Vec<&'a str> {
    let committed: HashSet<&str> = commits.iter().map(|one| one.instance.as_str()).collect();
    let sent = acks.iter().filter_map(|ack| ack.completion.as_ref());
    let sent: HashSet<&str> = sent
        .chain(messages.iter().copied())
        .map(|message| message.instance.as_str())
        .filter(|instance| committed.contains(instance))
        .collect();
    sent.into_iter().collect()
}
