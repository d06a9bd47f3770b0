//! Dead-letters claimed messages under the turn's lease. The rest of the batch stays claimed.

use std::collections::BTreeSet;

use duroxide_core::provider::DeadLetterOrigin;
use duroxide_core::provider::rules::Refusal;

use crate::EventStore;
use crate::adapter::error::{Error, Result};
use crate::adapter::names::{INSTANCES, TURNS};
use crate::adapter::rows::InstanceRow;
use crate::adapter::token::TurnToken;
use crate::adapter::{closing, dead_letters};
use crate::atomic::{Batch, Guard, Operation, Query};

/// Dead-letters the messages at these positions of the claimed batch.
pub(in crate::adapter) async fn run<S: EventStore>(
    store: &S,
    lock_token: &str,
    positions: &[usize],
    reason: &str,
) -> Result<()> {
    let TurnToken {
        lease, instance, ..
    } = TurnToken::parse(lock_token)?;
    let held = store.lease(&lease).await?;
    let Some(held) = held.filter(|held| held.valid && held.group == instance) else {
        return Err(Error::InvalidToken(format!("lease {lease} is lost")));
    };
    let chosen = ids_at(instance, &held.claimed, positions)?;
    let by_id = Query::MessagesById {
        queue: TURNS,
        ids: chosen.iter().copied().collect(),
    };
    let messages = store.query_one(by_id).await?.into_messages()?;
    let row = store.get(INSTANCES, instance).await?;
    let row = row.as_deref().and_then(|row| InstanceRow::read(row).ok());
    let origin = DeadLetterOrigin {
        incarnation: row.and_then(|row| row.incarnation()),
        answered: false,
    };
    let mut operations = Vec::with_capacity(chosen.len() + 1);
    for message in &messages {
        operations.push(dead_letters::keep(&TURNS, message, reason, origin)?);
    }
    operations.push(Operation::DeleteMessages {
        queue: TURNS,
        ids: chosen.into_iter().collect(),
    });
    let batch = Batch::of(operations).guarded_by(Guard::Lease(lease));
    closing::commit(store, batch).await?;
    Ok(())
}

/// The numbers of the messages at these positions, each once.
fn ids_at(instance: &str, claimed: &[u64], positions: &[usize]) -> Result<BTreeSet<u64>> {
    let id_at = |position: &usize| {
        claimed
            .get(*position)
            .copied()
            .ok_or_else(|| Refusal::NoSuchPosition {
                instance: instance.to_owned(),
                position: *position,
                size: claimed.len(),
            })
            .map_err(Error::from)
    };
    positions.iter().map(id_at).collect()
}
