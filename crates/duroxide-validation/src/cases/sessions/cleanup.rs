//! Sessions that no activity needs any more.

use std::time::Duration;

use super::queue;
use crate::ProviderFactory;
use crate::fixture::{Bench, items, session};

async fn cleanup(bench: &Bench<'_, dyn ProviderFactory + '_>) -> usize {
    let removed = bench.store.cleanup_orphaned_sessions(Duration::ZERO).await;
    removed.expect("a cleanup does not fail")
}

/// An expired session without activities is removed.
pub async fn test_cleanup_removes_expired_no_items(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let brief = session("anna", bench.brief());
    let work = bench.find_in(&brief, bench.lock).await.expect("it is free");
    bench.finish(&work).await;
    bench.outlive(bench.brief()).await;
    assert_eq!(cleanup(&bench).await, 1);
    assert_eq!(cleanup(&bench).await, 0, "it is gone");
}

/// An expired session with an activity still queued stays.
pub async fn test_cleanup_keeps_sessions_with_pending_items(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s"]).await;
    let brief = session("anna", bench.brief());
    let work = bench.find_in(&brief, bench.lock).await.expect("it is free");
    bench.finish(&work).await;
    bench.outlive(bench.brief()).await;
    assert_eq!(cleanup(&bench).await, 0);
}

/// A session with a valid lease stays.
pub async fn test_cleanup_keeps_active_sessions(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let work = bench.work_as("anna").await;
    bench.finish(&work).await;
    assert_eq!(cleanup(&bench).await, 0);
}

/// A removed session comes back with its next activity, for the first worker that asks.
pub async fn test_cleanup_then_new_item_recreates_session(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let brief = session("anna", bench.brief());
    let work = bench.find_in(&brief, bench.lock).await.expect("it is free");
    bench.finish(&work).await;
    bench.outlive(bench.brief()).await;
    assert_eq!(cleanup(&bench).await, 1);

    bench
        .schedule(items::session_activity("seated", 2, "s"))
        .await;
    assert_eq!(bench.work_as("bert").await.id(), 2);
    bench
        .schedule(items::session_activity("seated", 3, "s"))
        .await;
    assert!(bench.find_as("anna").await.is_none(), "bert owns it now");
}
