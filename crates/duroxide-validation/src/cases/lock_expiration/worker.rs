//! Leases of activities.

use crate::ProviderFactory;
use crate::fixture::{Bench, items};

/// A renewal under a valid lease succeeds, and the activity stays claimed.
pub async fn test_worker_lock_renewal_success<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("renewed", 1)).await;
    let work = bench.work().await;
    bench
        .renew_work(&work, bench.lock)
        .await
        .expect("the lease holds");
    bench.no_work("a renewed activity stays claimed").await;
}

/// An unknown token renews nothing.
pub async fn test_worker_lock_renewal_invalid_token<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("renewed", 1)).await;
    let mut work = bench.work().await;
    work.token = "made-up".into();
    let error = bench.renew_work(&work, bench.lock).await;
    assert!(!error.expect_err("unknown token").is_retryable());
}

/// A lease that is over cannot be renewed, even if no other worker took over.
pub async fn test_worker_lock_renewal_after_expiration<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("over", 1)).await;
    let work = bench.work().await;
    bench.outlive(bench.lock).await;
    assert!(bench.renew_work(&work, bench.lock).await.is_err());
    assert_eq!(bench.work().await.attempt, 2, "it is free for others");
}

/// A renewal at 60 % of the lease keeps the activity claimed when the first lease would be over.
pub async fn test_worker_lock_renewal_extends_timeout<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("longer", 1)).await;
    let work = bench.work().await;

    bench.pass(bench.lock.mul_f64(0.6)).await;
    bench
        .renew_work(&work, bench.lock)
        .await
        .expect("the lease holds");
    bench.pass(bench.lock.mul_f64(0.6)).await;
    bench
        .no_work("the renewal counts from the moment it was made")
        .await;
    bench.finish(&work).await;
}

/// An acked activity cannot be renewed.
pub async fn test_worker_lock_renewal_after_ack<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("acked", 1)).await;
    let work = bench.work().await;
    bench.finish(&work).await;
    assert!(bench.renew_work(&work, bench.lock).await.is_err());
}

/// An abandoned activity can be claimed at once, with a new token.
pub async fn test_abandon_work_item_releases_lock<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("returned", 1)).await;
    let work = bench.work().await;
    bench.give_back(&work, None, false).await;
    let again = bench.work().await;
    assert_eq!(again.item, work.item);
    assert_ne!(again.token, work.token);
}

/// An activity abandoned with a delay stays hidden for that time.
pub async fn test_abandon_work_item_with_delay<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let delay = bench.lock / 2;
    bench.schedule(items::activity("delayed", 1)).await;
    let work = bench.work().await;
    bench.give_back(&work, Some(delay), false).await;

    bench.no_work("the delay has not passed").await;
    bench.pass(delay / 2).await;
    bench.no_work("half of the delay has not passed").await;
    bench.outlive(delay / 2).await;
    assert_eq!(bench.work().await.item, work.item);
}

/// An ack after the lease ran out fails although no other worker took over, and the activity stays.
pub async fn test_worker_ack_fails_after_lock_expiry<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("late").await;
    bench.schedule(items::activity("late", 1)).await;
    let work = bench.work().await;
    bench.outlive(bench.lock).await;

    let done = items::activity_done("late", 1);
    assert!(bench.try_finish(&work, Some(done)).await.is_err());
    bench.idle("a rejected ack delivers no completion").await;
    assert_eq!(bench.work().await.item, work.item);
}
