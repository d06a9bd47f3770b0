//! Retrying a failed instance from the point of failure. In: a claim of an instance that has ended, with a request to
//! rewind among its messages. Out: one commit that begins the next execution with the kept part of the failed record.
//! No code runs here: the first turn of the new execution replays the kept part like any other.
//!
//! A request names the execution that it is for, and its failure, so a repeated one, one of a second operator, or one
//! for an earlier life of the id finds another one and has no effect. Children are asked where they stand; one that the
//! failure cancelled is waited for.

mod asked;
mod children;

use std::time::Duration;

use duroxide_core::clock::Clock;
use duroxide_core::provider::{ExecutionMetadata, OrchestrationItem, TurnWrites};
use duroxide_core::replay::ParentLink;
use duroxide_core::rewind::{Child, ChildStanding, Rewind};
use duroxide_core::{BUILD_VERSION, Event};
use semver::Version;

use super::blocked::block;
use super::claim_in_hand::ClaimInHand;
use super::commit::{Committed, commit};
use super::give_back::{INSTANCE_REST, give_back};
use super::plan::{ExecutionRef, TurnCommit};
use crate::engine::{BlockCause, Engine};

pub(super) use asked::{Asked, answers_without_rewind, asked, repeated_end};
use children::look_at;

/// How long a retry rests that waits for a child. The end of the child is a message for the instance, which ends the
/// rest.
const CHILD_REST: Duration = Duration::from_secs(30);

/// Begins the next execution with what the rewind keeps. Messages that were claimed with the request go to it.
pub(super) async fn run(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    item: OrchestrationItem,
    mut rewind: Rewind,
) {
    if let Some(name) = rewind.wants_version() {
        let Some((version, _)) = engine.orchestrations.resolve_start(name, None) else {
            tracing::warn!(target: "duroxide::runtime", instance_id = %item.instance, orchestration_name = %name, "a retry waits for a node that has the code");
            give_back(engine, claim.lease, Some(INSTANCE_REST)).await;
            return;
        };
        rewind.begin_with(&version);
    }
    let standings = match look_at(engine, &rewind).await {
        Ok(Some(standings)) => standings,
        Ok(None) => {
            tracing::info!(target: "duroxide::runtime", instance_id = %item.instance, "a retry waits for a child that is being cancelled, or is about to begin");
            give_back(engine, claim.lease, Some(CHILD_REST)).await;
            return;
        }
        Err(error) => {
            tracing::warn!(target: "duroxide::runtime", instance_id = %item.instance, %error, "the children of an instance that is to be retried could not be read");
            give_back(engine, claim.lease, Some(INSTANCE_REST)).await;
            return;
        }
    };
    let execution_id = rewind.execution_id();
    let cut = Cut::of(&rewind);
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
        incarnation: claim.incarnation,
        instance: item.instance,
    };
    let writes = TurnWrites {
        metadata: metadata(&of, &history),
        history,
        to_orchestrators,
        ..TurnWrites::nothing(execution_id)
    };
    match commit(engine, of.whose(), claim.lease, TurnCommit::of(writes)).await {
        Committed::Yes => {
            engine.blocked.remove(&of.instance);
            engine.metrics.increment_active_orchestrations();
            cut.log(&of);
        }
        Committed::No | Committed::Unknown => {}
        Committed::Refused(refused) => {
            let report = format!("the store refuses to rewind it: {}", refused.error);
            block(engine, refused.lease, &of, BlockCause::MayPass, report).await;
        }
    }
}

/// Where a record was cut, for the log.
struct Cut {
    failed_execution_id: u64,
    from_event_id: u64,
    dropped: usize,
}

impl Cut {
    fn of(rewind: &Rewind) -> Self {
        Self {
            failed_execution_id: rewind.failed_execution_id,
            from_event_id: rewind.from_event_id,
            dropped: rewind.dropped,
        }
    }

    fn log(&self, of: &ExecutionRef) {
        tracing::info!(
            target: "duroxide::runtime",
            instance_id = %of.instance,
            orchestration_name = %of.name,
            execution_id = of.execution_id,
            failed_execution_id = self.failed_execution_id,
            from_event_id = self.from_event_id,
            dropped = self.dropped,
            "retrying a failed instance from the point of failure"
        );
    }
}

fn metadata(of: &ExecutionRef, history: &[Event]) -> ExecutionMetadata {
    let handler = history.iter().find_map(Event::started_handler);
    let (name, version) = handler.unzip();
    ExecutionMetadata {
        orchestration_name: name,
        orchestration_version: version,
        parent_instance_id: of.parent.as_ref().map(|parent| parent.instance.clone()),
        // An earlier version could replay the record, and would not know what its first turn is asked for.
        pinned_duroxide_version: Version::parse(BUILD_VERSION).ok(),
        ..ExecutionMetadata::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_an_earlier_version_leave_a_rewound_execution_alone() {
        let of = ExecutionRef {
            instance: "i".into(),
            execution_id: 2,
            name: "o".into(),
            parent: None,
            incarnation: None,
        };
        // The version of its events is that of the engine that recorded them.
        let pinned = metadata(&of, &[]).pinned_duroxide_version;
        assert_eq!(pinned, Version::parse(BUILD_VERSION).ok());
    }
}
