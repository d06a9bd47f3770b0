//! Large histories of claimed turns. In: turns whose claim left the history unread. Out: the same with their histories,
//! or why one could not be read. Runs in the caller's task, once the claim is committed, on readers; a database in
//! memory has none, and there the writer reads a part at a time. No request reads more than such a part.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::provider::KvEntry;

use crate::damage::Damage;
use crate::error::{Result, SqliteError};
use crate::ops::fetch_turn::{LargeHistory, RawHistory, RawTurn};
use crate::ops::store_lease;
use crate::requests::LeaseView;
use crate::store::{ReadView, Store};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// Reads what is still to be read. A turn whose history stays unread is to be given back: its instance was deleted, or
/// the read failed with the error that is returned.
pub(crate) async fn read(store: &Store, turns: &mut [RawTurn]) -> Option<SqliteError> {
    let mut failed = None;
    for turn in turns {
        let Some(large) = turn.large_history().cloned() else {
            continue;
        };
        match history(store, turn.token(), large).await {
            Ok(Some(history)) => turn.set_history(history),
            Ok(None) => {}
            Err(SqliteError::Damaged { detail }) => {
                note_damage(store, turn.instance(), &detail).await;
                turn.set_history(RawHistory::Damaged(SqliteError::Damaged { detail }));
            }
            Err(error) => {
                tracing::warn!(target: "duroxide::providers::sqlite", instance_id = turn.instance(), %error, "a history could not be read, the turn is given back");
                failed = Some(error);
            }
        }
    }
    failed
}

/// The history as it was in the claim; `None` if the turn has lost its lease.
async fn history(store: &Store, token: &str, large: LargeHistory) -> Result<Option<RawHistory>> {
    let token = token.to_owned();
    // A turn that was handed out early: with its claim all is committed that the claim saw.
    let stored = move |tx: &mut Tx<'_>| store_lease::run(tx, &token);
    match store.read(ReadView::StoredLeases, stored).await {
        Ok(()) => {}
        Err(SqliteError::Contract(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    let large = Arc::new(large);
    let mut events = Vec::new();
    let mut after = None;
    loop {
        let from = Arc::clone(&large);
        let part = move |tx: &mut Tx<'_>| from.part(tx, after);
        let Some(part) = store.read(ReadView::Committed, part).await? else {
            return Ok(None);
        };
        events.extend(part.events);
        after = part.goes_on_after;
        if after.is_none() {
            break;
        }
    }
    let key_values = move |tx: &mut Tx<'_>| large.key_values(tx);
    let kv: Option<HashMap<String, KvEntry>> = store.read(ReadView::Committed, key_values).await?;
    Ok(kv.map(|kv| RawHistory::Loaded { events, kv }))
}

/// The writer must not touch what cannot be read. If it does not hear of it here, the commit of the turn meets it.
async fn note_damage(store: &Store, instance: &str, detail: &str) {
    let (id, detail) = (instance.to_owned(), detail.to_owned());
    let note = move |tx: &mut WriterTx<'_>| {
        tx.writer()
            .damaged
            .add(&id, Damage::History(detail.clone()));
        Ok(())
    };
    if let Err(error) = store.write(LeaseView::NotNeeded, note).await {
        tracing::debug!(target: "duroxide::providers::sqlite", instance_id = instance, %error, "the writer was not told of a history that cannot be read");
    }
}
