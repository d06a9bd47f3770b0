//! Retrying a failed instance from the point of failure. In: a claim of an instance that has ended, with a request to rewind among its
//! messages. Out: one commit that begins the next execution with the kept part of the failed record. No code runs here: the first
//! turn of the new execution replays the kept part like any other.
//!
//! A request names the execution that it is for, so a repeated one, or one of a second operator, finds another execution and has no
//! effect. Children are asked where they stand; one that the failure cancelled is waited for.

use std::collections::HashMap;

use duroxide_core::clock::Clock;
use duroxide_core::provider::{
    ExecutionMetadata, InstanceOutcome, OrchestrationItem, OutcomeStatus, ProviderError,
};
use duroxide_core::replay::ParentLink;
use duroxide_core::rewind::{Child, ChildStanding, Rewind, RewindMessage, RewindPoint, plan};
use duroxide_core::{Event, EventKind, INITIAL_EXECUTION_ID, WorkItem, is_label_key};
use semver::Version;

use super::blocked::block;
use super::claim::{ClaimInHand, REST};
use super::commit::{Committed, commit, give_back};
use super::plan::{ExecutionRef, TurnCommit};
use crate::engine::{BlockCause, Engine};

/// What requests to rewind among the messages of an instance that has ended come to.
pub(super) enum Asked {
    /// There is none.
    Nothing,
    Granted(Box<Rewind>),
    /// It cannot be done, or the instance is not where the request thinks it is. A parent that asked for it waits for an answer.
    Refused,
}

/// The rewind that these messages ask for, if the instance is where they think it is and it can be done.
pub(super) fn asked(engine: &Engine, item: &OrchestrationItem) -> Asked {
    let mut asked = Asked::Nothing;
    for request in item.messages.iter().filter_map(RewindMessage::of) {
        let RewindMessage::Rewind {
            execution_id,
            from_event_id,
        } = request
        else {
            continue;
        };
        asked = Asked::Refused;
        if execution_id != item.execution_id {
            continue;
        }
        let point = from_event_id.map_or(RewindPoint::Failure, RewindPoint::Event);
        let planned = plan(&item.history, point).map_err(|error| error.to_string());
        let checked = planned.and_then(|rewind| match refusal(engine, item) {
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

/// How the instance ended, for its parent once more: one that was rewound may have asked, and would wait for ever. Others take no notice
/// of a second answer.
pub(super) fn repeated_end(history: &[Event], parent: Option<&ParentLink>) -> Option<WorkItem> {
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

fn refusal(engine: &Engine, item: &OrchestrationItem) -> Option<String> {
    let admin = engine.store.as_management_capability();
    if !admin.is_some_and(|admin| admin.can_rewind()) {
        return Some("this store cannot rewind an execution".to_owned());
    }
    let merged = merged_key(item)?;
    Some(format!(
        "its key-value '{merged}' was changed by the failed execution and merged when it failed, as earlier versions did; \
         what it was before is not known"
    ))
}

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

/// Begins the next execution with what the rewind keeps. Messages that were claimed with the request go to it.
pub(super) async fn run(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    item: OrchestrationItem,
    rewind: Rewind,
) {
    let standings = match look_at(engine, &rewind).await {
        Ok(Some(standings)) => standings,
        Ok(None) => {
            tracing::info!(target: "duroxide::runtime", instance_id = %item.instance, "a retry waits for a child that is being cancelled");
            give_back(engine, claim.lease, Some(REST)).await;
            return;
        }
        Err(error) => {
            tracing::warn!(target: "duroxide::runtime", instance_id = %item.instance, %error, "the children of an instance that is to be retried could not be read");
            give_back(engine, claim.lease, Some(REST)).await;
            return;
        }
    };
    let (failed, execution_id) = (rewind.failed_execution_id, rewind.execution_id());
    let (from, dropped) = (rewind.from_event_id, rewind.dropped);
    let standing = |child: &Child| {
        let known = standings.get(&child.event_id).cloned();
        known.unwrap_or(ChildStanding::Running)
    };
    let (history, to_orchestrators) =
        rewind.decided(standing, item.messages, engine.clock.now_ms());
    let of = ExecutionRef {
        name: item.orchestration_name,
        execution_id,
        parent: ParentLink::recorded_in(&history),
        life: claim.incarnation,
        instance: item.instance,
    };
    let writes = TurnCommit {
        metadata: metadata(&of, &history),
        history,
        to_orchestrators,
        ..TurnCommit::nothing(execution_id)
    };
    match commit(engine, of.whose(), claim.lease, writes).await {
        Committed::Yes => {
            engine.blocked.remove(&of.instance);
            engine.metrics.increment_active_orchestrations();
            tracing::info!(
                target: "duroxide::runtime",
                instance_id = %of.instance,
                orchestration_name = %of.name,
                execution_id,
                failed_execution_id = failed,
                from_event_id = from,
                dropped,
                "retrying a failed instance from the point of failure"
            );
        }
        Committed::No | Committed::Unknown => {}
        Committed::Refused(refused) => {
            let report = format!("the store refuses to rewind it: {}", refused.error);
            block(engine, refused.lease, &of, BlockCause::MayPass, report).await;
        }
    }
}

fn metadata(of: &ExecutionRef, history: &[Event]) -> ExecutionMetadata {
    let handler = history.iter().find_map(Event::started_handler);
    let (name, version) = handler.unzip();
    let first = history.first();
    ExecutionMetadata {
        orchestration_name: name,
        orchestration_version: version,
        parent_instance_id: of.parent.as_ref().map(|parent| parent.instance.clone()),
        // The versions of the events are kept: whoever could replay the failed record can replay this one.
        pinned_duroxide_version: first.and_then(|it| Version::parse(&it.duroxide_version).ok()),
        ..ExecutionMetadata::default()
    }
}

/// Where the children stand; `None` while one that the failure cancelled has not ended.
async fn look_at(
    engine: &Engine,
    rewind: &Rewind,
) -> Result<Option<HashMap<u64, ChildStanding>>, ProviderError> {
    let mut standings = HashMap::new();
    for child in &rewind.children {
        let standing = match is_its_own(engine, rewind, child).await? {
            true => standing(engine.store.read_outcome(&child.instance).await?),
            // Another instance has the id: the start is sent again, and refused, which tells the code.
            false => ChildStanding::Unborn,
        };
        if child.cancelled && standing == ChildStanding::Running {
            return Ok(None);
        }
        standings.insert(child.event_id, standing);
    }
    Ok(Some(standings))
}

/// Whether the instance under the id of a child was started by the operation that awaits the child.
async fn is_its_own(
    engine: &Engine,
    rewind: &Rewind,
    child: &Child,
) -> Result<bool, ProviderError> {
    let history = engine.store.read(&child.instance).await?;
    let link = ParentLink::recorded_in(&history);
    Ok(link.is_some_and(|link| {
        link.instance == rewind.instance
            && link.id == child.event_id
            && rewind.awaits(link.execution_id, child)
    }))
}

fn standing(outcome: Option<InstanceOutcome>) -> ChildStanding {
    match outcome {
        None => ChildStanding::Unborn,
        Some(outcome) => match outcome.status {
            OutcomeStatus::Running => ChildStanding::Running,
            OutcomeStatus::Completed { output } => ChildStanding::Completed(output),
            OutcomeStatus::Failed { .. } => ChildStanding::Failed(outcome.execution_id),
        },
    }
}
