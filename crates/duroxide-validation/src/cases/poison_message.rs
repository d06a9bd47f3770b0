//! Attempts are counted per message, at claim time.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

/// The first fetch of a message is attempt 1.
pub async fn orchestration_attempt_count_starts_at_one(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.start("counted").await;
    assert_eq!(bench.turn().await.attempt, 1);
}

/// Each further fetch counts one more.
pub async fn orchestration_attempt_count_increments_on_refetch(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.start("counted").await;
    for attempt in 1..=3 {
        let turn = bench.turn_of("counted").await;
        assert_eq!(turn.attempt, attempt);
        bench.abandon(&turn, None).await;
    }
}

/// The first fetch of an activity is attempt 1.
pub async fn worker_attempt_count_starts_at_one(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("counted", 1)).await;
    assert_eq!(bench.work().await.attempt, 1);
}

/// A lease that ran out counts as an attempt.
pub async fn worker_attempt_count_increments_on_lock_expiry(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("counted", 1)).await;
    assert_eq!(bench.work().await.attempt, 1);
    bench.outlive(bench.lock).await;
    assert_eq!(bench.work().await.attempt, 2);
}

/// Two activities count apart.
pub async fn attempt_count_is_per_message(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("counted", 1)).await;
    bench.schedule(items::activity("counted", 2)).await;
    assert_eq!(bench.work().await.attempt, 1);
    assert_eq!(bench.work().await.attempt, 1);
}

/// An activity given back uncounted has the attempt it had.
pub async fn abandon_work_item_ignore_attempt_decrements(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("counted", 1)).await;
    let first = bench.work().await;
    assert_eq!(first.attempt, 1);
    bench.give_back(&first, None, false).await;
    let second = bench.work().await;
    assert_eq!(second.attempt, 2);
    bench.give_back(&second, None, true).await;
    assert_eq!(bench.work().await.attempt, 2);
}

/// An instance given back uncounted has the attempt it had.
pub async fn abandon_orchestration_item_ignore_attempt_decrements(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.start("counted").await;
    let first = bench.turn().await;
    assert_eq!(first.attempt, 1);
    bench.abandon(&first, None).await;
    let second = bench.turn().await;
    assert_eq!(second.attempt, 2);
    bench.abandon_uncounted(&second).await;
    assert_eq!(bench.turn().await.attempt, 2);
}

/// However often it is given back uncounted, the next fetch is attempt 1.
pub async fn ignore_attempt_never_goes_negative(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("counted", 1)).await;
    bench.start("counted").await;
    for _ in 0..3 {
        let work = bench.work().await;
        assert_eq!(work.attempt, 1);
        bench.give_back(&work, None, true).await;
        let turn = bench.turn().await;
        assert_eq!(turn.attempt, 1);
        bench.abandon_uncounted(&turn).await;
    }
}

/// A batch reports the largest attempt of its messages.
pub async fn max_attempt_count_across_message_batch(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.start("batch").await;
    for _ in 0..2 {
        let turn = bench.turn().await;
        bench.abandon(&turn, None).await;
    }
    bench.send(items::activity_done("batch", 1)).await;
    let turn = bench.turn_of("batch").await;
    assert_eq!(turn.item.messages.len(), 2);
    assert_eq!(turn.attempt, 3);
}

/// Giving back a visible message uncounted does not touch a hidden start.
pub async fn orchestration_ignore_attempt_preserves_hidden_start(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.create("hidden").await;
    bench.send(items::next_execution("hidden")).await;
    let first = bench.turn_of("hidden").await;
    bench.abandon(&first, None).await;
    let second = bench.turn_of("hidden").await;
    assert_eq!(second.attempt, 2);
    bench.abandon(&second, Some(bench.lock)).await;

    bench.send(items::signal("hidden", "go")).await;
    let visible = bench.turn_of("hidden").await;
    assert_eq!(visible.attempt, 1, "only the signal is visible");
    bench.abandon_uncounted(&visible).await;

    bench.outlive(bench.lock).await;
    let both = bench.turn_of("hidden").await;
    assert_eq!(both.item.messages.len(), 2);
    assert_eq!(both.attempt, 3, "the start kept its two attempts");
}

/// Giving back with a delay hides only what was claimed; what came later stays visible.
pub async fn orchestration_delayed_abandon_preserves_unlocked_rows(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench.create("partly").await;
    bench.send(items::signal("partly", "first")).await;
    let turn = bench.turn_of("partly").await;
    bench.send(items::signal("partly", "second")).await;
    bench.abandon(&turn, Some(bench.lock * 2)).await;

    let next = bench.turn_of("partly").await;
    assert_eq!(next.item.messages, [items::signal("partly", "second")]);
    assert_eq!(next.attempt, 1);
    bench.commit(&next, Commit::to(1)).await;
    bench.idle("the first is still delayed").await;
}
