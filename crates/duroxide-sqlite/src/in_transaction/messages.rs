//! What an application may send, by the rules of a client. In: its texts. Out: messages, or what is wrong with them.

use duroxide_core::limits::DEFAULT_PAYLOAD_BYTES_MAX;
use duroxide_core::provider::WorkItem;
use duroxide_core::provider::rules::Refusal;
use duroxide_core::{
    INITIAL_EXECUTION_ID, Labels, SUB_ORCH_AUTO_PREFIX, StartExtras, TERMINATE_PREFIX,
    check_instance_id, is_engine_queue, labelled_input, plain_message, termination_reason,
    uses_reserved_marker,
};

use crate::error::Result;

pub(super) fn start(
    instance: &str,
    name: &str,
    version: Option<&str>,
    input: &str,
) -> Result<WorkItem> {
    let refuse = |why: String| refused("a start", instance, why);
    check_instance_id(instance).map_err(refuse)?;
    if uses_reserved_marker(instance) {
        return Err(refuse(format!(
            "ids with '{SUB_ORCH_AUTO_PREFIX}' belong to children"
        )));
    }
    if name.is_empty() {
        return Err(refuse("the orchestration has no name".to_owned()));
    }
    check_size("orchestration name", name).map_err(refuse)?;
    check_size("version", version.unwrap_or_default()).map_err(refuse)?;
    check_size("orchestration input", input).map_err(refuse)?;
    // The application's own text must not pass for labels, or for what else a start carries.
    let input = labelled_input(&Labels::new(), input.to_owned());
    Ok(WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: name.to_owned(),
        input: StartExtras::default().in_front_of(input),
        version: version.map(str::to_owned),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: INITIAL_EXECUTION_ID,
    })
}

pub(super) fn event(instance: &str, name: &str, data: &str) -> Result<WorkItem> {
    check(
        "an event",
        instance,
        [("event name", name), ("event data", data)],
    )?;
    Ok(WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: name.to_owned(),
        data: data.to_owned(),
    })
}

pub(super) fn queue_message(instance: &str, queue: &str, data: &str) -> Result<WorkItem> {
    const WHAT: &str = "a queue message";
    check(
        WHAT,
        instance,
        [("queue name", queue), ("event data", data)],
    )?;
    if is_engine_queue(queue) {
        let why = format!("the queue '{queue}' is the engine's own");
        return Err(refused(WHAT, instance, why));
    }
    Ok(WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: queue.to_owned(),
        data: plain_message(data.to_owned()),
    })
}

pub(super) fn cancel(instance: &str, reason: &str) -> Result<WorkItem> {
    const WHAT: &str = "a request to cancel";
    check(WHAT, instance, [("cancel reason", reason)])?;
    if termination_reason(reason).is_some() {
        let why = format!("a reason must not begin with the reserved '{TERMINATE_PREFIX}'");
        return Err(refused(WHAT, instance, why));
    }
    Ok(WorkItem::CancelInstance {
        instance: instance.to_owned(),
        reason: reason.to_owned(),
    })
}

fn check<const N: usize>(what: &str, instance: &str, texts: [(&str, &str); N]) -> Result<()> {
    let sizes = texts.into_iter().map(|(name, text)| check_size(name, text));
    std::iter::once(check_instance_id(instance))
        .chain(sizes)
        .collect::<std::result::Result<(), String>>()
        .map_err(|why| refused(what, instance, why))
}

fn check_size(name: &str, text: &str) -> std::result::Result<(), String> {
    if text.len() > DEFAULT_PAYLOAD_BYTES_MAX {
        return Err(format!(
            "{name} size ({} bytes) exceeds limit ({DEFAULT_PAYLOAD_BYTES_MAX} bytes)",
            text.len()
        ));
    }
    Ok(())
}

fn refused(what: &str, instance: &str, why: String) -> crate::SqliteError {
    // An id that is refused may be long.
    let shown: String = instance.chars().take(64).collect();
    let what = format!("{what} for '{shown}'");
    Refusal::Unstorable { what, why }.into()
}
