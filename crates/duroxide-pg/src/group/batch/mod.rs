//! What one exchange carries. In: the queue of writes, claims that want to be tried. Out: what of it goes together.

mod calls;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use duroxide_core::provider::rules::lane::{Needs, WorkNeeds};
use tokio::time::Instant;

use super::claims::Chosen;
use super::held::Held;
use super::lanes::Lanes;
use super::loan::Loan;
use super::marks::Beginnings;
use super::write::{EarlyTurn, Op, Write};
use crate::calls::commit_turn::Commit;
use crate::calls::enqueue::Ack;
use crate::calls::{claim_turns, claim_work};
use crate::codec::{NewMessage, NewWork};
use crate::news::{ANYWHERE, Queues};

/// How much one exchange carries at most.
const WRITES_MAX: usize = 256;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A claim of turns that rides along, with the lanes it may and may not claim from.
pub(super) struct TurnRider {
    pub(super) id: u64,
    pub(super) ask: Arc<claim_turns::Ask>,
    fit: Vec<String>,
    unfit: Vec<String>,
    /// The unfit ones whose engine version the claimer cannot replay.
    barred: Vec<String>,
}

/// A claim of activities, the same way.
pub(super) struct WorkRider {
    pub(super) id: u64,
    pub(super) ask: Arc<claim_work::Ask>,
    /// Whether it was idle until now, and when something becomes claimable for it then.
    pub(super) idle: Option<Option<Instant>>,
    /// Lanes it may claim from: without a session, and bound to one.
    pub(super) plain: Vec<String>,
    bound: Vec<String>,
    unfit: Vec<String>,
}

/// What one exchange carries: writes, and the claims that ride along.
#[derive(Default)]
pub(super) struct Batch {
    /// The number of the exchange that carries it.
    pub(super) exchange: u64,
    /// Where its claims begin, unless they find their lanes by themselves.
    pub(super) turns_begin: Option<Beginnings>,
    pub(super) work_begin: Option<Beginnings>,
    /// Whether a caller does not wait and relies on no news: its claims begin at the beginning.
    pub(super) looks_at_all: bool,
    pub(super) writes: Vec<Write>,
    /// The held instance that all its writes need, if they do.
    pub(super) held: Vec<String>,
    pub(super) turns: Vec<TurnRider>,
    pub(super) work: Vec<WorkRider>,
    /// Activities that are lent to claims of the batch; then the exchange does not try these claims.
    pub(super) loans: Vec<Loan>,
}

/// A batch that is being filled.
#[derive(Default)]
struct Filling {
    batch: Batch,
    bytes: usize,
    tokens: HashSet<uuid::Uuid>,
}

impl Filling {
    /// Takes a write, or gives it back if it has to go with the next exchange. A lease is used once in an exchange: its
    /// second use must see what the first one did. Renewals go by themselves: they must not wait for what others wait
    /// for. What had to wait for a row of somebody else does not go with what is taken back as a whole.
    fn offer(&mut self, write: Write) -> Option<Write> {
        let taken = &self.batch.writes;
        let tokens = tokens(&write.op);
        let is_renewal = write.op.is_renewal();
        let is_full = taken.len() >= WRITES_MAX || self.bytes >= BYTES_MAX;
        let is_other = |first: &Write| first.op.is_renewal() != is_renewal;
        if is_full
            || taken.first().is_some_and(is_other)
            || taken.iter().any(|it| cannot_share(it, &write))
            || tokens.iter().any(|token| self.tokens.contains(token))
        {
            return Some(write);
        }
        self.tokens.extend(tokens);
        self.bytes += size(&write.op);
        self.batch.writes.push(write);
        None
    }
}

/// Whether one of them goes well or is taken back as a whole, and the other would have it taken back again.
fn cannot_share(one: &Write, other: &Write) -> bool {
    (one.was_held_up && other.op.is_strict()) || (one.op.is_strict() && other.was_held_up)
}

/// How large a write is on the wire, roughly.
fn size(op: &Op) -> usize {
    match op {
        Op::Commit(commit) => commit.bytes(),
        Op::Early(turn, commit) => commit.bytes() + turn.bytes(),
        Op::Lease(turn) => turn.bytes(),
        Op::Ack(ack) => ack.completion.as_ref().map_or(0, |one| one.json.len()),
        Op::Message(message) => message.json.len(),
        Op::Work(work) => work.json.len(),
        Op::RenewTurn { .. } | Op::RenewWork { .. } => 0,
    }
}

/// Completions, and how many of them come first that a turn was decided on.
#[derive(Default)]
struct Acks<'a> {
    all: Vec<&'a Ack>,
    decided_on: usize,
}

/// Which call an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A call whose answer the group does not need.
    Silent,
    /// The only call of the exchange (`single_call.rs`).
    Single,
    Commits,
    Messages,
    Acks,
    RenewTurns,
    RenewWork,
    ClaimTurns(usize),
    ClaimWork(usize),
}

impl Batch {
    /// Takes what waits, at most as much as one exchange carries. Writes that need a held instance stay.
    pub(super) fn fill(writes: &mut VecDeque<Write>, held: &Held) -> Self {
        let mut filling = Filling::default();
        let mut stay = VecDeque::new();
        while let Some(write) = writes.pop_front() {
            if !held.among(&write.op).is_empty() {
                stay.push_back(write);
            } else if let Some(write) = filling.offer(write) {
                writes.push_front(write);
                break;
            }
        }
        while let Some(write) = stay.pop_back() {
            writes.push_front(write);
        }
        filling.batch
    }

    /// Takes the writes that need the same held instances as the first one that needs any, and no others: those may be
    /// held for longer.
    pub(super) fn fill_held(writes: &mut VecDeque<Write>, held: &Held) -> Self {
        let mut filling = Filling::default();
        let mut needed = writes.iter().map(|write| held.among(&write.op));
        let Some(first) = needed.find(|needed| !needed.is_empty()) else {
            return filling.batch;
        };
        let first: Vec<String> = first.into_iter().map(str::to_owned).collect();
        let mut is_full = false;
        let mut stay = VecDeque::with_capacity(writes.len());
        for write in writes.drain(..) {
            let needed = held.among(&write.op);
            let is_chosen = |one: &&str| first.iter().any(|it| it == one);
            if is_full || needed.is_empty() || !needed.iter().all(is_chosen) {
                stay.push_back(write);
            } else if let Some(write) = filling.offer(write) {
                is_full = true;
                stay.push_back(write);
            }
        }
        *writes = stay;
        filling.batch.held = first;
        filling.batch
    }

    /// One claim alone, from the beginning.
    pub(super) fn of_turn_claim(rider: TurnRider) -> Self {
        Self {
            turns: vec![rider],
            ..Self::default()
        }
    }

    /// The same, of activities.
    pub(super) fn of_work_claim(rider: WorkRider) -> Self {
        Self {
            work: vec![rider],
            ..Self::default()
        }
    }

    /// One write alone.
    pub(super) fn alone(write: Write) -> Self {
        Self {
            writes: vec![write],
            ..Self::default()
        }
    }

    pub(super) fn claim_turns(&mut self, chosen: Chosen<claim_turns::Ask>, lanes: &Lanes<Needs>) {
        let Chosen { id, ask, waits, .. } = chosen;
        self.looks_at_all |= !waits;
        let (fit, unfit) = if ask.abilities.are_all() {
            (Vec::new(), Vec::new())
        } else {
            lanes.sorted(|needs| ask.abilities.fit(needs))
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

    pub(super) fn claim_work(&mut self, chosen: Chosen<claim_work::Ask>, lanes: &Lanes<WorkNeeds>) {
        let Chosen {
            id,
            ask,
            idle,
            waits,
        } = chosen;
        self.looks_at_all |= !waits;
        let (fit, unfit) = lanes.sorted(|needs| ask.fits(needs));
        let (bound, plain) = fit
            .into_iter()
            .partition(|lane| lanes.needs(lane).is_some_and(|needs| needs.in_session));
        self.work.push(WorkRider {
            id,
            ask,
            idle,
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
    pub(super) fn brings(&self) -> Queues {
        let mut brings = Queues::default();
        for write in &self.writes {
            match &write.op {
                Op::Commit(commit) | Op::Early(_, commit) => {
                    brings.turns |= !commit.to_orchestrators.is_empty();
                    brings.work |= !commit.to_workers.is_empty();
                }
                Op::Ack(ack) => brings.turns |= ack.completion.is_some(),
                Op::Message(_) => brings.turns = true,
                Op::Work(_) => brings.work = true,
                Op::Lease(_) | Op::RenewTurn { .. } | Op::RenewWork { .. } => {}
            }
        }
        brings
    }

    /// The smallest key of an inbox that the writes may open, if that is known to be smaller than the time at which
    /// they are written: of a timer that is due already. A message that continues an instance may take its inbox to
    /// another lane, with the key it has.
    pub(super) fn turns_from(&self) -> Option<i64> {
        let commits = self.commits().into_iter();
        let sent = commits.flat_map(|commit| &commit.to_orchestrators);
        let messages = sent.chain(self.messages());
        messages
            .filter_map(|message| match message.kind {
                "ContinueAsNew" => Some(ANYWHERE),
                _ => message.due,
            })
            .min()
    }

    pub(super) fn ops(&self) -> impl Iterator<Item = &Op> {
        self.writes.iter().map(|write| &write.op)
    }

    /// Commits, in the order of their call.
    pub(super) fn commits(&self) -> Vec<&Commit> {
        self.ops()
            .filter_map(|op| match op {
                Op::Commit(commit) | Op::Early(_, commit) => Some(&**commit),
                _ => None,
            })
            .collect()
    }

    /// Turns that are stored with what they were decided on.
    fn early(&self) -> Vec<&EarlyTurn> {
        self.ops()
            .filter_map(|op| match op {
                Op::Early(turn, _) => Some(&**turn),
                _ => None,
            })
            .collect()
    }

    /// Turns whose messages and leases are stored.
    fn leases(&self) -> Vec<&EarlyTurn> {
        self.ops()
            .filter_map(|op| match op {
                Op::Lease(turn) => Some(&**turn),
                _ => None,
            })
            .collect()
    }

    /// Whether it goes well or is taken back as a whole.
    pub(super) fn is_strict(&self) -> bool {
        self.ops().any(Op::is_strict)
    }

    /// How many completions come first in their call, because turns were decided on them.
    pub(super) fn decided_on(&self) -> usize {
        self.acks().decided_on
    }

    fn acks(&self) -> Acks<'_> {
        let mut all = acks_of(self.early());
        let decided_on = all.len();
        all.extend(self.ops().filter_map(|op| match op {
            Op::Ack(ack) => Some(ack),
            _ => None,
        }));
        Acks { all, decided_on }
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
}

/// The completions that these turns were decided on.
fn acks_of<'a>(turns: impl IntoIterator<Item = &'a EarlyTurn>) -> Vec<&'a Ack> {
    let causes = turns.into_iter().flat_map(|turn| &turn.causes);
    causes
        .filter_map(|write| match &write.op {
            Op::Ack(ack) => Some(ack),
            _ => None,
        })
        .collect()
}

/// The leases that a write uses.
fn tokens(op: &Op) -> Vec<uuid::Uuid> {
    let of_causes = |turn: &EarlyTurn| {
        let acks = acks_of([turn]);
        acks.into_iter().map(|ack| ack.token).collect::<Vec<_>>()
    };
    match op {
        Op::Commit(commit) => vec![commit.token],
        Op::Early(turn, _) | Op::Lease(turn) => {
            let mut tokens = of_causes(turn);
            tokens.push(turn.token);
            tokens
        }
        Op::Ack(ack) => vec![ack.token],
        Op::RenewTurn { token, .. } | Op::RenewWork { token, .. } => vec![*token],
        Op::Message(_) | Op::Work(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use duroxide_core::provider::{ExecutionMetadata, TurnWrites, WorkItem};
    use tokio::sync::oneshot;
    use uuid::Uuid;

    use super::*;
    use crate::{codec, token};

    fn write(op: Op) -> Write {
        Write::new(op, oneshot::channel().0)
    }

    /// The commit of a turn that sends something to another instance.
    fn commit(instance: &str, sends_to: &str) -> Write {
        let sent = WorkItem::ExternalRaised {
            instance: sends_to.to_owned(),
            name: "go".to_owned(),
            data: "{}".to_owned(),
        };
        let writes = TurnWrites {
            execution_id: 1,
            history: Vec::new(),
            to_workers: Vec::new(),
            to_orchestrators: vec![sent],
            metadata: ExecutionMetadata::default(),
            cancelled: Vec::new(),
        };
        let token = token::for_turn(instance, Uuid::new_v4());
        write(Op::Commit(Box::new(Commit::new(&token, writes).unwrap())))
    }

    fn to(instance: &str) -> Write {
        let item = WorkItem::ExternalRaised {
            instance: instance.to_owned(),
            name: "go".to_owned(),
            data: "{}".to_owned(),
        };
        write(Op::Message(codec::message(&item, None).unwrap()))
    }

    fn renewal() -> Write {
        write(Op::RenewWork {
            id: 1,
            token: Uuid::new_v4(),
            for_ms: 1,
        })
    }

    fn instances(batch: &Batch) -> Vec<&str> {
        batch.ops().flat_map(Op::instances).collect()
    }

    fn holding(instances: &[&str], now: Instant) -> Held {
        let held: Vec<String> = instances.iter().map(|it| (*it).to_owned()).collect();
        let mut all = Held::new(now);
        all.ended(&[], &held, now);
        all
    }

    #[test]
    fn a_write_to_an_instance_that_is_held_shares_no_exchange_with_others() {
        let now = Instant::now();
        let held = holding(&["a"], now);
        let mut writes = VecDeque::from([to("a"), to("b"), to("a"), to("c")]);
        assert_eq!(instances(&Batch::fill(&mut writes, &held)), ["b", "c"]);
        let alone = Batch::fill_held(&mut writes, &held);
        assert_eq!(
            (instances(&alone), &alone.held[..]),
            (vec!["a", "a"], &["a".to_owned()][..])
        );
        assert!(writes.is_empty());
    }

    #[test]
    fn writes_to_one_held_instance_do_not_wait_for_another() {
        let now = Instant::now();
        let held = holding(&["a", "b"], now);
        let mut writes = VecDeque::from([to("b"), to("a"), to("c"), to("b")]);
        assert_eq!(instances(&Batch::fill_held(&mut writes, &held)), ["b", "b"]);
        assert_eq!(instances(&Batch::fill_held(&mut writes, &held)), ["a"]);
        assert_eq!(writes.len(), 1);
    }

    #[test]
    fn a_write_that_needs_a_second_held_instance_does_not_go_with_those_that_need_one() {
        let now = Instant::now();
        let held = holding(&["a", "b"], now);
        let mut writes = VecDeque::from([to("a"), commit("a", "b"), to("a")]);
        assert_eq!(instances(&Batch::fill_held(&mut writes, &held)), ["a", "a"]);
        let both = Batch::fill_held(&mut writes, &held);
        assert_eq!(both.held, ["b", "a"]);
        assert!(writes.is_empty());
    }

    #[test]
    fn what_had_to_wait_shares_no_exchange_with_what_is_taken_back_as_a_whole() {
        let held = Held::new(Instant::now());
        let turn = || {
            write(Op::Lease(Box::new(EarlyTurn {
                instance: "early".to_owned(),
                token: Uuid::new_v4(),
                known: None,
                has_inbox: false,
                lock_ms: 1,
                causes: Vec::new(),
                behind: Vec::new(),
                until: Instant::now(),
            })))
        };
        let waited = || Write {
            was_held_up: true,
            ..to("a")
        };
        let mut writes = VecDeque::from([waited(), to("b"), turn(), to("c")]);
        assert_eq!(instances(&Batch::fill(&mut writes, &held)), ["a", "b"]);
        let mut writes = VecDeque::from([turn(), to("b"), waited(), to("c")]);
        assert_eq!(instances(&Batch::fill(&mut writes, &held)), ["early", "b"]);
    }

    #[test]
    fn a_renewal_shares_no_exchange_with_what_may_wait() {
        let held = Held::new(Instant::now());
        let mut writes = VecDeque::from([renewal(), renewal(), to("a")]);
        assert_eq!(Batch::fill(&mut writes, &held).writes.len(), 2);
        assert_eq!(instances(&Batch::fill(&mut writes, &held)), ["a"]);
    }
}
