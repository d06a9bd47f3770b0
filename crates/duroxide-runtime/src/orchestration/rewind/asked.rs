//! Whether a failed instance is rewound. In: a claim of an instance that has ended. Out: the plan; or why there is
//! none, in the log, and an answer for the parent that waits.

use duroxide_core::provider::{OrchestrationItem, OutcomeStatus};
use duroxide_core::replay::ParentLink;
use duroxide_core::rewind::{FailureMark, Rewind, RewindMessage, RewindPoint, plan};
use duroxide_core::{Event, EventKind, INITIAL_EXECUTION_ID, WorkItem, is_label_key};
use semver::Version;

use crate::engine::Engine;

/// What requests to rewind among the messages of an instance that has ended come to.
pub(in crate::orchestration) enum Asked {
    /// There is none.
    Nothing,
    Granted(Box<Rewind>),
    /// It cannot be done, or the instance is not where the request thinks it is. A parent that asked for it waits for
    /// an answer.
    Refused,
}

/// The rewind that these messages ask for, if the instance is where they think it is and it can be done.
pub(in crate::orchestration) fn asked(engine: &Engine, item: &OrchestrationItem) -> Asked {
    let mut asked = Asked::Nothing;
    for request in item.messages.iter().filter_map(RewindMessage::of) {
        let RewindMessage::Rewind {
            execution_id,
            from_event_id,
            failure,
        } = request
        else {
            continue;
        };
        asked = Asked::Refused;
        let is_this_one = failure.is_none() || failure == FailureMark::of(&item.history);
        if execution_id != item.execution_id || !is_this_one {
            continue;
        }
        let point = from_event_id.map_or(RewindPoint::Failure, RewindPoint::Event);
        let planned = plan(&item.history, point).map_err(|error| error.to_string());
        let checked = planned.and_then(|rewind| match why_no_rewind(engine, item) {
            None => Ok(rewind),
            Some(why) => Err(why),
        });
        match checked {
            Ok(rewind) => return Asked::Granted(Box::new(rewind)),
            Err(why) => tracing::error!(
                target: "duroxide::runtime",
                instance_id = %item.instance,
                execution_id,
                "a failed instance is not retried: {why}"
            ),
        }
    }
    asked
}

/// How the instance ended, for its parent once more: one that was rewound may have asked, and would wait for ever.
/// Others take no notice of a second answer.
pub(in crate::orchestration) fn repeated_end(
    history: &[Event],
    parent: Option<&ParentLink>,
) -> Option<WorkItem> {
    let parent = parent?;
    let (parent_instance, parent_id) = (parent.instance.clone(), parent.id);
    let parent_execution_id = parent.execution_id.unwrap_or(INITIAL_EXECUTION_ID);
    let ended = history.iter().rev().find_map(OutcomeStatus::of_event)?;
    match ended {
        OutcomeStatus::Running => None,
        OutcomeStatus::Completed { output } => Some(WorkItem::SubOrchCompleted {
            parent_instance,
            parent_execution_id,
            parent_id,
            result: output,
        }),
        OutcomeStatus::Failed { details } => Some(WorkItem::SubOrchFailed {
            parent_instance,
            parent_execution_id,
            parent_id,
            details,
        }),
    }
}

/// The answers to requests to rewind that were tried too often: the answer says how the instance ended.
pub(in crate::orchestration) fn answers_without_rewind(
    item: &OrchestrationItem,
    parent: Option<&ParentLink>,
) -> Option<WorkItem> {
    let mut requests = item.messages.iter().filter_map(RewindMessage::of);
    let asked = requests.any(|it| matches!(it, RewindMessage::Rewind { .. }));
    asked.then(|| repeated_end(&item.history, parent)).flatten()
}

fn why_no_rewind(engine: &Engine, item: &OrchestrationItem) -> Option<String> {
    let admin = engine.store.as_management_capability();
    if !admin.is_some_and(|admin| admin.can_rewind()) {
        return Some("this store cannot rewind an execution".to_owned());
    }
    let merged = merged_key(item).or_else(|| cleared_key(&item.history))?;
    Some(format!(
        "its key-value '{merged}' was changed by the failed execution and merged when it failed, as earlier versions did; \
         what it was before is not known"
    ))
}

/// A key that a failed execution cleared whose end an earlier version wrote, which merged that. What is gone leaves no
/// trace, so any counts.
fn cleared_key(history: &[Event]) -> Option<&str> {
    let end = history.iter().rfind(|event| event.is_terminal())?;
    let written_by = Version::parse(&end.duroxide_version);
    if written_by.is_ok_and(|version| version >= FIRST_NOT_TO_MERGE) {
        return None;
    }
    history.iter().find_map(|event| match &event.kind {
        EventKind::KeyValueCleared { key } => Some(key.as_str()),
        EventKind::KeyValuesCleared => Some("*"),
        _ => None,
    })
}

/// The first version that does not merge what a failed execution changed.
const FIRST_NOT_TO_MERGE: Version = Version::new(0, 2, 0);

/// A key that the failed execution set and that its successor would begin with.
fn merged_key(item: &OrchestrationItem) -> Option<&str> {
    item.history.iter().find_map(|event| match &event.kind {
        EventKind::KeyValueSet {
            key,
            value,
            last_updated_at_ms,
        } if !is_label_key(key) => item
            .kv_snapshot
            .get(key)
            .filter(|base| base.last_updated_at_ms == *last_updated_at_ms && base.value == *value)
            .map(|_| key.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use duroxide_core::ErrorDetails;

    use super::*;

    fn failed(version: &str, with: EventKind) -> OrchestrationItem {
        let details = ErrorDetails::panicked("oh");
        let kinds = [with, EventKind::OrchestrationFailed { details }];
        let history = (2..).zip(kinds).map(|(id, kind)| Event {
            duroxide_version: version.to_owned(),
            ..Event::with_event_id(id, "i", 1, None, kind)
        });
        OrchestrationItem {
            instance: "i".into(),
            orchestration_name: "o".into(),
            execution_id: 1,
            version: "1.0.0".into(),
            history: history.collect(),
            messages: Vec::new(),
            history_error: None,
            kv_snapshot: std::collections::HashMap::new(),
        }
    }

    #[test]
    fn what_an_earlier_version_cleared_and_merged_cannot_be_brought_back() {
        let cleared = || EventKind::KeyValueCleared { key: "k".into() };
        let own = failed("0.2.0", cleared());
        assert_eq!(cleared_key(&own.history), None);
        let earlier = failed("0.1.32", cleared());
        assert_eq!(cleared_key(&earlier.history), Some("k"));
        let all = failed("0.1.32", EventKind::KeyValuesCleared);
        assert_eq!(cleared_key(&all.history), Some("*"));
    }

    #[test]
    fn a_parent_whose_request_was_tried_too_often_is_told_how_its_child_ended() {
        let mut item = failed("0.2.0", EventKind::KeyValuesCleared);
        let parent = ParentLink {
            instance: "p".into(),
            id: 7,
            execution_id: Some(1),
        };
        assert_eq!(answers_without_rewind(&item, Some(&parent)), None);
        let request = RewindMessage::Rewind {
            execution_id: 1,
            from_event_id: None,
            failure: None,
        };
        item.messages.push(request.to("i"));
        let answer = answers_without_rewind(&item, Some(&parent));
        assert!(
            matches!(&answer, Some(WorkItem::SubOrchFailed { parent_id: 7, .. })),
            "{answer:?}"
        );
        assert_eq!(answers_without_rewind(&item, None), None);
    }
}
