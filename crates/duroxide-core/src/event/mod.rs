//! What happened. In: decisions and arrivals. Out: [`Event`]s in the stored format. Never interpreted here.

mod details;
mod kind;
mod read;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, SystemClock};

pub use details::{AppErrorKind, ConfigErrorKind, ErrorDetails, PoisonMessageType};
pub use kind::EventKind;
pub use read::awaits_signal;

/// Version stamped into every event this build writes.
pub const BUILD_VERSION: &str = env!("CARGO_PKG_VERSION");

/// One entry of an execution's history.
///
/// Serialises to one flat JSON object: the common fields, then `type`, then the fields of the kind.
///
/// ```
/// use duroxide_core::{Event, EventKind};
/// let event = Event::with_event_id(3, "order-7", 1, None, EventKind::TimerCreated { fire_at_ms: 5 });
/// let json = serde_json::to_value(&event).unwrap();
/// assert_eq!(json["type"], "TimerCreated");
/// assert_eq!(json["event_id"], 3);
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Event {
    /// Position in the execution's history; starts at 1 and only grows.
    pub event_id: u64,
    /// For completions and cancel records: the event that scheduled the operation.
    pub source_event_id: Option<u64>,
    /// Instance the event belongs to.
    pub instance_id: String,
    /// Execution the event belongs to.
    pub execution_id: u64,
    /// Time at which the event was created, in milliseconds since the Unix epoch.
    pub timestamp_ms: u64,
    /// Version of the engine that created the event.
    pub duroxide_version: String,
    /// The thing that happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl Event {
    /// An event without a position yet (id 0), stamped with the current time and this build's version.
    pub fn new(
        instance_id: impl Into<String>,
        execution_id: u64,
        source_event_id: Option<u64>,
        kind: EventKind,
    ) -> Self {
        Self::with_event_id(0, instance_id, execution_id, source_event_id, kind)
    }

    /// An event at a known position, stamped with the current time and this build's version.
    pub fn with_event_id(
        event_id: u64,
        instance_id: impl Into<String>,
        execution_id: u64,
        source_event_id: Option<u64>,
        kind: EventKind,
    ) -> Self {
        Self {
            event_id,
            source_event_id,
            instance_id: instance_id.into(),
            execution_id,
            timestamp_ms: SystemClock.now_ms(),
            duroxide_version: BUILD_VERSION.to_owned(),
            kind,
        }
    }

    /// The position in the history.
    #[must_use]
    pub fn event_id(&self) -> u64 {
        self.event_id
    }

    /// The scheduling event this one answers, if any.
    #[must_use]
    pub fn source_event_id(&self) -> Option<u64> {
        self.source_event_id
    }

    /// Whether the execution ended with this event.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(
            self.kind,
            EventKind::OrchestrationCompleted { .. }
                | EventKind::OrchestrationFailed { .. }
                | EventKind::OrchestrationContinuedAsNew { .. }
        )
    }
}
