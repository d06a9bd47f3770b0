//! Two handles on one store, as two processes hold them, with clocks that may disagree.

use std::time::Duration;

use duroxide_core::provider::TagFilter;

use crate::fixture::{Bench, Commit, claim_from, commit_to, items, work_from};
use crate::{ClockSkew, ProviderFactory};

const HOUR: Duration = Duration::from_secs(3_600);

/// What one handle leased the other does not get.
pub async fn two_handles_share_leases<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let other = factory.second_handle().await;
    bench.start("shared").await;
    bench.schedule(items::activity("shared", 1)).await;
    bench.turn_of("shared").await;
    bench.work().await;
    assert!(claim_from(&*other, bench.lock, None).await.is_none());
    let tags = TagFilter::DefaultOnly;
    assert!(work_from(&*other, bench.lock, None, &tags).await.is_none());

    bench.outlive(bench.lock).await;
    let taken = claim_from(&*other, bench.lock, None).await;
    assert_eq!(taken.expect("the lease is over").attempt, 2);
}

/// A commit through one handle is read through the other, and tokens are good on both.
pub async fn a_commit_is_seen_by_both_handles<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let other = factory.second_handle().await;
    bench.start("shared").await;
    let turn = bench.turn_of("shared").await;
    commit_to(&*other, &turn, Commit::first())
        .await
        .expect("the token is good");
    assert_eq!(
        bench.read("shared").await,
        other.read("shared").await.expect("readable")
    );
    assert!(
        bench.try_commit(&turn, Commit::first()).await.is_err(),
        "one token commits once"
    );
    other
        .enqueue_for_orchestrator(items::signal("shared", "go"), None)
        .await
        .expect("a message can be enqueued");
    bench.turn_of("shared").await;
}

async fn takes_nothing_early<F: ProviderFactory + ?Sized>(factory: &F, skew: ClockSkew) {
    let bench = Bench::open(factory).await;
    let other = factory.skewed_handle(skew).await;
    bench.create("shared").await;
    bench.send(items::signal("shared", "go")).await;
    bench.schedule(items::activity("shared", 1)).await;
    let turn = bench.turn_of("shared").await;
    let work = bench.work().await;
    assert!(
        claim_from(&*other, bench.lock, None).await.is_none(),
        "{skew:?}"
    );
    let tags = TagFilter::DefaultOnly;
    assert!(
        work_from(&*other, bench.lock, None, &tags).await.is_none(),
        "{skew:?}"
    );
    bench.commit(&turn, Commit::to(1)).await;
    bench.finish(&work).await;
}

/// A machine whose clock is ahead takes nothing over before its time.
pub async fn a_fast_machine_takes_nothing_early<F: ProviderFactory + ?Sized>(factory: &F) {
    takes_nothing_early(factory, ClockSkew::Ahead(HOUR)).await;
}

/// A machine whose clock is behind takes nothing over before its time.
pub async fn a_slow_machine_takes_nothing_early<F: ProviderFactory + ?Sized>(factory: &F) {
    takes_nothing_early(factory, ClockSkew::Behind(HOUR)).await;
}

/// A lease taken by a machine whose clock is behind is worth its full length.
pub async fn a_lease_of_a_slow_machine_holds<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let slow = factory.skewed_handle(ClockSkew::Behind(HOUR)).await;
    bench.start("shared").await;
    let turn = claim_from(&*slow, bench.lock, None)
        .await
        .expect("it is ready");
    bench.idle("it is leased").await;
    commit_to(&*slow, &turn, Commit::first())
        .await
        .expect("the lease holds");
}

/// A lease taken by a machine whose clock is ahead ends in time.
pub async fn a_lease_of_a_fast_machine_ends<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let fast = factory.skewed_handle(ClockSkew::Ahead(HOUR)).await;
    bench.start("shared").await;
    claim_from(&*fast, bench.lock, None)
        .await
        .expect("it is ready");
    bench.outlive(bench.lock).await;
    bench.turn_of("shared").await;
}

/// A delayed message is not delivered early because the clock of a node is ahead.
pub async fn a_fast_machine_sees_no_timer_early<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let fast = factory.skewed_handle(ClockSkew::Ahead(HOUR)).await;
    bench.create("shared").await;
    bench
        .send_after(items::signal("shared", "later"), Some(HOUR / 2))
        .await;
    assert!(claim_from(&*fast, bench.lock, None).await.is_none());
}
