//! What a node noted of an instance that it cannot go on with: it is in the row of the instance, and the next turn with
//! events writes the row without it.

use duroxide_core::provider::{BlockNote, BlockedInstance};

use super::closing;
use super::error::{Error, Result};
use super::names::{self, INSTANCES};
use super::pause::find;
use super::rows::{self, InstanceRow};
use super::token::TurnToken;
use crate::atomic::{Batch, Guard, Operation, Query};
use crate::{EventStore, StoreError};

pub(super) async fn note<S: EventStore>(
    store: &S,
    lock_token: &str,
    blocked: &BlockedInstance,
    node: &str,
) -> Result<bool> {
    let token = TurnToken::parse(lock_token)?;
    let instance = token.instance;
    loop {
        let lease = Query::Lease {
            token: token.lease.clone(),
        };
        let held = store.query_one(lease).await?.into_lease()?;
        if !held.is_some_and(|held| held.valid && held.group == instance) {
            let lost = format!("lease {} is unknown or expired", token.lease);
            return Err(Error::InvalidToken(lost));
        }
        let Some(found) = find(store, instance).await? else {
            return Ok(false);
        };
        let mut blocked = blocked.clone();
        blocked.execution_id = found.row.execution;
        let row = InstanceRow {
            blocked: Some(BlockNote::new(blocked, node, store.now_ms())),
            ..found.row.clone()
        };
        let put = Operation::Put {
            scope: INSTANCES.to_owned(),
            key: instance.to_owned(),
            value: rows::encode(&row)?,
        };
        let batch = Batch::of([put])
            .guarded_by(Guard::Lease(token.lease.clone()))
            .guarded_by(names::unchanged(instance, Some(found.bytes())));
        match closing::commit(store, batch).await {
            Ok(_) => return Ok(true),
            // The row was written to beside the note, or the lease is over: the next round tells.
            Err(Error::Store(StoreError::Conflict(_))) => {}
            Err(error) => return Err(error),
        }
    }
}

pub(super) async fn of<S: EventStore>(store: &S, instance: &str) -> Result<Option<BlockNote>> {
    let Some(found) = find(store, instance).await? else {
        return Ok(None);
    };
    let is_current = |note: &BlockNote| note.blocked.execution_id == found.row.execution;
    let note = found.row.blocked.clone().filter(is_current);
    Ok(note.filter(|_| found.is_live()))
}
