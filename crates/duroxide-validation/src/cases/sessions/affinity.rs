//! Who gets what.

use super::queue;
use crate::ProviderFactory;
use crate::fixture::{Bench, items};

async fn nothing_for(bench: &Bench<'_, dyn ProviderFactory + '_>, owner: &str) {
    if let Some(work) = bench.find_as(owner).await {
        panic!("nothing is for {owner}, but it got {:?}", work.item);
    }
}

/// An activity without a session goes to any worker, session owners included.
pub async fn test_non_session_items_fetchable_by_any_worker(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["", ""]).await;
    assert_eq!(bench.work_as("anna").await.id(), 1);
    assert_eq!(bench.work().await.id(), 2);
}

/// A session without an owner is claimed with its first activity, which comes back as it was.
pub async fn test_session_item_claimable_when_no_session(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let work = bench.work_as("anna").await;
    assert_eq!(work.item, items::session_activity("seated", 1, "s"));
}

/// The owner gets the session's next activity.
pub async fn test_session_affinity_same_worker(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s"]).await;
    let first = bench.work_as("anna").await;
    bench.finish(&first).await;
    assert_eq!(bench.work_as("anna").await.id(), 2);
}

/// No other owner gets an activity of the session.
pub async fn test_session_affinity_blocks_other_worker(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s"]).await;
    bench.work_as("anna").await;
    nothing_for(&bench, "bert").await;
}

/// Two sessions belong to two owners.
pub async fn test_different_sessions_different_workers(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "t", "s", "t"]).await;
    assert_eq!(bench.work_as("anna").await.id(), 1);
    assert_eq!(bench.work_as("bert").await.id(), 2);
    assert_eq!(bench.work_as("anna").await.id(), 3);
    assert_eq!(bench.work_as("bert").await.id(), 4);
}

/// A stranger passes over the session's activity and gets the plain one behind it.
pub async fn test_mixed_session_and_non_session_items(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s", ""]).await;
    bench.work_as("anna").await;
    assert_eq!(bench.work_as("bert").await.id(), 3);
}

/// Who takes no sessions sees only plain activities; a session owner sees the rest.
pub async fn test_none_session_skips_session_items(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "", "t"]).await;
    assert_eq!(bench.work().await.id(), 2);
    bench.no_work("the others are bound to sessions").await;
    assert_eq!(bench.work_as("anna").await.id(), 1);
    assert_eq!(bench.work_as("anna").await.id(), 3);
}

/// One owner may hold several sessions, and gets everything in order.
pub async fn test_some_session_returns_all_items(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "t", "", "u"]).await;
    for id in 1..=4 {
        assert_eq!(bench.work_as("anna").await.id(), id);
    }
    nothing_for(&bench, "anna").await;
}

/// The activities of a session come in order.
pub async fn test_session_items_processed_in_order(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s", "s"]).await;
    for id in 1..=3 {
        let work = bench.work_as("anna").await;
        assert_eq!(work.id(), id);
        bench.finish(&work).await;
    }
}

/// The owner of a session still gets plain activities.
pub async fn test_non_session_items_returned_with_session_config(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", ""]).await;
    assert_eq!(bench.work_as("anna").await.id(), 1);
    assert_eq!(bench.work_as("anna").await.id(), 2);
}

/// Everybody under one owner id shares the session; other ids do not.
pub async fn test_shared_worker_id_any_caller_can_fetch_owned_session(
    factory: &dyn ProviderFactory,
) {
    let bench = queue(factory, &["s", "s", "s"]).await;
    assert_eq!(bench.work_as("process-1").await.id(), 1);
    nothing_for(&bench, "process-2").await;
    assert_eq!(bench.work_as("process-1").await.id(), 2);
    assert_eq!(bench.work_as("process-1").await.id(), 3);
}

/// Of two owners that ask for one session one wins.
pub async fn test_concurrent_session_claim_only_one_wins(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s"]).await;
    let (anna, bert) = tokio::join!(bench.find_as("anna"), bench.find_as("bert"));
    let won = usize::from(anna.is_some()) + usize::from(bert.is_some());
    assert_eq!(won, 1, "one session has one owner");
    let (owner, other) = if anna.is_some() {
        ("anna", "bert")
    } else {
        ("bert", "anna")
    };
    nothing_for(&bench, other).await;
    assert_eq!(bench.work_as(owner).await.id(), 2);
}
