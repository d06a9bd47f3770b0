//! Cases: the same store through another handle, and after it was closed. What a store cannot offer, its harness says.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::waiting::is_woken_by;
use super::{Desk, GROUPS, Harness, LEASE_MS, SINGLES, is_lost, texts};
use crate::atomic::{Batch, Guard, Operation};
use crate::lease::After;
use crate::message::{Claim, NewMessage, Visible};
use crate::record::Record;
use crate::{EventStore, StoreError};

fn put(key: &str) -> Operation {
    Operation::Put {
        scope: "s".to_owned(),
        key: key.to_owned(),
        value: vec![1],
    }
}

/// Events, entries, labels, and messages with their times and attempts.
pub async fn what_was_committed_is_there_after_reopening(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    let record = Record {
        number: 1,
        data: b"one".to_vec(),
    };
    let delayed = NewMessage {
        visible: Visible::AfterMs(60_000),
        ..NewMessage::new("b", "later")
    };
    let batch = Batch::of([
        put("k"),
        Operation::Append {
            entity: "e".to_owned(),
            partition: 1,
            events: vec![record.clone()],
        },
        Operation::Enqueue {
            queue: SINGLES,
            message: NewMessage::new("a", "parcel"),
        },
        Operation::Enqueue {
            queue: GROUPS,
            message: delayed,
        },
    ]);
    desk.store.commit(batch).await.expect("commit");
    desk.put("a", "1").await;
    let tried = desk.take().await;
    let released = desk.store.release(&tried.token, After::Now, false).await;
    released.expect("release");
    drop(desk);
    let Some(store) = harness.reopen().await else {
        return;
    };
    assert_eq!(store.get("s", "k").await.expect("get"), Some(vec![1]));
    assert_eq!(store.events("e", 1, 0).await.expect("read"), [record]);
    let parcel = store.claim(Claim::one(SINGLES, LEASE_MS)).await;
    assert_eq!(texts(&parcel.expect("claim")[0]), ["parcel"]);
    let both = Claim {
        max: 2,
        ..Claim::one(GROUPS, LEASE_MS)
    };
    let claimed = store.claim(both).await.expect("claim");
    assert_eq!(claimed.len(), 1, "the other one is not due");
    assert_eq!(texts(&claimed[0]), ["1"]);
    assert_eq!(claimed[0].messages[0].attempts, 2);
}

/// A lease that was valid when the store was closed is valid still: its holder alone may write.
pub async fn leases_outlive_reopening(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let claimed = desk.take().await;
    drop(desk);
    let Some(store) = harness.reopen().await else {
        return;
    };
    let nothing = store.claim(Claim::one(GROUPS, LEASE_MS)).await;
    assert!(nothing.expect("claim").is_empty(), "it is leased");
    let done = store.complete(&claimed.token).await;
    done.expect("the lease is good");
    assert!(is_lost(&store.complete(&claimed.token).await), "only once");
}

/// What one commits the other sees, and what one has leased the other does not get.
pub async fn two_handles_are_one_store(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    let Some(other) = harness.second().await else {
        return;
    };
    desk.put("a", "1").await;
    let claimed = desk.take().await;
    let nothing = other.claim(Claim::one(GROUPS, LEASE_MS)).await;
    assert!(nothing.expect("claim").is_empty(), "it is leased");
    let batch = Batch::of([put("k")]).guarded_by(Guard::Lease(claimed.token.clone()));
    other.commit(batch).await.expect("a token is good on both");
    let seen = desk.store.get("s", "k").await.expect("get");
    assert_eq!(seen, Some(vec![1]));
    other.complete(&claimed.token).await.expect("complete");
    assert!(is_lost(&desk.complete(&claimed.token).await), "only once");
}

/// Also a claim that waits on one handle hears of a commit on the other.
pub async fn a_claim_is_woken_by_the_other_handle(harness: &impl Harness) {
    let Some(other) = harness.second().await else {
        return;
    };
    let desk = Desk::new(harness, GROUPS);
    let put = async {
        let put = other.enqueue(&GROUPS, NewMessage::new("a", "1")).await;
        put.expect("enqueue");
    };
    is_woken_by(harness, &desk, put).await;
}

/// A guard that something is absent holds for exactly one of those who rely on it.
pub async fn only_one_of_many_writers_creates_an_entry(harness: &impl Harness) {
    const WRITERS: usize = 8;
    for round in 0..10 {
        let key = format!("round {round}");
        let writers = (0..WRITERS).map(|_| {
            let (store, key) = (harness.store(), key.clone());
            tokio::spawn(async move { create(&*store, &key).await })
        });
        let mut created = 0;
        for writer in writers.collect::<Vec<_>>() {
            created += usize::from(writer.await.expect("a writer ends well"));
        }
        assert_eq!(created, 1, "{key}");
    }
}

async fn create(store: &dyn EventStore, key: &str) -> bool {
    loop {
        let absent = Guard::Absent {
            scope: "s".to_owned(),
            key: key.to_owned(),
        };
        match store.commit(Batch::of([put(key)]).guarded_by(absent)).await {
            Ok(_) => return true,
            Err(StoreError::Conflict(_)) => return false,
            Err(StoreError::Retryable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A guard on exactly these keys holds only while no other writer has added one: nobody's addition is built on a set
/// that another writer had changed.
pub async fn only_one_of_many_writers_extends_a_set(harness: &impl Harness) {
    const WRITERS: usize = 6;
    const STEPS: usize = 5;
    const TRIES_MAX: usize = 1_000;
    let writers = (0..WRITERS).map(|_| {
        let store = harness.store();
        tokio::spawn(async move {
            for _ in 0..STEPS {
                let mut tries = 0;
                while !extend(&store).await {
                    tries += 1;
                    assert!(tries < TRIES_MAX, "nobody wins");
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer ends well");
    }
    let entries = harness.store().entries("s").await.expect("entries");
    let keys: BTreeSet<String> = entries.into_iter().map(|entry| entry.key).collect();
    let all: BTreeSet<String> = (0..WRITERS * STEPS).map(|n| format!("{n:03}")).collect();
    assert_eq!(keys, all, "each step adds the next number");
}

/// Adds the number that follows those that are there.
async fn extend(store: &Arc<dyn EventStore>) -> bool {
    let entries = store.entries("s").await.expect("entries");
    let next = format!("{:03}", entries.len());
    let seen = Guard::Keys {
        scope: "s".to_owned(),
        keys: entries.into_iter().map(|entry| entry.key).collect(),
    };
    match store.commit(Batch::of([put(&next)]).guarded_by(seen)).await {
        Ok(_) => true,
        Err(StoreError::Conflict(_) | StoreError::Retryable(_)) => false,
        Err(error) => panic!("{error}"),
    }
}
