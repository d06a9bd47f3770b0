//! Histories that are too large for the thread that writes: claimed like any other, read elsewhere.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, HandOut, Provider, TurnClaim, TurnHistory,
};
use duroxide_sqlite::{Durability, SqliteOptions, SqliteProvider};

use crate::support::*;

/// No lease runs out, however long it takes to write and read so much.
fn patient() -> SqliteOptions {
    SqliteOptions {
        clock: HandClock::new(),
        durability: Durability::Relaxed,
        ..SqliteOptions::default()
    }
}

/// What a caller holds, whatever the instance.
struct Held(CachedHistory);

impl CachedHistories for Held {
    fn cached(&self, _instance: &str) -> Option<CachedHistory> {
        Some(self.0)
    }
}

fn wait(id: u64, name: String) -> Event {
    event("i", 1, id, EventKind::ExternalSubscribed { name })
}

/// An instance whose history has some six megabytes, ready to be claimed.
async fn create_large(store: &dyn Provider) {
    create(store, "i").await;
    send(store, raised("i", "go")).await;
    let (_, token, _) = fetch(store).await.unwrap();
    let large = (2..=7).map(|id| wait(id, format!("{id} {}", "x".repeat(1_000_000))));
    ack(store, &token, 1, large.collect(), Default::default()).await;
    send(store, raised("i", "next")).await;
}

async fn claim(
    store: &dyn Provider,
    hand_out: HandOut,
    held: Option<CachedHistory>,
) -> ClaimedTurn {
    let cached = held.map(|held| Arc::new(Held(held)) as Arc<dyn CachedHistories>);
    let claim = TurnClaim {
        hand_out,
        cached,
        ..TurnClaim::new(1, LEASE, NO_WAIT)
    };
    store.claim_turns(claim).await.unwrap().remove(0)
}

async fn give_back(store: &dyn Provider, token: &str) {
    let given = store.abandon_orchestration_item(token, None, true).await;
    given.unwrap();
}

/// However the turn is asked for, its history is the one that is stored.
async fn every_claim_has_all_of_it(store: &dyn Provider) {
    create_large(store).await;
    let stored = store.read("i").await.unwrap();
    assert_eq!(stored.len(), 7);
    let (item, token, attempts) = fetch(store).await.expect("it is claimed");
    assert_eq!((item.history_error, attempts), (None, 1));
    assert!(item.history == stored, "fetched");
    give_back(store, &token).await;

    let turn = claim(store, HandOut::AfterCommit, None).await;
    assert!(turn.item.history == stored, "claimed");
    let current = CachedHistory {
        incarnation: turn.incarnation.unwrap(),
        execution_id: 1,
        last_event_id: 7,
    };
    give_back(store, &turn.lock_token).await;

    let outdated = CachedHistory {
        last_event_id: 6,
        ..current
    };
    let turn = claim(store, HandOut::AfterCommit, Some(outdated)).await;
    assert_eq!(turn.history, TurnHistory::Loaded);
    assert!(turn.item.history == stored, "claimed with an old copy");
    give_back(store, &turn.lock_token).await;

    let turn = claim(store, HandOut::AfterCommit, Some(current)).await;
    assert_eq!(turn.history, TurnHistory::Unchanged(current));
    assert!(turn.item.history.is_empty(), "nothing is read for it");
    ack(
        store,
        &turn.lock_token,
        1,
        vec![wait(8, "w".to_owned())],
        Default::default(),
    )
    .await;

    // Its message is new, so this one is handed out before the commit.
    send(store, raised("i", "last")).await;
    let turn = claim(store, HandOut::BeforeCommit, None).await;
    assert!(
        turn.item.history == store.read("i").await.unwrap(),
        "claimed early"
    );
    ack(
        store,
        &turn.lock_token,
        1,
        vec![wait(9, "w".to_owned())],
        Default::default(),
    )
    .await;
}

#[tokio::test]
async fn a_large_history_is_claimed_whole_however_the_turn_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for url in [
        url(&folder.path().join("a.db")),
        "sqlite::memory:".to_owned(),
    ] {
        let store = SqliteProvider::new(&url, Some(patient())).await;
        every_claim_has_all_of_it(&store.unwrap()).await;
    }
}

#[tokio::test]
async fn a_turn_whose_large_history_cannot_be_read_is_given_back_uncounted_and_rests_for_a_second()
{
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = HandClock::new();
    let options = SqliteOptions {
        clock: Arc::clone(&clock) as _,
        ..patient()
    };
    let store = SqliteProvider::new(&url(&path), Some(options)).await;
    let store = store.unwrap();
    create_large(&store).await;
    // The claim goes well, and the read behind it fails.
    shell(&path)
        .execute_batch("ALTER TABLE kv_store RENAME TO away")
        .unwrap();
    let failed = store.fetch_orchestration_item(LEASE, NO_WAIT, None).await;
    assert!(failed.is_err());
    shell(&path)
        .execute_batch("ALTER TABLE away RENAME TO kv_store")
        .unwrap();
    // To find out how large it is takes the writer some time: it is not claimed again at once.
    assert!(fetch(&store).await.is_none(), "it rests");
    clock.advance(Duration::from_secs(1));
    let (item, _, attempts) = fetch(&store).await.expect("it is free again");
    assert_eq!((item.history.len(), attempts), (7, 1));
}
