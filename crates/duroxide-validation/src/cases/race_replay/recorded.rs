//! Histories put into a store as if another version or another process had written them.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{ExecutionMetadata, Provider};
use duroxide_core::{Event, EventKind};
use semver::Version;

use crate::fixture::{NAME, VERSION, claim_from, items};

/// The same events, as an engine of this version would have stamped them.
pub(super) fn stamped(history: &[Event], stamp: &str) -> Vec<Event> {
    let restamp = |event: &Event| Event {
        duroxide_version: stamp.to_owned(),
        ..event.clone()
    };
    history.iter().map(restamp).collect()
}

/// The history of an execution that began with `TestOrch` and continued as new.
pub(super) fn continued(instance: &str, input: &str, stamp: &str) -> Vec<Event> {
    let kinds = [
        crate::fixture::kinds::started(),
        EventKind::OrchestrationContinuedAsNew {
            input: input.into(),
        },
    ];
    let events = (1..).zip(kinds);
    let events: Vec<Event> = events
        .map(|(id, kind)| Event::with_event_id(id, instance, 1, None, kind))
        .collect();
    stamped(&events, stamp)
}

/// Commits this history as execution 1 of its instance.
pub(super) async fn put(store: &Arc<dyn Provider>, history: &[Event]) {
    let first = history.first().expect("a history has a first event");
    let (name, version) = first
        .started_handler()
        .unwrap_or((NAME.into(), VERSION.into()));
    let start = items::start_of(&first.instance_id, &name, Some(&version));
    let sent = store.enqueue_for_orchestrator(start, None).await;
    sent.expect("a start can be enqueued");
    let turn = claim_from(&**store, Duration::from_secs(5), None).await;
    let turn = turn.expect("the start is ready");
    let ended = match history.last().map(|e| &e.kind) {
        Some(EventKind::OrchestrationContinuedAsNew { input }) => Some(input.clone()),
        _ => None,
    };
    let metadata = ExecutionMetadata {
        status: ended.is_some().then(|| "ContinuedAsNew".to_owned()),
        output: ended,
        orchestration_name: Some(name),
        orchestration_version: Some(version),
        parent_instance_id: None,
        pinned_duroxide_version: Version::parse(&first.duroxide_version).ok(),
    };
    let committed = store.ack_orchestration_item(
        &turn.token,
        1,
        history.to_vec(),
        Vec::new(),
        Vec::new(),
        metadata,
        Vec::new(),
    );
    committed.await.expect("a turn under a valid lease commits");
}
