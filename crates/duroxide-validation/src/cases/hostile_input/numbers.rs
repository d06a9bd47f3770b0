//! Numbers at the edge.

use std::time::Duration;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Event ids may jump.
pub async fn event_ids_may_jump<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .event(9_999, kinds::activity_scheduled("B"))
        .event(100, kinds::activity_scheduled("A"));
    bench.create_with("jumps", first).await;
    let last = u64::from(u32::MAX) + 7;
    bench
        .nudge("jumps", Commit::to(1).event(last, kinds::completed("ok")))
        .await;
    let ids: Vec<u64> = bench
        .read("jumps")
        .await
        .iter()
        .map(|e| e.event_id)
        .collect();
    assert_eq!(
        ids,
        [1, 100, 9_999, last],
        "history is in the order of its ids"
    );
}

/// A delay without end hides a message and breaks nothing.
pub async fn an_endless_delay_saturates<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("endless").await;
    bench
        .send_after(items::signal("endless", "never"), Some(Duration::MAX))
        .await;
    bench.send(items::signal("endless", "now")).await;
    let turn = bench.turn_of("endless").await;
    assert_eq!(turn.item.messages, [items::signal("endless", "now")]);
    bench.abandon(&turn, Some(Duration::MAX)).await;
    bench.idle("both are delayed for ever").await;

    bench.schedule(items::activity("endless", 1)).await;
    let work = bench.work().await;
    bench.give_back(&work, Some(Duration::MAX), false).await;
    bench.no_work("it is delayed for ever").await;
}

/// A lease without end excludes others and can be committed.
pub async fn an_endless_lease_saturates<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("endless").await;
    bench.schedule(items::activity("endless", 1)).await;
    let turn = bench.claim_for(Duration::MAX).await.expect("it is ready");
    let work = bench
        .find_work_for(Duration::MAX)
        .await
        .expect("it is ready");
    bench.outlive(bench.lock).await;
    bench.idle("it is leased").await;
    bench.no_work("it is leased").await;
    bench
        .renew_work(&work, Duration::MAX)
        .await
        .expect("it is held");
    bench.commit(&turn, Commit::first()).await;
    bench.finish(&work).await;
}

/// A timer at the end of time waits, and holds nothing up.
pub async fn a_timer_at_the_end_of_time_waits<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .message(items::timer("patient", 2, u64::MAX))
        .message(items::signal("patient", "now"));
    bench.create_with("patient", first).await;
    let turn = bench.turn_of("patient").await;
    assert_eq!(turn.item.messages, [items::signal("patient", "now")]);
    bench.commit(&turn, Commit::to(1)).await;
    bench.idle("the timer is not due").await;
}

/// A delay of zero is no delay.
pub async fn a_delay_of_zero_is_none<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .send_after(items::start("prompt"), Some(Duration::ZERO))
        .await;
    let turn = bench.turn_of("prompt").await;
    bench.abandon(&turn, Some(Duration::ZERO)).await;
    bench.turn_of("prompt").await;
}
