//! Depths of the queues.

use duroxide_core::provider::QueueDepths;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

async fn depths<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> QueueDepths {
    bench.admin().get_queue_depths().await.expect("depths")
}

/// What is claimed does not wait.
pub async fn claimed_rows_are_not_counted_as_waiting<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("counted").await;
    bench.schedule(items::activity("counted", 2)).await;
    let turn = bench.turn_of("counted").await;
    bench.work().await;
    let claimed = depths(&bench).await;
    assert_eq!((claimed.orchestrator_queue, claimed.worker_queue), (0, 0));
    bench.commit(&turn, Commit::first()).await;
    assert_eq!(depths(&bench).await.orchestrator_queue, 0);
}

/// What was given back waits again.
pub async fn abandoned_rows_wait_again<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("counted").await;
    bench.schedule(items::activity("counted", 2)).await;
    let turn = bench.turn_of("counted").await;
    let work = bench.work().await;
    bench.abandon(&turn, None).await;
    bench.give_back(&work, None, false).await;
    let back = depths(&bench).await;
    assert_eq!((back.orchestrator_queue, back.worker_queue), (1, 1));
}

/// A timer that is not due is a timer, not a waiting message.
pub async fn a_timer_not_yet_due_counts_as_a_timer<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let hour = bench.now_ms() + 3_600_000;
    let first = Commit::first().message(items::timer("timed", 2, hour));
    bench.create_with("timed", first).await;
    let waiting = depths(&bench).await;
    assert_eq!((waiting.orchestrator_queue, waiting.timer_queue), (0, 1));
}
