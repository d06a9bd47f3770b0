//! What the group writes. In: an operation, and where its answer goes. Out: the instances that it needs, and the
//! message that it sends. Never sends anything itself.

use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::calls::claim_turns::KnownUpTo;
use crate::calls::commit_turn::Commit;
use crate::calls::enqueue::{Ack, Assumed};
use crate::codec::{NewMessage, NewWork};
use crate::error::Result;

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
    pub(super) fn instances(&self) -> Vec<&str> {
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

    /// The activity that it completes.
    pub(super) fn completes(&self) -> Option<i64> {
        match self {
            Self::Ack(ack) => Some(ack.id),
            _ => None,
        }
    }

    /// Whether it goes well together with all the others of its exchange, or they are taken back with it.
    pub(super) fn is_strict(&self) -> bool {
        matches!(self, Self::Early(..) | Self::Lease(_))
    }

    pub(super) fn is_renewal(&self) -> bool {
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
    /// Whether an exchange that carried it had to wait for a row of somebody else: the next one that has to answers it.
    pub(super) was_held_up: bool,
}

impl Write {
    pub(crate) fn new(op: Op, reply: Reply) -> Self {
        Self {
            op,
            reply,
            was_held_up: false,
        }
    }
}

/// A turn that was handed out, and what it decides on.
#[derive(Debug)]
pub(crate) struct EarlyTurn {
    /// As it is stored.
    pub(crate) instance: String,
    pub(crate) token: Uuid,
    /// `None` for an instance that the turn begins.
    pub(super) known: Option<KnownUpTo>,
    /// Whether the instance may have an inbox.
    pub(super) has_inbox: bool,
    pub(super) lock_ms: i64,
    /// Completed activities of the instance, or its start.
    pub(crate) causes: Vec<Write>,
    /// What came for the instance meanwhile.
    pub(super) behind: Vec<Write>,
    pub(super) until: Instant,
}

impl EarlyTurn {
    /// How large its messages are on the wire, roughly.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.causes)
    }

    /// How the instance must stand for the server to accept the turn.
    pub(super) fn assumed(&self) -> Option<Assumed<'_>> {
        let opens = self.causes.first().and_then(|it| message_of(&it.op))?;
        Some(Assumed {
            opens,
            token: self.token,
            known: self.known,
            lock_ms: self.lock_ms,
        })
    }
}

pub(super) fn bytes_of(writes: &[Write]) -> usize {
    let messages = writes.iter().filter_map(|it| message_of(&it.op));
    messages.map(|message| message.json.len()).sum()
}

/// The message that a write sends, if it does nothing else for orchestrations.
pub(super) fn message_of(op: &Op) -> Option<&NewMessage> {
    match op {
        Op::Ack(ack) => ack.completion.as_ref(),
        Op::Message(message) => Some(message),
        _ => None,
    }
}
