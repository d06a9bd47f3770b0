//! What was tried too often. One bad message is set aside; only a turn that cannot be saved ends its instance.

use duroxide_core::provider::{ClaimedTurn, OrchestrationItem};
use duroxide_core::replay::{Outcome, ParentLink, count_turns, fail_without_replay};
use duroxide_core::{
    BUILD_VERSION, ErrorDetails, Event, EventKind, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID,
    PoisonMessageType, WorkItem, build_child_instance_id,
};

use super::batch::{Batch, Standing};
use super::commit::{Committed, commit, release};
use super::facts::{Facts, FirstTurn};
use super::plan::{Author, plan};
use crate::engine::Engine;

/// Event id of a failure appended to a history that does not decode, so that it cannot collide with what is there.
const CORRUPT_HISTORY_EVENT_ID: u64 = 99_999;

/// Sets messages aside that were tried too often and whose loss the instance survives. True if the turn can go on.
pub(super) async fn isolate(engine: &Engine, claimed: &mut ClaimedTurn) -> bool {
    let max = engine.options.max_attempts;
    if claimed.attempt_count <= max {
        return true;
    }
    if claimed.message_attempts.len() != claimed.item.messages.len() || !can_run(engine, claimed) {
        return false;
    }
    let over: Vec<usize> = (0..claimed.item.messages.len())
        .filter(|place| claimed.message_attempts[*place] > max)
        .collect();
    if over.is_empty()
        || !over
            .iter()
            .all(|p| is_expendable(&claimed.item.messages[*p]))
    {
        return false;
    }
    let reason = format!("tried more than {max} times");
    match engine
        .store
        .set_aside_messages(&claimed.lock_token, &over, &reason)
        .await
    {
        Ok(true) => {}
        Ok(false) => return false,
        Err(error) => {
            tracing::warn!(target: "duroxide::runtime", %error, "setting a poisoned message aside failed");
            return false;
        }
    }
    for place in over.into_iter().rev() {
        let message = claimed.item.messages.remove(place);
        engine.metrics.record_set_aside_message("poison");
        tracing::error!(
            target: "duroxide::runtime",
            instance_id = %claimed.item.instance,
            message = message.kind_name(),
            "a message was tried too often and set aside as a dead letter"
        );
    }
    true
}

/// Whether the turn could run at all. If its history cannot be read or its code is not here, that is what is wrong, and
/// no message.
fn can_run(engine: &Engine, claimed: &ClaimedTurn) -> bool {
    let item = &claimed.item;
    if item.history_error.is_some() {
        return false;
    }
    match item.history.iter().find_map(Event::started_handler) {
        None => true,
        Some((name, version)) => super::turn::exact(engine, &name, &version).is_some(),
    }
}

/// Whether an instance can go on without the message: nothing in its history waits for exactly this one.
fn is_expendable(message: &WorkItem) -> bool {
    matches!(
        message,
        WorkItem::ExternalRaised { .. }
            | WorkItem::QueueMessage { .. }
            | WorkItem::CancelInstance { .. }
    )
}

/// Ends an instance whose turn was tried too often.
pub(super) async fn end(engine: &Engine, claimed: ClaimedTurn, worker_id: &str) {
    let ClaimedTurn {
        mut item,
        lock_token,
        attempt_count,
        ..
    } = claimed;
    let standing = Standing::of(&item.history);
    if standing == Standing::Ended {
        // Nothing can be poisoned any more; the messages are consumed.
        let author = Author {
            instance: item.instance.clone(),
            execution_id: item.execution_id,
            name: item.orchestration_name.clone(),
            parent: None,
        };
        consume(engine, &lock_token, &author).await;
        return;
    }
    let details = details(&item, attempt_count, engine.options.max_attempts, standing);
    let parent = match &item.history_error {
        Some(_) => parent_from_store(engine, &item.instance).await,
        None => None,
    };
    let Grave {
        author,
        mut beginning,
        base,
    } = bury(&mut item, standing, parent, engine.clock.now_ms());
    let known: Vec<Event> = base.iter().chain(&beginning).cloned().collect();
    let mut turn = fail_without_replay(
        &author.instance,
        author.execution_id,
        &known,
        details.clone(),
        engine.clock.now_ms(),
    );
    if item.history_error.is_some()
        && let Some(last) = turn.events.last_mut()
    {
        last.event_id = CORRUPT_HISTORY_EVENT_ID;
    }
    let first =
        (!beginning.is_empty()).then(|| FirstTurn::of(standing == Standing::BetweenExecutions));
    beginning.append(&mut turn.events);
    turn.events = beginning;
    let facts = Facts {
        version: item.version,
        started_at_ms: known.first().map_or(0, |e| e.timestamp_ms),
        history_events: turn.events.last().map_or(0, |e| e.event_id),
        turns: count_turns(&base) + 1,
        worker_id,
    };
    match commit(engine, &lock_token, plan(&author, turn)).await {
        Committed::Yes => facts.note(
            engine,
            &author,
            first.as_ref(),
            &Outcome::Failed { details },
        ),
        Committed::Released | Committed::LeaseLost => {}
        Committed::Refused(error) => {
            tracing::error!(target: "duroxide::runtime", instance_id = %author.instance, %error, "the store refuses to end a poisoned instance");
            let delay = engine.options.unregistered_backoff.delay(attempt_count);
            release(engine, &lock_token, Some(delay), false).await;
        }
    }
}

/// Acknowledges a claim without any effect.
pub(super) async fn consume(engine: &Engine, lock_token: &str, author: &Author) {
    let nothing = super::plan::TurnCommit {
        execution_id: author.execution_id,
        history: Vec::new(),
        to_workers: Vec::new(),
        to_orchestrators: Vec::new(),
        metadata: duroxide_core::provider::ExecutionMetadata::default(),
        cancelled: Vec::new(),
    };
    commit(engine, lock_token, nothing).await;
}

fn details(
    item: &OrchestrationItem,
    attempt_count: u32,
    max_attempts: u32,
    standing: Standing,
) -> ErrorDetails {
    let instance = item.instance.clone();
    let execution_id = match standing {
        Standing::BetweenExecutions => item.execution_id + 1,
        Standing::Unborn | Standing::Running | Standing::Ended => item.execution_id,
    };
    let (message_type, message) = match &item.history_error {
        Some(error) => (
            PoisonMessageType::FailedDeserialization {
                instance,
                execution_id,
                error: error.clone(),
            },
            error.clone(),
        ),
        None => (
            PoisonMessageType::Orchestration {
                instance,
                execution_id,
            },
            serde_json::to_string(&item.messages).unwrap_or_default(),
        ),
    };
    ErrorDetails::Poison {
        attempt_count,
        max_attempts,
        message_type,
        message,
    }
}

/// Where a poisoned turn is recorded.
struct Grave {
    author: Author,
    /// A start that must be written first, if the execution never began.
    beginning: Vec<Event>,
    /// The history the failure follows.
    base: Vec<Event>,
}

fn bury(
    item: &mut OrchestrationItem,
    standing: Standing,
    parent: Option<ParentLink>,
    now_ms: u64,
) -> Grave {
    let recorded = recorded_parent(&item.history);
    let history = std::mem::take(&mut item.history);
    let undecodable = item.history_error.is_some();
    if standing == Standing::Running || undecodable {
        return Grave {
            author: Author {
                instance: item.instance.clone(),
                execution_id: item.execution_id,
                name: item.orchestration_name.clone(),
                parent: recorded.or(parent),
            },
            beginning: Vec::new(),
            base: history,
        };
    }
    let batch = Batch::sort(item, standing, recorded.as_ref());
    let follows = standing == Standing::BetweenExecutions;
    let execution_id = item.execution_id + u64::from(follows);
    let (name, version, input, parent) = match batch.beginning {
        Some(b) => (b.name, b.version, b.input, b.parent.or(recorded)),
        None => (
            item.orchestration_name.clone(),
            None,
            String::new(),
            recorded,
        ),
    };
    let start = Event {
        event_id: INITIAL_EVENT_ID,
        source_event_id: None,
        instance_id: item.instance.clone(),
        execution_id,
        timestamp_ms: now_ms,
        duroxide_version: BUILD_VERSION.to_owned(),
        kind: EventKind::OrchestrationStarted {
            name: name.clone(),
            version: version.unwrap_or_else(|| "unknown".to_owned()),
            input,
            parent_instance: parent.as_ref().map(|p| p.instance.clone()),
            parent_id: parent.as_ref().map(|p| p.id),
            parent_execution_id: parent.as_ref().and_then(|p| p.execution_id),
            carry_forward_events: None,
            initial_custom_status: None,
        },
    };
    Grave {
        author: Author {
            instance: item.instance.clone(),
            execution_id,
            name,
            parent,
        },
        beginning: vec![start],
        base: Vec::new(),
    }
}

/// Who awaits the execution with this history.
pub(super) fn recorded_parent(history: &[Event]) -> Option<ParentLink> {
    history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted {
            parent_instance: Some(instance),
            parent_id,
            parent_execution_id,
            ..
        } => Some(ParentLink {
            instance: instance.clone(),
            id: parent_id.unwrap_or_default(),
            execution_id: *parent_execution_id,
        }),
        _ => None,
    })
}

/// Who awaits an instance whose own history cannot be read: the store knows the parent, and the parent's history knows
/// where it scheduled the child.
async fn parent_from_store(engine: &Engine, instance: &str) -> Option<ParentLink> {
    let admin = engine.store.as_management_capability()?;
    let parent = admin.get_parent_id(instance).await.ok()??;
    let history = engine.store.read(&parent).await.ok()?;
    history.iter().rev().find_map(|event| match &event.kind {
        EventKind::SubOrchestrationScheduled {
            instance: child, ..
        } if build_child_instance_id(&parent, child) == instance => Some(ParentLink {
            instance: parent.clone(),
            id: event.event_id,
            execution_id: Some(event.execution_id.max(INITIAL_EXECUTION_ID)),
        }),
        _ => None,
    })
}
