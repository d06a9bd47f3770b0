//! What an explanation consists of. Plain data: a command line prints it, a dashboard draws it.

use duroxide_core::provider::HandlerKind;
use serde::{Serialize, Serializer};

/// Why an instance stands where it stands. `Display` puts it into words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The instance.
    pub instance_id: String,
    /// Handler name; empty if it is not known yet.
    pub name: String,
    /// Handler version; empty if it is not known yet.
    pub version: String,
    /// Current execution.
    pub execution_id: u64,
    /// The status of that execution.
    pub standing: Standing,
    /// Time at which this was found out, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Time of the last event of its history, in milliseconds since the Unix epoch.
    pub last_event_ms: Option<u64>,
    /// Its waits, in the order in which its code asked.
    pub waits: Vec<Wait>,
    /// Other facts that an operator should know.
    pub findings: Vec<Finding>,
}

/// Where an instance stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// Its start is in the queue.
    NotBegun,
    /// It runs.
    Running,
    /// It continued as new, and the next execution has not begun.
    BetweenExecutions,
    /// It ended with a value.
    Completed {
        /// The value.
        output: String,
    },
    /// It ended without a value.
    Failed {
        /// The cause, in words.
        error: String,
    },
}

impl Standing {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed { .. })
    }
}

/// Something that an instance waits for. Times are in milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Wait {
    /// The result of an activity.
    Activity {
        /// The event that scheduled it.
        event_id: u64,
        /// Its name.
        name: String,
        /// The tag that a worker must take.
        tag: Option<String>,
        /// The session it is bound to.
        session: Option<String>,
        /// The time at which it was scheduled.
        since_ms: u64,
        /// The queue or worker that has it.
        place: ActivityPlace,
        /// How the same call failed before it was asked for again.
        failed_before: Option<FailedBefore>,
    },
    /// A timer.
    Timer {
        /// The event that set it.
        event_id: u64,
        /// The time at which it is due.
        due_ms: u64,
        /// The time at which it was set.
        since_ms: u64,
        /// The failure that the code answered by setting it. Such a timer is the pause of a policy that tries again, or
        /// one of the author's own: the record does not tell them apart.
        failed_before: Option<FailedBefore>,
    },
    /// A signal.
    Signal {
        /// The event that began the wait.
        event_id: u64,
        /// Its name.
        name: String,
        /// The time at which the wait began.
        since_ms: u64,
    },
    /// A message of a queue.
    Queue {
        /// The event that began the wait.
        event_id: u64,
        /// The queue's name.
        name: String,
        /// The time at which the wait began.
        since_ms: u64,
    },
    /// The result of a child.
    Child {
        /// The event that scheduled it.
        event_id: u64,
        /// Its handler.
        name: String,
        /// The child.
        instance_id: String,
        /// The time at which it was scheduled.
        since_ms: u64,
        /// Why the child stands where it stands; `None` if nothing is known of it, or it stands above.
        why: Option<Box<Explanation>>,
    },
}

impl Wait {
    /// The name of the activity, signal, queue or child's handler; timers have none.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Activity { name, .. }
            | Self::Signal { name, .. }
            | Self::Queue { name, .. }
            | Self::Child { name, .. } => Some(name),
            Self::Timer { .. } => None,
        }
    }
}

/// Failures of one call of an activity, as the history shows them: the same name, input, tag and session, asked for
/// again after each failure. Times are in milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedBefore {
    /// The name of the activity.
    pub activity: String,
    /// How often it failed in this execution.
    pub times: u32,
    /// Message of the last failure.
    pub last_error: String,
    /// The time at which the last failure was recorded.
    pub at_ms: u64,
}

/// Where an activity is that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActivityPlace {
    /// The store cannot tell.
    Unknown,
    /// In the queue.
    Queued {
        /// The time at which it can be claimed; 0 if it always could.
        visible_at_ms: u64,
        /// Number of attempts by workers.
        attempts: u32,
    },
    /// A worker holds it.
    Held {
        /// Until when, unless the worker renews its lease.
        until_ms: u64,
        /// The number of this attempt.
        attempts: u32,
        /// The name of the node that holds it; `None` if none has said so. A node says what it holds when it announces
        /// itself, so this is known a few seconds after the claim.
        worker: Option<String>,
        /// The time at which that node claimed it.
        since_ms: Option<u64>,
        /// The time at which that node was last heard from, if it is gone: it died, or it cannot reach the store.
        silent_since_ms: Option<u64>,
    },
    /// A worker has claimed it at least once; the store cannot tell more.
    Claimed,
    /// It is not in the queue: its result is on the way, or it became a dead letter.
    NotQueued,
}

/// Something an operator should know. Times are in milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finding {
    /// A client, or its parent, asked it to cancel.
    CancelRequested {
        /// The reason that the caller gave.
        reason: String,
        /// The time of the request.
        at_ms: u64,
    },
    /// A message that concerns it was dead-lettered.
    DeadLetter {
        /// The number of the dead letter.
        id: u64,
        /// The reason.
        reason: String,
        /// The time at which it was dead-lettered.
        at_ms: u64,
    },
    /// Work of a handler that it needs is ready and no node claims it: none may have the code.
    NotClaimed {
        /// The kind of handler.
        #[serde(serialize_with = "kind_in_words")]
        kind: HandlerKind,
        /// The handler.
        name: String,
        /// The version that is needed.
        version: Option<String>,
        /// How many instances or activities wait for it.
        count: u64,
        /// Since when the oldest does.
        since_ms: u64,
    },
    /// Work of a handler that it needs is ready, and no node that is up has the code.
    NoNodeHasIt {
        /// The kind of handler.
        #[serde(serialize_with = "kind_in_words")]
        kind: HandlerKind,
        /// The handler.
        name: String,
        /// The version that is needed.
        version: Option<String>,
        /// How many instances or activities wait for it.
        count: u64,
        /// Since when the oldest does.
        since_ms: u64,
        /// How many nodes are up.
        nodes: u64,
    },
    /// Work of a handler that it needs is ready, and has been for a short time only: nodes are busy, or about to take
    /// it.
    InLine {
        /// The kind of handler.
        #[serde(serialize_with = "kind_in_words")]
        kind: HandlerKind,
        /// The handler.
        name: String,
        /// The version that is needed.
        version: Option<String>,
        /// How many instances or activities wait for it.
        count: u64,
        /// Since when the oldest does.
        since_ms: u64,
    },
    /// A node cannot go on with it and tries again later: its code does not fit the history, or the store refuses its
    /// turns.
    Blocked {
        /// The name of the node.
        node: String,
        /// The report: what is recorded against what the code attempted, or what the store said.
        report: String,
        /// How often the node has tried.
        attempts: u32,
    },
    /// An operator paused it: nothing of it runs until it is resumed.
    Paused {
        /// Since when.
        since_ms: u64,
    },
    /// The store is closed, for a move or an import: nothing in it runs.
    StoreClosed {
        /// For what, and where everything went.
        reason: String,
    },
    /// A node runs a turn of it.
    TurnRuns {
        /// Until when it holds the instance, unless it renews its lease.
        until_ms: u64,
    },
    /// Messages are ready and no node has taken them in.
    MessagesWait {
        /// Their number.
        count: u64,
        /// Since when the first does.
        since_ms: u64,
        /// The largest number of attempts of one of them.
        attempts: u32,
    },
}

fn kind_in_words<S: Serializer>(kind: &HandlerKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match kind {
        HandlerKind::Orchestration => "orchestration",
        HandlerKind::Activity => "activity",
    })
}
