//! Where the children of a failed instance stand. In: the plan of its rewind. Out: what the store says of each child
//! without a success.

use std::collections::HashMap;

use duroxide_core::provider::{InstanceOutcome, OutcomeStatus, ProviderError};
use duroxide_core::replay::ParentLink;
use duroxide_core::rewind::{Child, ChildStanding, FailureMark, Rewind};

use crate::engine::Engine;

/// How a store names a request to cancel.
const CANCEL: &str = "CancelInstance";

/// Where the children stand; `None` while one that the failure cancelled has not ended, or one has not begun.
pub(super) async fn look_at(
    engine: &Engine,
    rewind: &Rewind,
) -> Result<Option<HashMap<u64, ChildStanding>>, ProviderError> {
    let mut standings = HashMap::new();
    for child in &rewind.children {
        let found = match found(engine, child).await? {
            Some(found) => Some(found),
            // Once it has begun, its history shows whose it is and how it stands.
            None if is_about_to_begin(engine, child).await? => return Ok(None),
            // A start that is not queued any more may have been taken up between the two looks.
            None => found(engine, child).await?,
        };
        let standing = match found {
            Some(found) if is_its_own(rewind, child, &found.link) => {
                let outcome = engine.store.read_outcome(&child.instance).await?;
                standing(outcome, found.failure)
            }
            // Another instance may have the id: the start is sent again, and refused, which the code sees.
            _ => ChildStanding::Unborn,
        };
        if child.cancelled && is_being_cancelled(engine, child, &standing).await? {
            return Ok(None);
        }
        standings.insert(child.event_id, standing);
    }
    Ok(Some(standings))
}

/// Whether a child that the failure cancelled has yet to end. One that has ended may have the request before it all the
/// same: behind the request of an earlier retry, which lets it go on first.
async fn is_being_cancelled(
    engine: &Engine,
    child: &Child,
    standing: &ChildStanding,
) -> Result<bool, ProviderError> {
    let admin = match standing {
        ChildStanding::Running => return Ok(true),
        ChildStanding::Failed(..) => engine.store.as_management_capability(),
        ChildStanding::Completed(_) | ChildStanding::Unborn => None,
    };
    let Some(admin) = admin else {
        return Ok(false);
    };
    let pending = admin.pending_work(&child.instance).await?;
    Ok(pending.is_some_and(|it| it.messages.iter().any(|one| one.kind == CANCEL)))
}

/// Whether there is no instance under the id of a child, and a start for it waits for a node or for the commit of its
/// first turn.
async fn is_about_to_begin(engine: &Engine, child: &Child) -> Result<bool, ProviderError> {
    let Some(admin) = engine.store.as_management_capability() else {
        return Ok(false);
    };
    if engine.store.read_outcome(&child.instance).await?.is_some() {
        return Ok(false);
    }
    // A store that cannot tell what is queued has no start to wait for.
    let pending = admin.pending_work(&child.instance).await?;
    Ok(pending.is_some_and(|it| it.messages.iter().any(|one| one.begins.is_some())))
}

/// An instance under the id of a child.
struct Found {
    /// Who awaits it.
    link: ParentLink,
    /// How its current execution ended, if it has.
    failure: Option<FailureMark>,
}

/// The instance under the id of a child; `None` if no instance awaits it, or there is none.
async fn found(engine: &Engine, child: &Child) -> Result<Option<Found>, ProviderError> {
    let history = engine.store.read(&child.instance).await?;
    let failure = FailureMark::of(&history);
    let link = ParentLink::recorded_in(&history);
    Ok(link.map(|link| Found { link, failure }))
}

/// Whether the instance under the id of a child was started by the operation that awaits the child.
fn is_its_own(rewind: &Rewind, child: &Child, link: &ParentLink) -> bool {
    link.instance == rewind.instance
        && link.id == child.event_id
        && rewind.awaits(link.execution_id, child)
}

fn standing(outcome: Option<InstanceOutcome>, failure: Option<FailureMark>) -> ChildStanding {
    match outcome {
        None => ChildStanding::Unborn,
        Some(outcome) => match outcome.status {
            OutcomeStatus::Running => ChildStanding::Running,
            OutcomeStatus::Completed { output } => ChildStanding::Completed(output),
            OutcomeStatus::Failed { .. } => ChildStanding::Failed(outcome.execution_id, failure),
        },
    }
}
