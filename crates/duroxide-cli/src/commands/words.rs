//! Events in words. In: an event. Out: what it says, without escapes: the caller escapes what a terminal shows.

use duroxide_core::{
    Event, EventKind, INITIAL_EVENT_ID, build_child_instance_id, termination_reason,
};

/// One event as a sentence without its subject.
pub(crate) fn of(event: &Event) -> String {
    let source = event.source_event_id.unwrap_or_default();
    match &event.kind {
        EventKind::OrchestrationStarted {
            name,
            version,
            input,
            parent_instance,
            ..
        } => {
            let parent = parent_instance.as_ref();
            let parent = parent.map_or(String::new(), |parent| format!(" for {parent}"));
            format!("{name} {version} began{parent}{}", with(input))
        }
        EventKind::OrchestrationCompleted { output } => format!("completed with {output}"),
        EventKind::OrchestrationFailed { details } => {
            format!("failed: {}", details.display_message())
        }
        EventKind::OrchestrationContinuedAsNew { input } => {
            format!("continued as new{}", with(input))
        }
        EventKind::OrchestrationCancelRequested { reason } => match termination_reason(reason) {
            Some(reason) => format!("was asked to terminate: {reason}"),
            None => format!("was asked to cancel: {reason}"),
        },
        EventKind::OrchestrationChained { name, instance, .. } => {
            format!("started {instance} ({name}) and does not wait for it")
        }
        EventKind::ActivityScheduled { name, input, .. } => {
            format!("scheduled activity {name}{}", with(input))
        }
        EventKind::ActivityCompleted { result } => {
            format!("activity of event {source} gave {result}")
        }
        EventKind::ActivityFailed { details } => {
            let error = details.display_message();
            format!("activity of event {source} failed: {error}")
        }
        EventKind::ActivityCancelRequested { reason } => {
            format!("no longer wants the activity of event {source}: {reason}")
        }
        EventKind::TimerCreated { fire_at_ms } => {
            format!("set a timer for {}", crate::output::time(*fire_at_ms))
        }
        EventKind::TimerFired { .. } if source == INITIAL_EVENT_ID => "its time was up".to_owned(),
        EventKind::TimerFired { .. } => format!("timer of event {source} fired"),
        EventKind::ExternalSubscribed { name } => format!("waits for signal {name}"),
        EventKind::ExternalEvent { name, data } => format!("got signal {name}: {data}"),
        EventKind::ExternalSubscribedCancelled { reason } => {
            format!("no longer waits for the signal of event {source}: {reason}")
        }
        EventKind::QueueSubscribed { name } => format!("waits for a message on queue {name}"),
        EventKind::QueueEventDelivered { name, data } => {
            format!("got a message on queue {name}: {data}")
        }
        EventKind::QueueSubscriptionCancelled { reason } => {
            format!("no longer waits for the message of event {source}: {reason}")
        }
        EventKind::SubOrchestrationScheduled { name, instance, .. } => {
            let id = build_child_instance_id(&event.instance_id, instance);
            format!("scheduled child {id} ({name})")
        }
        EventKind::SubOrchestrationCompleted { result } => {
            format!("child of event {source} gave {result}")
        }
        EventKind::SubOrchestrationFailed { details } => {
            let error = details.display_message();
            format!("child of event {source} failed: {error}")
        }
        EventKind::SubOrchestrationCancelRequested { reason } => {
            format!("no longer wants the child of event {source}: {reason}")
        }
        EventKind::CustomStatusUpdated { status } => match status {
            Some(status) => format!("says: {status}"),
            None => "says nothing any more".to_owned(),
        },
        EventKind::KeyValueSet { key, value, .. } => format!("set {key} to {value}"),
        EventKind::KeyValueCleared { key } => format!("cleared {key}"),
        EventKind::KeyValuesCleared => "cleared all keys".to_owned(),
    }
}

/// ` with INPUT`, or nothing if the input is empty.
fn with(input: &str) -> String {
    match input {
        "" => String::new(),
        input => format!(" with {input}"),
    }
}
