//! A restore that is not possible changes nothing.

use std::pin::pin;
use std::time::{Duration, Instant};

use duroxide_core::Event;
use duroxide_core::provider::{EventRecord, InstanceSnapshot, QueuedMessage, Restoring};
use futures::poll;

use super::{restore, snapshot};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Where anything of the id is there, nothing is changed: neither an instance, nor what only lies in a queue.
pub async fn restoring_over_an_instance_changes_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("twice", Commit::first().and(kinds::kv_set("k", "old")))
        .await;
    bench.create("work").await;
    bench.create("letter").await;
    let others = Bench::open(factory).await;
    others
        .create_with("twice", Commit::first().and(kinds::kv_set("k", "other")))
        .await;
    others.send(items::signal("twice", "waits")).await;
    others.schedule(items::activity("work", 1)).await;
    let hour = Some(Duration::from_secs(3_600));
    others.send_after(items::start("letter"), hour).await;
    for id in ["twice", "work", "letter"] {
        let before = snapshot(&others, id).await;
        let taken = snapshot(&bench, id).await;
        assert_eq!(restore(&others, &taken).await, Restoring::Exists, "{id}");
        assert_eq!(snapshot(&others, id).await, before, "{id}");
    }
    let value = others.store.get_kv_value("twice", "k").await;
    assert_eq!(value.expect("a value").as_deref(), Some("other"));
    assert_eq!(others.turn_of("twice").await.item.messages.len(), 1);
}

/// A snapshot that contradicts itself is refused for good, and leaves nothing.
pub async fn a_contradictory_snapshot_leaves_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("liar", Commit::first().work(items::activity("liar", 2)))
        .await;
    bench.send(items::signal("liar", "go")).await;
    let taken = snapshot(&bench, "liar").await;
    let stray = serde_json::to_string(&items::signal("stranger", "go")).expect("messages encode");
    let mut for_another = taken.clone();
    for_another.messages.push(QueuedMessage {
        json: stray,
        ..QueuedMessage::default()
    });
    let mut unnumbered = taken.clone();
    unnumbered.executions[0].events[0].id = 0;
    let mut doubled = taken.clone();
    doubled.executions.push(doubled.executions[0].clone());
    let mut mistaken = taken.clone();
    mistaken.activities[0].tag = Some("other".to_owned());
    let other = Bench::open(factory).await;
    for wrong in [for_another, unnumbered, doubled, mistaken] {
        let refused = other.admin().restore_instance(&wrong, None).await;
        let refused = refused.expect_err("it contradicts itself");
        assert!(!refused.is_retryable(), "{refused}");
        assert!(snapshot(&other, "liar").await.is_empty(), "nothing is left");
        assert!(
            snapshot(&other, "stranger").await.is_empty(),
            "nothing is left"
        );
    }
    assert_eq!(restore(&other, &taken).await, Restoring::Done);
}

/// A restore whose caller is gone is whole or absent.
pub async fn a_dropped_restore_is_whole_or_absent<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let mut first = Commit::first();
    for id in 2..60 {
        first = first
            .and(kinds::activity_scheduled("TestActivity"))
            .work(items::activity("dropped", id));
    }
    bench.create_with("dropped", first).await;
    let taken = snapshot(&bench, "dropped").await;
    assert_eq!(taken.activities.len(), 58);
    for polls in [1, 2, 3, 6] {
        let other = Bench::open(factory).await;
        {
            let mut call = pin!(other.admin().restore_instance(&taken, None));
            for _ in 0..polls {
                if poll!(call.as_mut()).is_ready() {
                    break;
                }
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
        // The store may still be at it.
        let began = Instant::now();
        loop {
            let found = snapshot(&other, "dropped").await;
            if found == taken {
                break;
            }
            assert!(found.is_empty(), "a part of it is there");
            if began.elapsed() > Duration::from_millis(100) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Whatever became of it, another one makes it whole.
        restore(&other, &taken).await;
        assert_eq!(snapshot(&other, "dropped").await, taken);
    }
}

/// A history of thousands of events, which a store may write in steps, is seen whole or not at all, and is whole also
/// after callers that were gone before its end.
pub async fn a_long_history_is_restored_whole<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::activity_scheduled("TestActivity"))
        .work(items::activity("long", 2));
    bench.create_with("long", first).await;
    let mut taken = snapshot(&bench, "long").await;
    lengthen(&mut taken, 2_500);
    let other = Bench::open(factory).await;
    for polls in [2, 5] {
        {
            let mut call = pin!(other.admin().restore_instance(&taken, None));
            for _ in 0..polls {
                if poll!(call.as_mut()).is_ready() {
                    break;
                }
                tokio::time::sleep(Duration::from_micros(500)).await;
                let found = snapshot(&other, "long").await;
                let is_whole = found == taken;
                assert!(is_whole || found.is_empty(), "a part of it is there");
            }
        }
        let found = snapshot(&other, "long").await;
        assert!(
            found == taken || found.is_empty(),
            "a part of it is there after its caller was gone"
        );
    }
    restore(&other, &taken).await;
    let found = snapshot(&other, "long").await;
    assert!(found == taken, "it is not the same");
    assert_eq!(restore(&other, &taken).await, Restoring::Exists);
    let work = other.work().await;
    assert_eq!(work.item, items::activity("long", 2));
}

/// Repeats the last event of the current execution under further numbers.
fn lengthen(snapshot: &mut InstanceSnapshot, events: u64) {
    let execution = snapshot.executions.last_mut().expect("it has begun");
    let last = execution.events.last().expect("it has events").clone();
    let mut event: Event = serde_json::from_str(&last.json).expect("an event");
    for id in last.id + 1..=events {
        event.event_id = id;
        let json = serde_json::to_string(&event).expect("events encode");
        execution.events.push(EventRecord { id, json });
    }
}
