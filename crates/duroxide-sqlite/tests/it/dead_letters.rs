//! Messages that become dead letters: for instances that never start, damaged ones, and those a holder gives up on.

use std::time::Duration;

use duroxide_core::provider::{Provider, WorkItem};
use duroxide_sqlite::{SqliteOptions, SqliteProvider};

use crate::support::*;

fn queued(instance: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "q".to_owned(),
        data: "d".to_owned(),
    }
}

#[tokio::test]
async fn a_message_for_an_unknown_instance_holds_up_no_other() {
    let (store, _clock) = store_with_clock().await;
    send(&store, raised("ghost", "1")).await;
    send(&store, start("b")).await;
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.instance, "b");
}

#[tokio::test]
async fn a_message_that_overtook_its_start_is_delivered_with_it() {
    let (store, _clock) = store_with_clock().await;
    send(&store, raised("a", "1")).await;
    assert!(fetch(&store).await.is_none());
    send(&store, start("a")).await;
    let (item, _, attempts) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", "1"), start("a")]);
    assert_eq!(attempts, 1, "waiting for the start was no attempt");
}

#[tokio::test]
async fn a_message_whose_instance_never_starts_is_dead_lettered_after_the_grace_period() {
    let (store, clock) = store_with_clock().await;
    send(&store, raised("ghost", "1")).await;
    assert!(fetch(&store).await.is_none());
    clock.advance(Duration::from_secs(59));
    assert!(fetch(&store).await.is_none());
    assert!(admin(&store).list_dead_letters(9).await.unwrap().is_empty());
    assert_eq!(
        admin(&store)
            .get_queue_depths()
            .await
            .unwrap()
            .orchestrator_queue,
        1
    );
    clock.advance(Duration::from_secs(1));
    assert!(fetch(&store).await.is_none());
    let letters = admin(&store).list_dead_letters(9).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].instance_id.as_deref(), Some("ghost"));
    assert_eq!(
        serde_json::from_str::<WorkItem>(&letters[0].payload).unwrap(),
        raised("ghost", "1")
    );
}

#[tokio::test]
async fn a_queue_message_waits_for_its_start_as_a_signal_does() {
    let (store, clock) = store_with_clock().await;
    send(&store, queued("late")).await;
    send(&store, queued("ghost")).await;
    assert!(fetch(&store).await.is_none());
    clock.advance(Duration::from_secs(59));
    send(&store, start("late")).await;
    let (item, token, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![queued("late"), start("late")]);
    ack(&store, &token, 1, vec![started("late")], named()).await;
    clock.advance(Duration::from_secs(1));
    assert!(fetch(&store).await.is_none());
    let letters = admin(&store).list_dead_letters(9).await.unwrap();
    assert_eq!(letters[0].instance_id.as_deref(), Some("ghost"));
}

#[tokio::test]
async fn a_grace_period_without_end_never_ends() {
    let clock = HandClock::new();
    let options = SqliteOptions {
        clock: clock.clone(),
        unknown_instance_grace: Duration::MAX,
        ..SqliteOptions::default()
    };
    let store = SqliteProvider::new_in_memory_with_options(Some(options))
        .await
        .unwrap();
    send(&store, raised("a", "1")).await;
    assert!(fetch(&store).await.is_none());
    clock.advance(Duration::from_secs(60 * 60 * 24 * 365));
    assert!(fetch(&store).await.is_none());
    send(&store, start("a")).await;
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", "1"), start("a")]);
}

#[tokio::test]
async fn queue_messages_wait_for_a_start_that_is_only_delayed() {
    let (store, clock) = store_with_clock().await;
    store
        .enqueue_for_orchestrator(start("a"), Some(Duration::from_secs(10)))
        .await
        .unwrap();
    send(&store, queued("a")).await;
    assert!(fetch(&store).await.is_none());
    clock.advance(Duration::from_secs(10));
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![start("a"), queued("a")]);
}

#[tokio::test]
async fn a_damaged_message_is_dead_lettered_and_the_rest_of_the_batch_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    for data in ["1", "2"] {
        send(&store, raised("a", data)).await;
    }
    shell(&path)
        .execute(
            "UPDATE orchestrator_queue SET work_item = CAST(X'7BFF' AS TEXT) WHERE id = (SELECT MIN(id) FROM orchestrator_queue)",
            [],
        )
        .unwrap();
    let (item, token, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", "2")]);
    assert_eq!(admin(&store).list_dead_letters(9).await.unwrap().len(), 1);
    ack(&store, &token, 1, vec![], Default::default()).await;
}

#[tokio::test]
async fn a_start_that_does_not_decode_leaves_no_lease_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    send(&store, start("a")).await;
    shell(&path)
        .execute("UPDATE orchestrator_queue SET work_item = 'x'", [])
        .unwrap();
    send(&store, start("b")).await;
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.instance, "b");
    create(&store, "a").await;
}

#[tokio::test]
async fn claimed_messages_can_be_dead_lettered_by_position() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    for data in ["1", "2", "3"] {
        send(&store, raised("a", data)).await;
    }
    let (_, token, _) = fetch(&store).await.unwrap();
    assert!(
        store
            .dead_letter_messages(&token, &[1], "tried too often")
            .await
            .unwrap()
    );
    let letters = admin(&store).list_dead_letters(9).await.unwrap();
    assert_eq!(letters[0].reason, "tried too often");
    store
        .abandon_orchestration_item(&token, None, false)
        .await
        .unwrap();
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", "1"), raised("a", "3")]);
}
