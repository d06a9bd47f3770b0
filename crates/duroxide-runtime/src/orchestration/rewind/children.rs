//! Where the children of a failed instance stand. In: the plan of its rewind. Out: what the store says of each child without a success.

use std::collections::HashMap;

use duroxide_core::provider::{InstanceOutcome, OutcomeStatus, ProviderError};
use duroxide_core::replay::ParentLink;
use duroxide_core::rewind::{Child, ChildStanding, Rewind};

use crate::engine::Engine;

/// Where the children stand; `None` while one that the failure cancelled has not ended, or one has not begun.
pub(super) async fn look_at(
    engine: &Engine,
    rewind: &Rewind,
) -> Result<Option<HashMap<u64, ChildStanding>>, ProviderError> {
    let mut standings = HashMap::new();
    for child in &rewind.children {
        let link = match link_of(engine, child).await? {
            Some(link) => Some(link),
            // Once it has begun it can be told whose it is, and how it stands.
            None if is_about_to_begin(engine, child).await? => return Ok(None),
            // A start that is not queued any more may have been taken up between the two looks.
            None => link_of(engine, child).await?,
        };
        let standing = match link {
            Some(link) if is_its_own(rewind, child, &link) => {
                standing(engine.store.read_outcome(&child.instance).await?)
            }
            // Another instance may have the id: the start is sent again, and refused, which tells the code.
            _ => ChildStanding::Unborn,
        };
        if child.cancelled && standing == ChildStanding::Running {
            return Ok(None);
        }
        standings.insert(child.event_id, standing);
    }
    Ok(Some(standings))
}

/// Whether there is no instance under the id of a child, and a start for it waits for a node or for the commit of its first turn.
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

/// Who awaits the instance under the id of a child; `None` if nobody does, or there is none.
async fn link_of(engine: &Engine, child: &Child) -> Result<Option<ParentLink>, ProviderError> {
    let history = engine.store.read(&child.instance).await?;
    Ok(ParentLink::recorded_in(&history))
}

/// Whether the instance under the id of a child was started by the operation that awaits the child.
fn is_its_own(rewind: &Rewind, child: &Child, link: &ParentLink) -> bool {
    link.instance == rewind.instance
        && link.id == child.event_id
        && rewind.awaits(link.execution_id, child)
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
