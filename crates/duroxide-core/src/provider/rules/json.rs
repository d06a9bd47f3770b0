//! Events and work items as the JSON that every store keeps, and which work items belong on which queue.

use super::refusal::Refusal;
use crate::event::Event;
use crate::work_item::WorkItem;

/// The stored text of an event.
///
/// # Errors
///
/// If the event has no id, or does not encode.
///
/// ```
/// use duroxide_core::provider::rules::{event_from_json, event_to_json};
/// use duroxide_core::{Event, EventKind};
/// let event = Event::with_event_id(2, "order-7", 1, None, EventKind::KeyValuesCleared);
/// let text = event_to_json("order-7", &event).unwrap();
/// assert_eq!(event_from_json("order-7", text.as_bytes()).unwrap(), event);
/// let unnumbered = Event::with_event_id(0, "order-7", 1, None, EventKind::KeyValuesCleared);
/// assert!(event_to_json("order-7", &unnumbered).is_err());
/// ```
pub fn event_to_json(instance: &str, event: &Event) -> Result<String, Refusal> {
    if event.event_id == 0 {
        return Err(Refusal::EventWithoutId {
            instance: instance.to_owned(),
        });
    }
    serde_json::to_string(event).map_err(|error| {
        Refusal::unstorable(format!("event {} of {instance}", event.event_id), &error)
    })
}

/// The event of a stored text.
///
/// # Errors
///
/// If the text is no event.
pub fn event_from_json(instance: &str, text: &[u8]) -> Result<Event, Refusal> {
    serde_json::from_slice(text)
        .map_err(|error| Refusal::undecodable(format!("an event of {instance}"), &error))
}

/// The stored text of a work item.
///
/// # Errors
///
/// If the item does not encode.
pub fn work_item_to_json(item: &WorkItem) -> Result<String, Refusal> {
    serde_json::to_string(item).map_err(|error| {
        let what = format!("{} for {}", item.kind_name(), item.target_instance());
        Refusal::unstorable(what, &error)
    })
}

/// The work item of a stored text.
///
/// # Errors
///
/// The reason for the dead letter, if the text is no work item.
pub fn work_item_from_json(text: &[u8]) -> Result<WorkItem, String> {
    serde_json::from_slice(text).map_err(|error| format!("does not decode: {error}"))
}

/// Accepts what the orchestrator queue takes: everything but an activity to run.
///
/// # Errors
///
/// [`Refusal::WrongKind`].
pub fn orchestrator_only(item: &WorkItem) -> Result<(), Refusal> {
    match item {
        WorkItem::ActivityExecute { .. } => Err(wrong_kind(item, "orchestrator")),
        _ => Ok(()),
    }
}

/// An activity to run, taken apart: what a row keeps beside its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity<'a> {
    /// The instance that scheduled it.
    pub instance: &'a str,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// Its scheduling event.
    pub id: u64,
    /// The name of the activity.
    pub name: &'a str,
    /// The session it belongs to.
    pub session_id: Option<&'a str>,
    /// The tag that routes it.
    pub tag: Option<&'a str>,
}

/// Takes an item for the worker queue apart.
///
/// # Errors
///
/// [`Refusal::WrongKind`] if it is no activity to run.
pub fn activity(item: &WorkItem) -> Result<Activity<'_>, Refusal> {
    match item {
        WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            name,
            session_id,
            tag,
            ..
        } => Ok(Activity {
            instance,
            execution_id: *execution_id,
            id: *id,
            name,
            session_id: session_id.as_deref(),
            tag: tag.as_deref(),
        }),
        _ => Err(wrong_kind(item, "worker")),
    }
}

/// Accepts what may complete an activity: its result.
///
/// # Errors
///
/// [`Refusal::WrongKind`].
pub fn completion_only(item: &WorkItem) -> Result<(), Refusal> {
    match item {
        WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. } => Ok(()),
        _ => Err(wrong_kind(item, "completion")),
    }
}

fn wrong_kind(item: &WorkItem, queue: &'static str) -> Refusal {
    Refusal::WrongKind {
        kind: item.kind_name(),
        queue,
    }
}
