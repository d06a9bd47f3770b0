//! Leases of instances.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, claim_together, items, kinds};

/// After its end a lease is taken over with a new token, and the old token commits no more.
pub async fn test_lock_expires_after_timeout<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("passing").await;
    let old = bench.turn_of("passing").await;
    bench.idle("the lease holds").await;

    bench.outlive(bench.lock).await;
    let new = bench.turn_of("passing").await;
    assert_ne!(old.token, new.token);
    assert!(bench.try_commit(&old, Commit::first()).await.is_err());
    bench.commit(&new, Commit::first()).await;
}

/// An abandoned instance can be claimed at once.
pub async fn test_abandon_releases_lock_immediately<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("returned").await;
    let turn = bench.turn_of("returned").await;
    bench.abandon(&turn, None).await;

    let again = bench.turn_of("returned").await;
    assert_ne!(turn.token, again.token);
    assert_eq!(
        again.item.messages.len(),
        1,
        "its message came back with it"
    );
}

/// A message that arrived during the lease can be claimed right after the commit.
pub async fn test_lock_renewal_on_ack<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("next").await;
    let turn = bench.turn_of("next").await;
    bench.send(items::signal("next", "meanwhile")).await;
    bench
        .commit(&turn, Commit::to(1).event(1, kinds::started()))
        .await;

    let next = bench.turn_of("next").await;
    assert_eq!(next.item.messages, [items::signal("next", "meanwhile")]);
}

/// Five claimers find nothing during a lease; after its end one succeeds.
pub async fn test_concurrent_lock_attempts_respect_expiration<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("waited").await;
    bench.turn_of("waited").await;

    let won = claim_together(&bench, 5).await.len();
    assert_eq!(won, 0, "during the lease");
    bench.outlive(bench.lock).await;
    let won = claim_together(&bench, 5).await.len();
    assert_eq!(won, 1, "after its end");
}

/// A lease that is over cannot be renewed.
pub async fn test_orchestration_lock_renewal_after_expiration<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("over").await;
    let turn = bench.turn_of("over").await;
    bench.outlive(bench.lock).await;

    let answer = bench
        .store
        .renew_orchestration_item_lock(&turn.token, bench.lock)
        .await;
    let error = answer.expect_err("a lease that is over stays over");
    assert!(!error.is_retryable(), "{error}");
    bench.turn_of("over").await;
}
