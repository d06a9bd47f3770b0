//! Clocks that are set back, in one process and over a restart.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::Provider;
use duroxide_sqlite::{Durability, SqliteOptions, SqliteProvider};

use crate::support::*;

const HOUR: Duration = Duration::from_secs(3_600);

async fn open(path: &Path, clock: &Arc<HandClock>) -> SqliteProvider {
    let options = SqliteOptions {
        durability: Durability::Relaxed,
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    SqliteProvider::new(&url(path), Some(options))
        .await
        .unwrap()
}

#[tokio::test]
async fn what_was_ready_stays_ready_over_a_restart_with_the_clock_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = HandClock::new();
    let store = open(&path, &clock).await;
    clock.advance(HOUR);
    send(&store, start("a")).await;
    store.enqueue_for_worker(activity("a", 1)).await.unwrap();
    store.close().await;
    // Another clock, an hour behind.
    let store = open(&path, &HandClock::new()).await;
    assert!(fetch(&store).await.is_some());
    assert!(fetch_work(&store).await.is_some());
}

#[tokio::test]
async fn a_lease_from_before_the_step_ends_no_later_than_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let clock = HandClock::new();
    let store = open(&path, &clock).await;
    clock.advance(HOUR);
    send(&store, start("a")).await;
    fetch(&store).await.unwrap();
    drop(store);
    let clock = HandClock::new();
    let store = open(&path, &clock).await;
    assert!(fetch(&store).await.is_none(), "it is still held");
    clock.advance(LEASE);
    assert!(fetch(&store).await.is_some());
}

#[tokio::test]
async fn two_stores_whose_clocks_differ_see_the_work_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (ahead, behind) = (HandClock::new(), HandClock::new());
    ahead.advance(HOUR);
    let (ours, theirs) = (open(&path, &behind).await, open(&path, &ahead).await);
    send(&theirs, start("a")).await;
    assert!(fetch(&ours).await.is_some());
}
