//! A commit is all or nothing, and only the holder of the lease has one. In: a factory of stores. Out: a panic where a
//! store does otherwise.

use std::sync::Arc;

use duroxide_core::EventKind;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, commit_to, items, kinds};

/// A commit that fails changes nothing and leaves the instance locked.
pub async fn test_atomicity_failure_rollback<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::to(1)
        .event(1, kinds::started())
        .and(kinds::activity_scheduled("A"));
    bench.create_with("whole", first).await;

    bench.send(items::signal("whole", "go")).await;
    let turn = bench.turn_of("whole").await;
    let clashing = Commit::to(1)
        .event(3, kinds::activity_scheduled("B"))
        .event(1, kinds::activity_scheduled("C"))
        .work(items::activity("whole", 3))
        .message(items::signal("whole", "echo"))
        .status("Completed", Some("never"));
    let error = bench.try_commit(&turn, clashing).await;
    assert!(error.is_err(), "event 1 exists already");

    let ids: Vec<u64> = bench
        .read("whole")
        .await
        .iter()
        .map(|e| e.event_id)
        .collect();
    assert_eq!(ids, [1, 2], "no event of the failed commit stays");
    bench
        .no_work("no activity of the failed commit stays")
        .await;
    bench
        .idle("the instance stays locked after a failed commit")
        .await;

    bench.outlive(bench.lock).await;
    let again = bench.turn_of("whole").await;
    assert_eq!(items::kinds_of(&again.item.messages), ["ExternalRaised"]);
}

/// Events, activities, a due timer and a message of one commit are all there, in the order they were given.
pub async fn test_multi_operation_atomic_ack<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let mut commit = Commit::to(1).event(1, kinds::started());
    for name in ["A", "B", "C"] {
        commit = commit.and(kinds::activity_scheduled(name));
    }
    commit = commit.and(EventKind::TimerCreated { fire_at_ms: 1 });
    for id in 2..=4 {
        commit = commit.work(items::activity("many", id));
    }
    commit = commit
        .message(items::timer("many", 5, 1))
        .message(items::signal("many", "echo"));
    bench.create_with("many", commit).await;

    assert_eq!(bench.read("many").await.len(), 5);
    for id in 2..=4 {
        let work = bench.work().await;
        assert_eq!(work.id(), id);
        bench.finish_silently(&work).await;
    }
    bench.no_work("three activities were scheduled").await;
    let turn = bench.turn_of("many").await;
    assert_eq!(
        items::kinds_of(&turn.item.messages),
        ["TimerFired", "ExternalRaised"]
    );
}

/// A commit with another holder's token does not free the instance; only time does.
pub async fn test_lock_released_only_on_successful_ack<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("held").await;
    let mut turn = bench.turn_of("held").await;

    turn.token = "not-the-token".into();
    assert!(bench.try_commit(&turn, Commit::first()).await.is_err());
    bench
        .idle("a rejected commit does not release the lease")
        .await;
    assert_eq!(bench.read("held").await, Vec::new());

    bench.outlive(bench.lock).await;
    let again = bench.turn_of("held").await;
    bench.commit(&again, Commit::first()).await;
    bench.send(items::signal("held", "go")).await;
    bench.turn_of("held").await;
}

/// Of two commits racing with one token exactly one succeeds.
pub async fn test_concurrent_ack_prevention<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("raced").await;
    let turn = Arc::new(bench.turn_of("raced").await);

    let attempt = |id| {
        let (store, turn) = (Arc::clone(&bench.store), Arc::clone(&turn));
        let commit = Commit::to(1).event(id, kinds::started());
        tokio::spawn(async move { commit_to(&*store, &turn, commit).await })
    };
    let (one, two) = tokio::join!(attempt(1), attempt(2));
    let answers = [one.expect("no panic"), two.expect("no panic")];
    let won = answers.iter().filter(|a| a.is_ok()).count();
    assert_eq!(won, 1, "one token commits once: {answers:?}");
    assert_eq!(bench.read("raced").await.len(), 1);
}
