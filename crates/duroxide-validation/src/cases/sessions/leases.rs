//! Two leases, and what happens when one or both run out.

use super::queue;
use crate::ProviderFactory;
use crate::fixture::session;

/// A session whose lease ran out can be claimed by another.
pub async fn test_session_claimable_after_lock_expiry(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s"]).await;
    let brief = session("anna", bench.brief());
    bench
        .find_in(&brief, bench.lock * 4)
        .await
        .expect("it is free");
    assert!(bench.find_as("bert").await.is_none(), "anna owns it");
    bench.outlive(bench.brief()).await;
    assert_eq!(bench.work_as("bert").await.id(), 2);
}

/// After a takeover the former owner gets nothing more of the session.
pub async fn test_session_takeover_after_lock_expiry(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s", "s"]).await;
    let brief = session("anna", bench.brief());
    let first = bench
        .find_in(&brief, bench.lock * 4)
        .await
        .expect("it is free");
    bench.finish(&first).await;
    bench.outlive(bench.brief()).await;
    assert_eq!(bench.work_as("bert").await.id(), 2);
    assert!(bench.find_as("anna").await.is_none(), "bert owns it now");
    assert_eq!(bench.work_as("bert").await.id(), 3);
}

/// A former owner may claim its expired session again.
pub async fn test_original_worker_reclaims_expired_session(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s"]).await;
    let brief = session("anna", bench.brief());
    let first = bench
        .find_in(&brief, bench.lock * 4)
        .await
        .expect("it is free");
    bench.finish(&first).await;
    bench.outlive(bench.brief()).await;
    assert_eq!(bench.work_as("anna").await.id(), 2);
}

/// The activity's lease is over, the session's is not: only the owner gets the activity again.
pub async fn test_activity_lock_expires_session_lock_valid_same_worker_refetches(
    factory: &dyn ProviderFactory,
) {
    let bench = queue(factory, &["s"]).await;
    let long = session("anna", bench.lock * 4);
    bench
        .find_in(&long, bench.brief())
        .await
        .expect("it is free");
    bench.outlive(bench.brief()).await;
    assert!(
        bench.find_as("bert").await.is_none(),
        "anna owns the session"
    );
    let again = bench.work_as("anna").await;
    assert_eq!((again.id(), again.attempt), (1, 2));
}

/// The new owner of a session also gets what the old owner left behind.
pub async fn test_session_lock_expires_new_owner_gets_redelivery(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s"]).await;
    let brief = session("anna", bench.brief());
    bench.find_in(&brief, bench.lock).await.expect("it is free");
    bench.outlive(bench.brief()).await;
    let long = session("bert", bench.lock * 4);
    let taken = bench
        .find_in(&long, bench.lock * 4)
        .await
        .expect("the lease is over");
    assert_eq!(taken.id(), 2, "the first is still claimed");

    bench.outlive(bench.lock).await;
    let left = bench
        .find_in(&long, bench.lock)
        .await
        .expect("anna lost it");
    assert_eq!((left.id(), left.attempt), (1, 2));
}

/// The same owner goes on after its lease was over.
pub async fn test_session_lock_expires_same_worker_reacquires(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "s"]).await;
    let brief = session("anna", bench.brief());
    bench
        .find_in(&brief, bench.lock * 4)
        .await
        .expect("it is free");
    bench.outlive(bench.brief()).await;
    assert_eq!(bench.work_as("anna").await.id(), 2);
    assert!(bench.find_as("bert").await.is_none(), "anna owns it again");
}

/// Both leases are over: any worker may have the activity.
pub async fn test_both_locks_expire_different_worker_claims(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    bench.work_as("anna").await;
    bench.outlive(bench.lock).await;
    let work = bench.work_as("bert").await;
    assert_eq!((work.id(), work.attempt), (1, 2));
}

/// The session's lease is over, the activity's is not: the ack succeeds.
pub async fn test_session_lock_expires_activity_lock_valid_ack_succeeds(
    factory: &dyn ProviderFactory,
) {
    let bench = queue(factory, &["s"]).await;
    let brief = session("anna", bench.brief());
    let work = bench
        .find_in(&brief, bench.lock * 4)
        .await
        .expect("it is free");
    bench.outlive(bench.brief()).await;
    bench.finish(&work).await;
    assert!(bench.find_as("anna").await.is_none(), "it was acked");
}
