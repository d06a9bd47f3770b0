//! Executions of one instance keep histories of their own.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Two executions, committed without metadata, do not mix; `read` shows the second.
pub async fn test_execution_isolation<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::to(1)
        .event(1, kinds::started())
        .and(kinds::activity_scheduled("A"))
        .and(kinds::continued("next"));
    bench.create_with("twofold", first).await;
    let second = Commit::to(2)
        .event(1, kinds::started())
        .and(kinds::activity_scheduled("B"));
    bench.next_execution("twofold", second).await;

    assert_eq!(bench.read_execution("twofold", 1).await.len(), 3);
    let current = bench.read_execution("twofold", 2).await;
    assert_eq!(current.len(), 2);
    assert!(current.iter().all(|e| e.execution_id == 2));
    assert_eq!(bench.read("twofold").await, current);
}

/// `read` shows the latest execution, `read_with_execution` any.
pub async fn test_latest_execution_detection<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("latest", Commit::first().continued("next"))
        .await;
    assert_eq!(bench.read("latest").await.len(), 2);
    bench.next_execution("latest", Commit::first_of(2)).await;

    assert_eq!(bench.read("latest").await[0].execution_id, 2);
    assert_eq!(bench.read_execution("latest", 1).await[0].execution_id, 1);
    assert_eq!(bench.read_execution("latest", 1).await.len(), 2);
}

/// A fetch tells the current execution; a commit with the next number creates it.
pub async fn test_execution_id_sequencing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("counted", Commit::first().continued("next"))
        .await;

    bench.send(items::next_execution("counted")).await;
    let turn = bench.turn_of("counted").await;
    assert_eq!(
        turn.item.execution_id, 1,
        "the next one is not committed yet"
    );
    bench.commit(&turn, Commit::first_of(2)).await;

    bench.send(items::signal("counted", "go")).await;
    let turn = bench.turn_of("counted").await;
    assert_eq!(turn.item.execution_id, 2);
    assert!(turn.item.history.iter().all(|e| e.execution_id == 2));
}

/// A continue-as-new message committed as execution 2 creates that execution and leaves the first as it was.
pub async fn test_continue_as_new_creates_new_execution<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let end = Commit::first()
        .continued("next")
        .message(items::next_execution("renewed"));
    bench.create_with("renewed", end).await;
    let before = bench.read_execution("renewed", 1).await;

    let turn = bench.turn_of("renewed").await;
    assert_eq!(turn.item.messages, [items::next_execution("renewed")]);
    bench.commit(&turn, Commit::first_of(2)).await;

    assert_eq!(bench.read_execution("renewed", 1).await, before);
    assert_eq!(bench.read_execution("renewed", 2).await.len(), 1);
}

/// Three executions keep three histories.
pub async fn test_execution_history_persistence<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("long", Commit::first().continued("2"))
        .await;
    let second = Commit::first_of(2)
        .and(kinds::activity_scheduled("A"))
        .continued("3");
    bench.next_execution("long", second).await;
    bench.next_execution("long", Commit::first_of(3)).await;

    for (execution, events) in [(1, 2), (2, 3), (3, 1)] {
        let history = bench.read_execution("long", execution).await;
        assert_eq!(history.len(), events, "execution {execution}");
        let ids: Vec<u64> = history.iter().map(|e| e.event_id).collect();
        assert_eq!(ids, (1..=events as u64).collect::<Vec<_>>());
    }
    assert_eq!(bench.read("long").await[0].execution_id, 3);
}
