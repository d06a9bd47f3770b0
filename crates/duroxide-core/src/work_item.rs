//! What travels on the queues. In: decisions of a turn, results of workers, calls of clients. Out: the messages that
//! stores keep as JSON, with what each says of its instance and its operation.

use serde::{Deserialize, Serialize};

use crate::event::ErrorDetails;
use crate::message::is_engine_queue;

/// What the reason of a [`WorkItem::CancelInstance`] begins with that terminates: it ends the instance at once, and its
/// code is not asked. Stores match on the kinds of work items, so this is a reason and not a kind of its own.
pub const TERMINATE_PREFIX: &str = "duroxide:terminate:";

/// The plain reason of a request to terminate; `None` for a request to cancel.
///
/// ```
/// use duroxide_core::{TERMINATE_PREFIX, termination_reason};
/// assert_eq!(termination_reason(&format!("{TERMINATE_PREFIX}enough")), Some("enough"));
/// assert_eq!(termination_reason("enough"), None);
/// ```
#[must_use]
pub fn termination_reason(reason: &str) -> Option<&str> {
    reason.strip_prefix(TERMINATE_PREFIX)
}

/// What the reason of a [`WorkItem::CancelInstance`] begins with that a parent sent to its child; the parent's id
/// follows.
const PARENT_PREFIX: &str = "duroxide:parent:";

/// The reason of a request to cancel that a parent sends to its child: it names the parent, so that an instance that is
/// not its child does not take it for its own.
///
/// ```
/// use duroxide_core::{reason_from_parent, sent_by_parent};
/// let reason = reason_from_parent("order-7", "parent canceled");
/// assert_eq!(sent_by_parent(&reason), Some(("order-7", "parent canceled")));
/// assert_eq!(sent_by_parent("enough"), None);
/// ```
#[must_use]
pub fn reason_from_parent(parent: &str, reason: &str) -> String {
    format!("{PARENT_PREFIX}{}:{parent}{reason}", parent.len())
}

/// Which parent sent a request to cancel, and the plain reason; `None` if no parent did.
#[must_use]
pub fn sent_by_parent(reason: &str) -> Option<(&str, &str)> {
    let (length, rest) = reason.strip_prefix(PARENT_PREFIX)?.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

/// A message on the orchestrator queue or, for [`WorkItem::ActivityExecute`], on the worker queue.
///
/// ```
/// use duroxide_core::WorkItem;
/// let item = WorkItem::CancelInstance { instance: "order-7".into(), reason: "asked".into() };
/// assert_eq!(item.target_instance(), "order-7");
/// assert_eq!(item.kind_name(), "CancelInstance");
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub enum WorkItem {
    /// Begin an instance.
    StartOrchestration {
        /// The instance that it is for.
        instance: String,
        /// Handler name.
        orchestration: String,
        /// Its input.
        input: String,
        /// Exact version, or `None` for the registry's policy.
        version: Option<String>,
        /// The instance that awaits the result.
        parent_instance: Option<String>,
        /// Scheduling event in the parent.
        parent_id: Option<u64>,
        /// Execution of the parent that scheduled this child.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        parent_execution_id: Option<u64>,
        /// Execution to create, normally 1.
        execution_id: u64,
    },
    /// Run an activity.
    ActivityExecute {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// Scheduling event id.
        id: u64,
        /// Registered name.
        name: String,
        /// Its input.
        input: String,
        /// Session it is bound to.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        session_id: Option<String>,
        /// Tag that routes it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        tag: Option<String>,
    },
    /// An activity returned a value.
    ActivityCompleted {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// Scheduling event id.
        id: u64,
        /// The value.
        result: String,
    },
    /// An activity failed.
    ActivityFailed {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// Scheduling event id.
        id: u64,
        /// The cause of the failure.
        details: ErrorDetails,
    },
    /// A timer is due.
    TimerFired {
        /// The instance that set it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// Scheduling event id.
        id: u64,
        /// The time at which it is due; the message becomes visible then.
        fire_at_ms: u64,
    },
    /// A positional signal.
    ExternalRaised {
        /// The instance that it is for.
        instance: String,
        /// Signal name.
        name: String,
        /// The payload that the sender gave.
        data: String,
    },
    /// A child returned a value.
    SubOrchCompleted {
        /// The instance that awaits it.
        parent_instance: String,
        /// The execution that scheduled it.
        parent_execution_id: u64,
        /// Scheduling event id.
        parent_id: u64,
        /// The value.
        result: String,
    },
    /// A child failed.
    SubOrchFailed {
        /// The instance that awaits it.
        parent_instance: String,
        /// The execution that scheduled it.
        parent_execution_id: u64,
        /// Scheduling event id.
        parent_id: u64,
        /// The cause of the failure.
        details: ErrorDetails,
    },
    /// Cancel an instance, or terminate it: see [`TERMINATE_PREFIX`].
    CancelInstance {
        /// The instance that it is for.
        instance: String,
        /// The reason that the caller gave.
        reason: String,
    },
    /// Begin the next execution of an instance.
    ContinueAsNew {
        /// The instance that it is for.
        instance: String,
        /// Handler name.
        orchestration: String,
        /// Its input.
        input: String,
        /// Exact version, or `None` for the registry's policy.
        version: Option<String>,
        /// The instance that awaits the result.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        parent_instance: Option<String>,
        /// Scheduling event in the parent.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        parent_id: Option<u64>,
        /// Execution of the parent that scheduled this child.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        parent_execution_id: Option<u64>,
        /// Unread queue messages, oldest first.
        #[serde(default)]
        carry_forward_events: Vec<(String, String)>,
        /// Custom status at the end of the previous execution.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        initial_custom_status: Option<String>,
    },
    /// A queue message.
    QueueMessage {
        /// The instance that it is for.
        instance: String,
        /// Queue name.
        name: String,
        /// The payload that the sender gave.
        data: String,
    },
}

impl WorkItem {
    /// Whether this ends its instance at once and its code is not asked: a request to terminate, by whomever. A store
    /// hands it out to any node, with the instance's code or without.
    ///
    /// ```
    /// use duroxide_core::{TERMINATE_PREFIX, WorkItem};
    /// let cancel = |reason: &str| WorkItem::CancelInstance { instance: "order-7".into(), reason: reason.into() };
    /// assert!(cancel(&format!("{TERMINATE_PREFIX}enough")).terminates());
    /// assert!(!cancel("enough").terminates());
    /// ```
    #[must_use]
    pub fn terminates(&self) -> bool {
        let Self::CancelInstance { reason, .. } = self else {
            return false;
        };
        let plain = sent_by_parent(reason).map_or(reason.as_str(), |(_, plain)| plain);
        termination_reason(plain).is_some()
    }

    /// Whether the item begins an execution that brings unread queue messages along. What the engine carries for
    /// itself, keys and labels, are none. A claim that takes such an item leaves further queue messages behind.
    #[must_use]
    pub fn carries_messages(&self) -> bool {
        matches!(self, Self::ContinueAsNew { carry_forward_events, .. }
            if carry_forward_events.iter().any(|(queue, _)| !is_engine_queue(queue)))
    }

    /// The instance whose queue the item belongs to.
    #[must_use]
    pub fn target_instance(&self) -> &str {
        match self {
            Self::StartOrchestration { instance, .. }
            | Self::ActivityExecute { instance, .. }
            | Self::ActivityCompleted { instance, .. }
            | Self::ActivityFailed { instance, .. }
            | Self::TimerFired { instance, .. }
            | Self::ExternalRaised { instance, .. }
            | Self::CancelInstance { instance, .. }
            | Self::ContinueAsNew { instance, .. }
            | Self::QueueMessage { instance, .. } => instance,
            Self::SubOrchCompleted {
                parent_instance, ..
            }
            | Self::SubOrchFailed {
                parent_instance, ..
            } => parent_instance,
        }
    }

    /// The variant's name.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::StartOrchestration { .. } => "StartOrchestration",
            Self::ActivityExecute { .. } => "ActivityExecute",
            Self::ActivityCompleted { .. } => "ActivityCompleted",
            Self::ActivityFailed { .. } => "ActivityFailed",
            Self::TimerFired { .. } => "TimerFired",
            Self::ExternalRaised { .. } => "ExternalRaised",
            Self::SubOrchCompleted { .. } => "SubOrchCompleted",
            Self::SubOrchFailed { .. } => "SubOrchFailed",
            Self::CancelInstance { .. } => "CancelInstance",
            Self::ContinueAsNew { .. } => "ContinueAsNew",
            Self::QueueMessage { .. } => "QueueMessage",
        }
    }

    /// Whether the item begins an execution.
    #[must_use]
    pub fn is_start(&self) -> bool {
        matches!(
            self,
            Self::StartOrchestration { .. } | Self::ContinueAsNew { .. }
        )
    }

    /// Name and version of the handler that the item asks for, if it begins an execution.
    #[must_use]
    pub fn begins(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::StartOrchestration {
                orchestration,
                version,
                ..
            }
            | Self::ContinueAsNew {
                orchestration,
                version,
                ..
            } => Some((orchestration, version.as_deref())),
            _ => None,
        }
    }

    /// Execution and scheduling event of the operation that waits for the item, or for the child that it starts.
    #[must_use]
    pub fn answers(&self) -> Option<(u64, u64)> {
        match self {
            Self::ActivityCompleted {
                execution_id, id, ..
            }
            | Self::ActivityFailed {
                execution_id, id, ..
            }
            | Self::TimerFired {
                execution_id, id, ..
            } => Some((*execution_id, *id)),
            Self::SubOrchCompleted {
                parent_execution_id,
                parent_id,
                ..
            }
            | Self::SubOrchFailed {
                parent_execution_id,
                parent_id,
                ..
            }
            | Self::StartOrchestration {
                parent_execution_id: Some(parent_execution_id),
                parent_id: Some(parent_id),
                ..
            } => Some((*parent_execution_id, *parent_id)),
            _ => None,
        }
    }

    /// The instance that waits for the child that this item starts; `None` for anything else.
    #[must_use]
    pub fn starts_child_of(&self) -> Option<&str> {
        match self {
            Self::StartOrchestration {
                parent_instance, ..
            } => parent_instance.as_deref(),
            _ => None,
        }
    }
}
