//! The state of the instance does not matter to the worker queue.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

async fn is_delivered_after<F: ProviderFactory + ?Sized>(factory: &F, first: Commit) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("owner", first.work(items::activity("owner", 2)))
        .await;
    let work = bench.work().await;
    assert_eq!(work.item, items::activity("owner", 2));
    bench.finish(&work).await;
}

/// The activity of a running instance is handed out.
pub async fn test_fetch_returns_running_state_for_active_orchestration<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    is_delivered_after(factory, Commit::first()).await;
}

/// The activity of an instance that completed in the same commit is handed out.
pub async fn test_fetch_returns_terminal_state_when_orchestration_completed<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    is_delivered_after(factory, Commit::first().completed("ok")).await;
}

/// The activity of an instance that failed in the same commit is handed out.
pub async fn test_fetch_returns_terminal_state_when_orchestration_failed<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    is_delivered_after(factory, Commit::first().failed("no")).await;
}

/// The activity of an instance that continued as new in the same commit is handed out.
pub async fn test_fetch_returns_terminal_state_when_orchestration_continued_as_new<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    is_delivered_after(factory, Commit::first().continued("next")).await;
}

/// The activity of an instance that does not exist is handed out.
pub async fn test_fetch_returns_missing_state_when_instance_deleted<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("nobody", 1)).await;
    assert_eq!(bench.work().await.item, items::activity("nobody", 1));
}

/// The activity of a running instance can be renewed.
pub async fn test_renew_returns_running_when_orchestration_active<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("owner", Commit::first().work(items::activity("owner", 2)))
        .await;
    let work = bench.work().await;
    bench
        .renew_work(&work, bench.lock)
        .await
        .expect("it is held");
}

/// The activity of an instance that completed meanwhile can be renewed.
pub async fn test_renew_returns_terminal_when_orchestration_completed<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("owner", Commit::first().work(items::activity("owner", 2)))
        .await;
    let work = bench.work().await;
    let end = Commit::to(1).status("Completed", Some("ok"));
    bench.nudge("owner", end).await;
    bench
        .renew_work(&work, bench.lock)
        .await
        .expect("it is held");
}

/// The activity of an instance that does not exist can be renewed.
pub async fn test_renew_returns_missing_when_instance_deleted<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("nobody", 1)).await;
    let work = bench.work().await;
    bench
        .renew_work(&work, bench.lock)
        .await
        .expect("it is held");
}
