//! A commit takes activities away, claimed or not; their holders notice at the next call.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Work, items};

/// Creates `owner` with activities 2, 3, … of this number.
async fn with_activities<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, count: u64) {
    let mut first = Commit::first();
    for id in 2..2 + count {
        first = first.work(items::activity("owner", id));
    }
    bench.create_with("owner", first).await;
}

async fn claimed_then_cancelled<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Work {
    with_activities(bench, 1).await;
    let work = bench.work().await;
    bench.nudge("owner", Commit::to(1).cancel("owner", 2)).await;
    work
}

/// An ack without a completion removes the activity and sends nothing.
pub async fn test_ack_work_item_none_deletes_without_enqueue<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    with_activities(&bench, 1).await;
    let work = bench.work().await;
    bench.finish_silently(&work).await;
    bench.no_work("it was acked").await;
    bench.idle("nothing was sent").await;
}

/// Cancelled activities vanish from the queue, the others stay.
pub async fn test_cancelled_activities_deleted_from_worker_queue<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    with_activities(&bench, 3).await;
    let cancel = Commit::to(1).cancel("owner", 2).cancel("owner", 4);
    bench.nudge("owner", cancel).await;
    assert_eq!(bench.work().await.id(), 3);
    bench.no_work("the two others were cancelled").await;
}

/// The ack of a cancelled activity fails for good and delivers nothing.
pub async fn test_ack_work_item_fails_when_entry_deleted<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let work = claimed_then_cancelled(&bench).await;
    let done = items::activity_done("owner", 2);
    let error = bench.try_finish(&work, Some(done)).await;
    let error = error.expect_err("the activity is gone");
    assert!(!error.is_retryable(), "{error}");
    bench.idle("no completion arrives").await;
}

/// The renewal of a cancelled activity fails: this is how its worker learns of it.
pub async fn test_renew_fails_when_entry_deleted<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let work = claimed_then_cancelled(&bench).await;
    let error = bench.renew_work(&work, bench.lock).await;
    assert!(!error.expect_err("the activity is gone").is_retryable());
}

/// Cancelling what is not there is fine.
pub async fn test_cancelling_nonexistent_activities_is_idempotent<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    with_activities(&bench, 1).await;
    let cancel = Commit::to(1)
        .cancel("owner", 77)
        .cancel("nobody", 2)
        .cancel("owner", 77);
    bench.nudge("owner", cancel).await;
    assert_eq!(bench.work().await.id(), 2, "nothing else was touched");
}

/// Five activities are cancelled in one commit.
pub async fn test_batch_cancellation_deletes_multiple_activities<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    with_activities(&bench, 5).await;
    let mut cancel = Commit::to(1);
    for id in 2..7 {
        cancel = cancel.cancel("owner", id);
    }
    bench.nudge("owner", cancel).await;
    bench.no_work("all were cancelled").await;
}

/// An activity scheduled and cancelled in one commit never exists; its sibling does.
pub async fn test_same_activity_in_worker_items_and_cancelled_is_noop<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .work(items::activity("owner", 2))
        .work(items::activity("owner", 3))
        .cancel("owner", 2);
    bench.create_with("owner", first).await;
    assert_eq!(bench.work().await.id(), 3);
    bench
        .no_work("the other was cancelled as it was scheduled")
        .await;
}

/// What is left of a forcefully deleted instance can be claimed and acked without harm.
pub async fn test_orphan_activity_after_instance_force_deletion<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    with_activities(&bench, 2).await;
    let held = bench.work().await;
    let deleted = bench.admin().delete_instance("owner", true).await;
    assert_eq!(deleted.expect("forced").instances_deleted, 1);

    bench.no_work("its waiting activity went with it").await;
    let done = items::activity_done("owner", held.id());
    let late = bench.try_finish(&held, Some(done)).await;
    assert!(late.is_err(), "its claimed activity went with it");
    bench.idle("no completion reaches a deleted instance").await;
}
