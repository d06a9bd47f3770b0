//! The closed set of things that can happen, with their stored names.

use serde::{Deserialize, Serialize};

use super::ErrorDetails;

/// What an [`Event`](super::Event) records.
///
/// The `type` on the wire is the variant's name, except for the three queue kinds, which keep their historic names.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "type")]
pub enum EventKind {
    /// An execution began.
    OrchestrationStarted {
        /// Registered name of the handler.
        name: String,
        /// Version the name was resolved to; pinned for the whole execution.
        version: String,
        /// Input of the execution.
        input: String,
        /// Instance that awaits the result, if any.
        parent_instance: Option<String>,
        /// Scheduling event in the parent.
        parent_id: Option<u64>,
        /// Execution of the parent that scheduled this child.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        parent_execution_id: Option<u64>,
        /// Unread queue messages of the previous execution, oldest first.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        carry_forward_events: Option<Vec<(String, String)>>,
        /// Custom status at the end of the previous execution.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        initial_custom_status: Option<String>,
    },
    /// The handler returned a value.
    OrchestrationCompleted {
        /// The value.
        output: String,
    },
    /// The execution ended without a value.
    OrchestrationFailed {
        /// The cause of the failure.
        details: ErrorDetails,
    },
    /// The execution ended and another one follows.
    OrchestrationContinuedAsNew {
        /// Input of the next execution.
        input: String,
    },
    /// A client, or its parent, asked the orchestration to cancel.
    OrchestrationCancelRequested {
        /// The reason that the caller gave.
        reason: String,
    },
    /// A detached orchestration was started.
    OrchestrationChained {
        /// Handler to start, with `@version` appended when a version was asked for.
        name: String,
        /// Instance id, as given.
        instance: String,
        /// Its input.
        input: String,
    },
    /// An activity was scheduled; the event's id is the activity id.
    ActivityScheduled {
        /// Registered name.
        name: String,
        /// Its input.
        input: String,
        /// Session the activity is bound to.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        session_id: Option<String>,
        /// Tag that routes the activity to certain workers.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        tag: Option<String>,
    },
    /// An activity returned a value.
    ActivityCompleted {
        /// The value.
        result: String,
    },
    /// An activity failed.
    ActivityFailed {
        /// The cause of the failure.
        details: ErrorDetails,
    },
    /// An activity is no longer wanted.
    ActivityCancelRequested {
        /// The reason of the request.
        reason: String,
    },
    /// A timer was set.
    TimerCreated {
        /// The time at which it is due, in milliseconds since the Unix epoch.
        fire_at_ms: u64,
    },
    /// A timer fired.
    TimerFired {
        /// The time at which it was due.
        fire_at_ms: u64,
    },
    /// The orchestration began to wait for a positional signal.
    ExternalSubscribed {
        /// Signal name.
        name: String,
    },
    /// A positional signal arrived.
    ExternalEvent {
        /// Signal name.
        name: String,
        /// The payload that the sender gave.
        data: String,
    },
    /// A positional wait ended without a value.
    ExternalSubscribedCancelled {
        /// The reason of the request.
        reason: String,
    },
    /// The orchestration asked for the next message of a queue.
    #[serde(rename = "ExternalSubscribedPersistent")]
    QueueSubscribed {
        /// Queue name.
        name: String,
    },
    /// A queue message arrived.
    #[serde(rename = "ExternalEventPersistent")]
    QueueEventDelivered {
        /// Queue name.
        name: String,
        /// The payload that the sender gave.
        data: String,
    },
    /// A dequeue ended without a message.
    #[serde(rename = "ExternalSubscribedPersistentCancelled")]
    QueueSubscriptionCancelled {
        /// The reason of the request.
        reason: String,
    },
    /// A child was scheduled.
    SubOrchestrationScheduled {
        /// Handler to start, with `@version` appended when a version was asked for.
        name: String,
        /// Child id in its short form: `sub::…` for generated ids, else as given.
        instance: String,
        /// Its input.
        input: String,
    },
    /// A child returned a value.
    SubOrchestrationCompleted {
        /// The value.
        result: String,
    },
    /// A child failed.
    SubOrchestrationFailed {
        /// The cause of the failure.
        details: ErrorDetails,
    },
    /// A child is no longer wanted.
    SubOrchestrationCancelRequested {
        /// The reason of the request.
        reason: String,
    },
    /// The custom status changed.
    CustomStatusUpdated {
        /// The value, or `None` when it was reset.
        status: Option<String>,
    },
    /// A key was set.
    KeyValueSet {
        /// The key that the code wrote.
        key: String,
        /// The value under that key.
        value: String,
        /// The time at which it was set, in milliseconds since the Unix epoch.
        #[serde(default)]
        last_updated_at_ms: u64,
    },
    /// A key was removed.
    KeyValueCleared {
        /// The key that the code removed.
        key: String,
    },
    /// All keys were removed.
    KeyValuesCleared,
}

impl EventKind {
    /// Whether it came in from outside: a start, an answer, a signal, a queue message, a request to cancel.
    #[must_use]
    pub fn is_arrival(&self) -> bool {
        matches!(
            self,
            Self::OrchestrationStarted { .. }
                | Self::OrchestrationCancelRequested { .. }
                | Self::ActivityCompleted { .. }
                | Self::ActivityFailed { .. }
                | Self::TimerFired { .. }
                | Self::ExternalEvent { .. }
                | Self::QueueEventDelivered { .. }
                | Self::SubOrchestrationCompleted { .. }
                | Self::SubOrchestrationFailed { .. }
        )
    }

    /// The kind's name on the wire, as stored in an index column.
    #[must_use]
    pub fn wire_name(&self) -> &'static str {
        match self {
            Self::OrchestrationStarted { .. } => "OrchestrationStarted",
            Self::OrchestrationCompleted { .. } => "OrchestrationCompleted",
            Self::OrchestrationFailed { .. } => "OrchestrationFailed",
            Self::OrchestrationContinuedAsNew { .. } => "OrchestrationContinuedAsNew",
            Self::OrchestrationCancelRequested { .. } => "OrchestrationCancelRequested",
            Self::OrchestrationChained { .. } => "OrchestrationChained",
            Self::ActivityScheduled { .. } => "ActivityScheduled",
            Self::ActivityCompleted { .. } => "ActivityCompleted",
            Self::ActivityFailed { .. } => "ActivityFailed",
            Self::ActivityCancelRequested { .. } => "ActivityCancelRequested",
            Self::TimerCreated { .. } => "TimerCreated",
            Self::TimerFired { .. } => "TimerFired",
            Self::ExternalSubscribed { .. } => "ExternalSubscribed",
            Self::ExternalEvent { .. } => "ExternalEvent",
            Self::ExternalSubscribedCancelled { .. } => "ExternalSubscribedCancelled",
            Self::QueueSubscribed { .. } => "ExternalSubscribedPersistent",
            Self::QueueEventDelivered { .. } => "ExternalEventPersistent",
            Self::QueueSubscriptionCancelled { .. } => "ExternalSubscribedPersistentCancelled",
            Self::SubOrchestrationScheduled { .. } => "SubOrchestrationScheduled",
            Self::SubOrchestrationCompleted { .. } => "SubOrchestrationCompleted",
            Self::SubOrchestrationFailed { .. } => "SubOrchestrationFailed",
            Self::SubOrchestrationCancelRequested { .. } => "SubOrchestrationCancelRequested",
            Self::CustomStatusUpdated { .. } => "CustomStatusUpdated",
            Self::KeyValueSet { .. } => "KeyValueSet",
            Self::KeyValueCleared { .. } => "KeyValueCleared",
            Self::KeyValuesCleared => "KeyValuesCleared",
        }
    }
}
