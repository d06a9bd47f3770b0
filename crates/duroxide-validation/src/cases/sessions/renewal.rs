//! Owners keep their sessions as long as they use them.

use std::time::Duration;

use super::queue;
use crate::ProviderFactory;
use crate::fixture::{Bench, session};

const IDLE_MAX: Duration = Duration::from_secs(600);

async fn renew(
    bench: &Bench<'_, dyn ProviderFactory + '_>,
    owner: &str,
    extend: Duration,
    idle: Duration,
) -> usize {
    let renewed = bench.store.renew_session_lock(&[owner], extend, idle).await;
    renewed.expect("a renewal does not fail")
}

/// Every active session of the owner is renewed and counted.
pub async fn test_renew_session_lock_active(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s", "t"]).await;
    bench.work_as("anna").await;
    assert_eq!(renew(&bench, "anna", bench.lock, IDLE_MAX).await, 1);
    bench.work_as("anna").await;
    assert_eq!(renew(&bench, "anna", bench.lock, IDLE_MAX).await, 2);
    assert_eq!(renew(&bench, "bert", bench.lock, IDLE_MAX).await, 0);
}

/// A session that was not used lately is not renewed.
pub async fn test_renew_session_lock_skips_idle(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    bench.work_as("anna").await;
    assert_eq!(renew(&bench, "anna", bench.lock, Duration::ZERO).await, 0);
}

/// An owner without sessions renews none.
pub async fn test_renew_session_lock_no_sessions(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &[]).await;
    assert_eq!(renew(&bench, "anna", bench.lock, IDLE_MAX).await, 0);
    let nobody = bench
        .store
        .renew_session_lock(&[], bench.lock, IDLE_MAX)
        .await;
    assert_eq!(nobody.expect("a renewal does not fail"), 0);
}

/// A lease that is over cannot be renewed.
pub async fn test_renew_session_lock_after_expiry_returns_zero(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let brief = session("anna", bench.brief());
    bench.find_in(&brief, bench.lock).await.expect("it is free");
    bench.outlive(bench.brief()).await;
    assert_eq!(renew(&bench, "anna", bench.lock, IDLE_MAX).await, 0);
}

/// A renewal keeps ownership when the first lease would be over.
pub async fn test_session_lock_renewal_extends_past_original_timeout(
    factory: &dyn ProviderFactory,
) {
    let bench = queue(factory, &["s", "s"]).await;
    bench.work_as("anna").await;
    bench.pass(bench.lock.mul_f64(0.6)).await;
    assert_eq!(renew(&bench, "anna", bench.lock, IDLE_MAX).await, 1);
    bench.pass(bench.lock.mul_f64(0.6)).await;
    assert!(
        bench.find_as("bert").await.is_none(),
        "anna renewed her session"
    );
    assert!(bench.find_as("anna").await.is_some());
}

/// An ack counts as use.
pub async fn test_ack_updates_session_last_activity(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let long = session("anna", bench.lock * 4);
    let work = bench
        .find_in(&long, bench.lock * 4)
        .await
        .expect("it is free");
    bench.pass(bench.lock).await;
    bench.finish(&work).await;
    let idle = bench.lock / 2;
    assert_eq!(
        renew(&bench, "anna", bench.lock, idle).await,
        1,
        "used just now"
    );
    bench.outlive(idle).await;
    assert_eq!(
        renew(&bench, "anna", bench.lock, idle).await,
        0,
        "idle since then"
    );
}

/// A renewal of an activity counts as use.
pub async fn test_renew_work_item_updates_session_last_activity(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let long = session("anna", bench.lock * 4);
    let work = bench
        .find_in(&long, bench.lock * 4)
        .await
        .expect("it is free");
    bench.pass(bench.lock).await;
    bench
        .renew_work(&work, bench.lock)
        .await
        .expect("it is held");
    let idle = bench.lock / 2;
    assert_eq!(
        renew(&bench, "anna", bench.lock, idle).await,
        1,
        "used just now"
    );
}
