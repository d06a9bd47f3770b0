//! Large histories of claimed turns. In: turns whose claim left the history unread. Out: the same with their histories,
//! or why one could not be read. Runs in the caller's task, once the claim is committed, on readers; a database in
//! memory has none, and there the writer reads a part at a time. No request reads more than such a part.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::KvEntry;

use crate::damage::Damage;
use crate::error::{Result, SqliteError};
use crate::ops::fetch_turn::{LargeHistory, RawHistory, RawTurn};
use crate::ops::{renew_turn, store_lease};
use crate::requests::LeaseView;
use crate::store::{ReadView, Store};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// The lease of a turn is renewed once this part of its length is over.
const LEASE_PARTS: u32 = 3;

/// Reads what is still to be read, and renews the leases of the turns meanwhile. A turn whose history stays unread is
/// to be given back: its instance was deleted, its lease was lost, or the read failed with the error that is returned.
pub(crate) async fn read(
    store: &Store,
    turns: &mut [RawTurn],
    lock_timeout: Duration,
) -> Option<SqliteError> {
    let mut failed = None;
    for turn in turns {
        let Some(large) = turn.large_history().cloned() else {
            continue;
        };
        let reading = history(store, turn.token(), large);
        match keeping_lease(store, turn.token(), lock_timeout, reading).await {
            Ok(Some(history)) => turn.set_history(history),
            Ok(None) => {}
            Err(SqliteError::Damaged { detail }) => {
                note_damage(store, turn.instance(), &detail).await;
                turn.set_history(RawHistory::Damaged(SqliteError::Damaged { detail }));
            }
            Err(error) => {
                tracing::warn!(target: "duroxide::providers::sqlite", instance_id = turn.instance(), %error, "a history could not be read, the turn is given back");
                turn.read_failed();
                failed = Some(error);
            }
        }
    }
    failed
}

/// Waits for a read, and renews the lease of its turn as often as a third of its length is over: readers may be busy
/// for longer than that. The caller renews it only when it has the turn.
async fn keeping_lease(
    store: &Store,
    token: &str,
    lock_timeout: Duration,
    reading: impl Future<Output = Result<Option<RawHistory>>>,
) -> Result<Option<RawHistory>> {
    let mut reading = pin!(reading);
    // A lease of no length cannot be kept.
    let interval = (lock_timeout / LEASE_PARTS).max(Duration::from_millis(1));
    loop {
        let waited = tokio::time::timeout(interval, reading.as_mut());
        if let Ok(read) = waited.await {
            return read;
        }
        let held = token.to_owned();
        let renew = move |tx: &mut WriterTx<'_>| renew_turn::run(tx, &held, lock_timeout);
        match store.write(LeaseView::Needed, renew).await {
            Ok(()) => {}
            Err(SqliteError::Contract(_)) => return Ok(None),
            // It is tried again: the lease may hold for longer than the outage.
            Err(error) => {
                tracing::debug!(target: "duroxide::providers::sqlite", %error, "the lease of a turn was not renewed while its history is read");
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use duroxide_core::clock::Clock;
    use duroxide_core::event::EventKind;
    use duroxide_core::provider::{ExecutionMetadata, Provider, TurnClaim};
    use duroxide_core::{Event, WorkItem};

    use super::*;
    use crate::{Durability, SqliteOptions, SqliteProvider};

    const LEASE: Duration = Duration::from_millis(200);
    const LEASE_MS: u64 = 200;

    #[derive(Debug)]
    struct HandClock(AtomicU64);

    impl Clock for HandClock {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    /// Keeps a reader busy until it is dropped.
    fn block_a_reader(store: &Arc<Store>) -> mpsc::Sender<()> {
        let (busy, over) = mpsc::channel::<()>();
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let wait = move |_: &mut Tx<'_>| {
                let _ = over.recv();
                Ok(())
            };
            store.read(ReadView::Committed, wait).await
        });
        busy
    }

    async fn send(store: &SqliteProvider, instance: &str) {
        let item = WorkItem::ExternalRaised {
            instance: instance.to_owned(),
            name: "go".to_owned(),
            data: String::new(),
        };
        store.enqueue_for_orchestrator(item, None).await.unwrap();
    }

    async fn commit(store: &SqliteProvider, token: &str) {
        let nothing = ExecutionMetadata::default();
        let committed =
            store.ack_orchestration_item(token, 1, vec![], vec![], vec![], nothing, vec![]);
        committed.await.unwrap();
    }

    #[tokio::test]
    async fn a_history_that_is_read_for_long_keeps_its_lease_and_holds_up_no_other_turn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let clock = Arc::new(HandClock(AtomicU64::new(1_700_000_000_000)));
        let options = SqliteOptions {
            durability: Durability::Relaxed,
            clock: Arc::clone(&clock) as _,
            ..SqliteOptions::default()
        };
        let url = format!("sqlite:{}", path.display());
        let provider = SqliteProvider::new(&url, Some(options)).await.unwrap();
        let provider = Arc::new(provider);
        let file = rusqlite::Connection::open(&path).unwrap();
        file.execute_batch(
            "INSERT INTO instances (instance_id, orchestration_name, orchestration_version, created_at, updated_at, lane,
                     incarnation)
                 VALUES ('large', 'o', '1.0.0', 0, 0, '', 7), ('small', 'o', '1.0.0', 0, 0, '', 8);
             INSERT INTO executions (instance_id, execution_id, status, started_at)
                 VALUES ('large', 1, 'Running', 0), ('small', 1, 'Running', 0);",
        )
        .unwrap();
        // More than two parts.
        for n in 1..=10 {
            let kind = EventKind::ExternalSubscribed {
                name: "x".repeat(1_000_000),
            };
            let event = Event::with_event_id(n, "large", 1, None, kind);
            let append = provider.append_with_execution("large", 1, vec![event]);
            append.await.unwrap();
        }
        for instance in ["large", "small"] {
            send(&provider, instance).await;
            clock.0.fetch_add(1, Ordering::SeqCst);
        }
        let claim = || TurnClaim::new(2, LEASE, Duration::ZERO);
        let busy = [(); 2].map(|()| block_a_reader(&provider.store));
        let reading = {
            let (provider, claim) = (Arc::clone(&provider), claim());
            tokio::spawn(async move { provider.claim_turns(claim).await })
        };
        let leased_until = || -> Option<i64> {
            let sql = "SELECT locked_until FROM instance_locks WHERE instance_id = 'large'";
            file.query_row(sql, [], |row| row.get(0)).ok()
        };
        while leased_until().is_none() {
            tokio::task::yield_now().await;
        }

        let mut small = provider.claim_turns(claim()).await.unwrap();
        let small = small.pop().expect("it does not wait for the other one");
        assert_eq!(small.item.instance, "small");
        commit(&provider, &small.lock_token).await;

        // The readers are busy for several lengths of the lease.
        for _ in 0..4 {
            let before = clock.0.fetch_add(LEASE_MS / 2, Ordering::SeqCst);
            let renewed = i64::try_from(before + LEASE_MS / 2 + LEASE_MS).unwrap();
            while leased_until() < Some(renewed) {
                tokio::task::yield_now().await;
            }
        }
        drop(busy);
        let mut large = reading.await.unwrap().unwrap();
        let large = large.pop().expect("its lease holds");
        assert_eq!(
            (large.item.history.len(), large.item.history_error),
            (10, None)
        );
        commit(&provider, &large.lock_token).await;
    }
}
