//! Where the children of a failed instance stand. In: the plan of its rewind. Out: what the store says of each child
//! without a success.

use std::collections::HashMap;

use duroxide_core::Event;
use duroxide_core::provider::{OutcomeStatus, ProviderError};
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
        // Before its history is read: a request that is gone by then has left its mark there.
        let has_request = child.cancelled && has_request_to_cancel(engine, child).await?;
        let found = match found(engine, child).await? {
            Some(found) => Some(found),
            // Once it has begun, its history shows whose it is and how it stands.
            None if is_about_to_begin(engine, child).await? => return Ok(None),
            // A start that is not queued any more may have been taken up between the two looks.
            None => found(engine, child).await?,
        };
        let standing = match found {
            Some(found) if is_its_own(rewind, child, &found.link) => found.standing,
            // Another instance may have the id: the start is sent again, and refused, which the code sees.
            _ => ChildStanding::Unborn,
        };
        let is_being_cancelled = match standing {
            ChildStanding::Running => child.cancelled,
            // Behind the request of an earlier retry, which lets it go on first.
            ChildStanding::Failed(..) => has_request,
            ChildStanding::Completed(_) | ChildStanding::Unborn => false,
        };
        if is_being_cancelled {
            return Ok(None);
        }
        standings.insert(child.event_id, standing);
    }
    Ok(Some(standings))
}

/// Whether a request to cancel waits for a child, or for the commit of a turn that has taken it.
async fn has_request_to_cancel(engine: &Engine, child: &Child) -> Result<bool, ProviderError> {
    let Some(admin) = engine.store.as_management_capability() else {
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
    standing: ChildStanding,
}

/// The instance under the id of a child; `None` if no instance awaits it, or there is none. One read tells it all: what
/// two reads say may never have been true at once.
async fn found(engine: &Engine, child: &Child) -> Result<Option<Found>, ProviderError> {
    let history = engine.store.read(&child.instance).await?;
    let standing = standing(&history);
    let link = ParentLink::recorded_in(&history);
    Ok(link.map(|link| Found { link, standing }))
}

/// Whether the instance under the id of a child was started by the operation that awaits the child.
fn is_its_own(rewind: &Rewind, child: &Child, link: &ParentLink) -> bool {
    link.instance == rewind.instance
        && link.id == child.event_id
        && rewind.awaits(link.execution_id, child)
}

/// How an instance stands whose latest execution has this history.
fn standing(history: &[Event]) -> ChildStanding {
    let end = history.iter().rfind(|event| event.is_terminal());
    let outcome = end.and_then(|end| Some((end.execution_id, OutcomeStatus::of_event(end)?)));
    match outcome {
        None | Some((_, OutcomeStatus::Running)) => ChildStanding::Running,
        Some((_, OutcomeStatus::Completed { output })) => ChildStanding::Completed(output),
        Some((execution_id, OutcomeStatus::Failed { .. })) => {
            ChildStanding::Failed(execution_id, FailureMark::of(history))
        }
    }
}
