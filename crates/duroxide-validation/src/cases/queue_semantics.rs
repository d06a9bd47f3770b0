//! Order, visibility and delivery on both queues.

use std::time::Duration;

use duroxide_core::provider::ScheduledActivityIdentifier;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Five activities come in the order they were enqueued.
pub async fn test_worker_queue_fifo_ordering<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in 1..=5 {
        bench.schedule(items::activity("fifo", id)).await;
    }
    for id in 1..=5 {
        assert_eq!(bench.work().await.id(), id);
    }
    bench.no_work("there were five").await;
}

/// A claimed activity is hidden but still there; acked, it is gone.
pub async fn test_worker_peek_lock_semantics<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("peeked", 1)).await;
    bench.work().await;
    bench.no_work("it is claimed").await;

    bench.outlive(bench.lock).await;
    let work = bench.work().await;
    bench.finish(&work).await;
    bench.outlive(bench.lock).await;
    bench.no_work("it was acked").await;
}

/// An ack removes the activity and delivers its completion once, also to an instance without metadata.
pub async fn test_worker_ack_atomicity<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("acked", Commit::to(1).event(1, kinds::started()))
        .await;
    bench.schedule(items::activity("acked", 1)).await;
    let work = bench.work().await;
    bench.finish(&work).await;

    bench.no_work("the activity is gone").await;
    let turn = bench.turn_of("acked").await;
    assert_eq!(turn.item.messages, [items::activity_done("acked", 1)]);
    bench.commit(&turn, Commit::to(1)).await;
    bench.idle("one completion").await;
}

/// A timer enqueued with a delay is hidden until the delay has passed.
pub async fn test_timer_delayed_visibility<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("timed").await;
    let delay = bench.lock;
    let due = bench.now_ms() + u64::try_from(delay.as_millis()).expect("a lease is short");
    bench
        .send_after(items::timer("timed", 2, due), Some(delay))
        .await;
    bench.idle("the timer is not due").await;

    bench.outlive(delay).await;
    let turn = bench.turn_of("timed").await;
    assert_eq!(turn.item.messages, [items::timer("timed", 2, due)]);
}

/// An activity that was never acked is handed out again after its lease.
pub async fn test_lost_lock_token_handling<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("lost", 1)).await;
    let lost = bench.work().await;
    bench.no_work("it is claimed").await;

    bench.outlive(bench.lock).await;
    let again = bench.work().await;
    assert_eq!(again.item, lost.item);
    assert_ne!(again.token, lost.token);
}

/// A new activity can be claimed at once.
pub async fn test_worker_item_immediate_visibility<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("now", 1)).await;
    assert_eq!(bench.work().await.id(), 1);
}

/// A delayed activity is passed over in favour of the next, and comes after its delay.
pub async fn test_worker_delayed_visibility_skips_future_items<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("skips", 1)).await;
    let first = bench.work().await;
    bench.give_back(&first, Some(bench.lock), false).await;
    bench.schedule(items::activity("skips", 2)).await;

    let next = bench.find_work_for(Duration::from_secs(600)).await;
    assert_eq!(next.expect("the second is visible").id(), 2);
    bench.no_work("the first is delayed").await;
    bench.outlive(bench.lock).await;
    assert_eq!(bench.work().await.id(), 1);
}

/// Queue messages for an instance that never starts are consumed; for a known one they are delivered.
pub async fn test_orphan_queue_messages_dropped<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.send(items::queue_message("nobody", "a")).await;
    bench.send(items::queue_message("nobody", "b")).await;
    bench.idle("there is no such instance").await;
    let grace = factory
        .unknown_instance_grace()
        .expect("the case requires it");
    bench.outlive(grace).await;
    bench.idle("there is still no such instance").await;

    bench.start("nobody").await;
    let turn = bench.turn_of("nobody").await;
    assert_eq!(
        items::kinds_of(&turn.item.messages),
        ["StartOrchestration"],
        "the early messages were consumed, and no lease stayed behind"
    );
    bench.commit(&turn, Commit::first()).await;

    bench.send(items::queue_message("nobody", "c")).await;
    let turn = bench.turn_of("nobody").await;
    assert_eq!(turn.item.messages, [items::queue_message("nobody", "c")]);
}

/// Whether an activity was ever claimed: not before, and ever after; or the store cannot tell.
pub async fn a_claimed_activity_is_told<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .work(items::activity("asked", 2))
        .work(items::activity("asked", 3));
    bench.create_with("asked", first).await;
    let claimed = async |activity_id| {
        let activity = ScheduledActivityIdentifier {
            instance: "asked".to_owned(),
            execution_id: 1,
            activity_id,
        };
        let answer = bench.store.activity_claimed(&activity).await;
        answer.expect("an answer")
    };
    let Some(before) = claimed(2).await else {
        return;
    };
    assert!(!before, "nobody claimed it");
    let work = bench.work().await;
    assert_eq!(work.id(), 2);
    assert_eq!(
        (claimed(2).await, claimed(3).await),
        (Some(true), Some(false))
    );
    bench.give_back(&work, None, true).await;
    let work = bench.work().await;
    bench.finish(&work).await;
    assert_eq!(claimed(2).await, Some(true), "it is not queued any more");
}
