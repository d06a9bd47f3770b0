//! What an instance is to wait for, so that a query admits it.

use crate::event::Event;
use crate::waits::{WaitKind, open_waits};

/// Something that an instance may wait for: a kind of thing, a name, or both.
///
/// ```
/// use duroxide_core::provider::{InstanceQuery, WaitingFor};
/// let waits_for_approval = InstanceQuery::new().waiting_for(WaitingFor::signal("approval"));
/// let waits_for_anything_named_so = InstanceQuery::new().waiting_for(WaitingFor::anything_named("approval"));
/// assert_ne!(waits_for_approval, waits_for_anything_named_so);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct WaitingFor {
    /// Only this kind of thing; any if `None`.
    pub kind: Option<WaitKind>,
    /// Only something of exactly this name; any, and timers, which have none, if `None`.
    pub name: Option<String>,
}

impl WaitingFor {
    /// A signal of this name.
    #[must_use]
    pub fn signal(name: impl Into<String>) -> Self {
        Self::named(WaitKind::Signal, name)
    }

    /// A message of this queue.
    #[must_use]
    pub fn queue_message(queue: impl Into<String>) -> Self {
        Self::named(WaitKind::QueueMessage, queue)
    }

    /// The result of an activity of this name.
    #[must_use]
    pub fn activity(name: impl Into<String>) -> Self {
        Self::named(WaitKind::Activity, name)
    }

    /// The result of a child whose handler has this name.
    #[must_use]
    pub fn child(name: impl Into<String>) -> Self {
        Self::named(WaitKind::Child, name)
    }

    /// Anything of this kind.
    #[must_use]
    pub fn any(kind: WaitKind) -> Self {
        Self {
            kind: Some(kind),
            name: None,
        }
    }

    /// Anything of this name: a signal, a queue, an activity or a child.
    #[must_use]
    pub fn anything_named(name: impl Into<String>) -> Self {
        Self {
            kind: None,
            name: Some(name.into()),
        }
    }

    fn named(kind: WaitKind, name: impl Into<String>) -> Self {
        Self {
            kind: Some(kind),
            name: Some(name.into()),
        }
    }

    /// Whether an execution with this history waits for it.
    ///
    /// ```
    /// use duroxide_core::provider::WaitingFor;
    /// use duroxide_core::{Event, EventKind};
    /// let asked = EventKind::ExternalSubscribed { name: "approval".into() };
    /// let history = [Event::with_event_id(1, "order-7", 1, None, asked)];
    /// assert!(WaitingFor::signal("approval").is_open_in(&history));
    /// assert!(!WaitingFor::activity("approval").is_open_in(&history));
    /// ```
    #[must_use]
    pub fn is_open_in(&self, history: &[Event]) -> bool {
        let is_kind = |kind| self.kind.is_none_or(|wanted| wanted == kind);
        let is_name = |name: Option<&str>| self.name.is_none() || self.name.as_deref() == name;
        let waits = open_waits(history);
        waits
            .iter()
            .any(|wait| is_kind(wait.kind) && is_name(wait.name.as_deref()))
    }
}
