//! A clock that is set back: what was ready stays ready, what has a length keeps it.

use std::time::Duration;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

const STEP: Duration = Duration::from_secs(3_600);

async fn set_back<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) {
    let clock = bench.factory.clock().expect("the case requires it");
    assert!(clock.set_back(STEP), "the factory said that it can");
}

/// Messages and activities that waited can be claimed after the clock was set back, through either door.
pub async fn what_was_ready_stays_ready<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("running").await;
    bench.send(items::signal("running", "before")).await;
    bench.start("new").await;
    for id in 1..=2 {
        bench.schedule(items::activity("running", id)).await;
    }
    set_back(&bench).await;
    bench.turn_of("running").await;
    bench.claimed("new").await;
    assert_eq!(bench.work().await.id(), 1);
    assert_eq!(bench.claim_work(bench.ask_work(1)).await.len(), 1);
}

/// What comes after the step is delivered together with what came before it, in order.
pub async fn newcomers_are_delivered_after_a_step_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("running").await;
    bench.send(items::signal("running", "before")).await;
    set_back(&bench).await;
    bench.send(items::signal("running", "after")).await;
    let turn = bench.turn_of("running").await;
    let expected = [
        items::signal("running", "before"),
        items::signal("running", "after"),
    ];
    assert_eq!(turn.item.messages, expected);
    bench.commit(&turn, Commit::to(1)).await;
}

/// What was given back before the step can be claimed after it.
pub async fn what_was_given_back_stays_ready<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("new").await;
    bench.schedule(items::activity("new", 1)).await;
    let turn = bench.turn_of("new").await;
    let work = bench.work().await;
    bench.abandon(&turn, None).await;
    bench.give_back(&work, None, false).await;
    set_back(&bench).await;
    assert_eq!(bench.turn_of("new").await.attempt, 2);
    assert_eq!(bench.work().await.attempt, 2);
}

/// A timer that a turn sets after the step fires when its length has passed, though its time was once reached.
pub async fn a_timer_set_after_a_step_back_is_not_early<F: ProviderFactory + ?Sized>(factory: &F) {
    let length = Duration::from_secs(600);
    let bench = Bench::open(factory).await;
    bench.create("waiting").await;
    bench.send(items::signal("waiting", "go")).await;
    set_back(&bench).await;
    // The engine reads the clock that was set back.
    let fire_at_ms = bench.now_ms() + u64::try_from(length.as_millis()).expect("ten minutes");
    let timer = items::timer("waiting", 2, fire_at_ms);
    bench
        .advance("waiting", Commit::to(1).message(timer.clone()))
        .await;
    bench.idle("the timer has just been set").await;
    bench.outlive(length).await;
    let turn = bench.turn_of("waiting").await;
    assert_eq!(turn.item.messages, [timer]);
}

/// Leases that were taken before the step end after their length, not when the clock shows their end.
pub async fn a_lease_taken_before_a_step_back_keeps_its_length<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("held").await;
    bench.schedule(items::activity("held", 1)).await;
    let session = items::session_activity("held", 2, "desk");
    bench.schedule(session).await;
    bench.turn_of("held").await;
    assert_eq!(bench.work_as("one").await.id(), 1);
    assert_eq!(bench.work_as("one").await.id(), 2);
    set_back(&bench).await;
    bench.idle("it is leased").await;
    bench.no_work("they are leased").await;
    bench.outlive(bench.lock).await;
    assert_eq!(bench.turn_of("held").await.attempt, 2);
    for id in 1..=2 {
        let work = bench.work_as("two").await;
        assert_eq!((work.id(), work.attempt), (id, 2));
    }
}
