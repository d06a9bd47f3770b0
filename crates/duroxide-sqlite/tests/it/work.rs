//! Claiming and completing activities.

use std::time::Duration;

use duroxide_core::provider::{
    Provider, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkClaim, WorkItem,
};

use crate::support::*;

fn with(instance: &str, id: u64, session: Option<&str>, tag: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "Act".to_owned(),
        input: "{}".to_owned(),
        session_id: session.map(str::to_owned),
        tag: tag.map(str::to_owned),
    }
}

fn owner(id: &str) -> SessionFetchConfig {
    SessionFetchConfig {
        owner_id: id.to_owned(),
        lock_timeout: Duration::from_secs(30),
    }
}

fn claim(max: usize, session: Option<&str>, tag_filter: TagFilter) -> WorkClaim {
    WorkClaim {
        session: session.map(owner),
        tag_filter,
        ..WorkClaim::new(max, LEASE, NO_WAIT)
    }
}

#[tokio::test]
async fn activities_are_claimed_oldest_first_also_after_a_lease_ran_out() {
    let (store, clock) = store_with_clock().await;
    for id in 1..=3 {
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
    }
    let (first, token, _) = fetch_work(&store).await.unwrap();
    assert_eq!(first, activity("a", 1));
    clock.advance(LEASE);
    assert!(store.ack_work_item(&token, None).await.is_err(), "expired");
    let claimed = store
        .claim_work(claim(9, None, TagFilter::DefaultOnly))
        .await
        .unwrap();
    let order: Vec<_> = claimed
        .iter()
        .map(|work| (work.item.clone(), work.attempt_count))
        .collect();
    assert_eq!(
        order,
        vec![
            (activity("a", 1), 2),
            (activity("a", 2), 1),
            (activity("a", 3), 1)
        ]
    );
}

#[tokio::test]
async fn a_completion_replaces_its_activity_in_one_step() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    store.enqueue_for_worker(activity("a", 2)).await.unwrap();
    let (_, token, _) = fetch_work(&store).await.unwrap();
    let wrong = store.ack_work_item(&token, Some(start("a"))).await;
    assert!(!wrong.unwrap_err().is_retryable());
    store
        .ack_work_item(&token, Some(completed("a", 2)))
        .await
        .unwrap();
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![completed("a", 2)]);
    let again = store.ack_work_item(&token, None).await.unwrap_err();
    assert!(!again.is_retryable());
    assert!(again.message.contains("Invalid lock token"));
}

#[tokio::test]
async fn a_cancelled_activity_is_taken_from_its_worker() {
    let (store, clock) = store_with_clock().await;
    create(&store, "a").await;
    for id in [2, 3] {
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
    }
    let held = store
        .claim_work(claim(2, None, TagFilter::Any))
        .await
        .unwrap();
    let tokens: Vec<String> = held.iter().map(|work| work.lock_token.clone()).collect();
    let lost = store.lost_work_items(&tokens).await.unwrap().unwrap();
    assert!(lost.is_empty());

    send(&store, raised("a", "x")).await;
    let (_, turn, _) = fetch(&store).await.unwrap();
    let cancelled = ScheduledActivityIdentifier {
        instance: "a".to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    commit(
        &store,
        &turn,
        Decided {
            cancelled: vec![cancelled],
            ..Decided::default()
        },
    )
    .await
    .unwrap();
    let lost = store.lost_work_items(&tokens).await.unwrap().unwrap();
    assert_eq!(lost, vec![tokens[0].clone()]);
    assert!(store.renew_work_item_lock(&tokens[0], LEASE).await.is_err());
    store.renew_work_item_lock(&tokens[1], LEASE).await.unwrap();
    clock.advance(LEASE);
    let lost = store.lost_work_items(&tokens).await.unwrap().unwrap();
    assert_eq!(lost, tokens);
}

#[tokio::test]
async fn items_of_other_tags_and_sessions_do_not_hide_the_ones_behind_them() {
    let (store, _clock) = store_with_clock().await;
    for id in 1..=50 {
        store
            .enqueue_for_worker(with("a", id, None, Some("gpu")))
            .await
            .unwrap();
        store
            .enqueue_for_worker(with("a", 100 + id, Some("busy"), None))
            .await
            .unwrap();
    }
    let held = store
        .claim_work(claim(1, Some("other"), TagFilter::DefaultOnly))
        .await
        .unwrap();
    assert_eq!(held.len(), 1, "the session belongs to another worker now");
    store.enqueue_for_worker(activity("a", 900)).await.unwrap();
    let mine = store
        .claim_work(claim(9, Some("me"), TagFilter::DefaultOnly))
        .await
        .unwrap();
    assert_eq!(mine.len(), 1);
    assert_eq!(mine[0].item, activity("a", 900));
    let any = store
        .claim_work(claim(99, None, TagFilter::Any))
        .await
        .unwrap();
    assert_eq!(any.len(), 50);
}

#[tokio::test]
async fn a_message_that_is_no_activity_is_refused_by_the_worker_queue() {
    let (store, _clock) = store_with_clock().await;
    let error = store.enqueue_for_worker(start("a")).await.unwrap_err();
    assert!(!error.is_retryable());
    assert_eq!(error.operation, "enqueue_for_worker");
    let error = store
        .enqueue_for_orchestrator(activity("a", 1), None)
        .await
        .unwrap_err();
    assert!(error.message.contains("Invalid work item type"));
}

#[tokio::test]
async fn a_damaged_activity_is_dead_lettered_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    for id in 1..=2 {
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
    }
    shell(&path)
        .execute(
            "UPDATE worker_queue SET work_item = '{\"FromTheFuture\":{}}' WHERE activity_id = 1",
            [],
        )
        .unwrap();
    let (item, _, _) = fetch_work(&store).await.unwrap();
    assert_eq!(item, activity("a", 2));
    let letters = admin(&store).list_dead_letters(10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].queue, "worker");
    assert_eq!(letters[0].payload, "{\"FromTheFuture\":{}}");
    assert!(letters[0].reason.contains("does not decode"));
    assert!(
        admin(&store)
            .delete_dead_letter(letters[0].id)
            .await
            .unwrap()
    );
    assert!(
        !admin(&store)
            .delete_dead_letter(letters[0].id)
            .await
            .unwrap()
    );
}
