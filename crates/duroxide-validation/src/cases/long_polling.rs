//! How long a fetch waits on an empty queue.

use std::time::{Duration, Instant};

use duroxide_core::provider::{Provider, TagFilter};

const LEASE: Duration = Duration::from_secs(5);

async fn turn_wait(provider: &dyn Provider, poll: Duration) -> Duration {
    let began = Instant::now();
    let found = provider.fetch_orchestration_item(LEASE, poll, None).await;
    assert!(found.expect("a fetch does not fail").is_none());
    began.elapsed()
}

async fn work_wait(provider: &dyn Provider, poll: Duration) -> Duration {
    let began = Instant::now();
    let found = provider.fetch_work_item(LEASE, poll, None, &TagFilter::DefaultOnly);
    assert!(found.await.expect("a fetch does not fail").is_none());
    began.elapsed()
}

/// A store that does not long-poll answers an empty orchestration fetch at once.
pub async fn test_short_poll_returns_immediately(provider: &dyn Provider, threshold: Duration) {
    let waited = turn_wait(provider, Duration::from_millis(500)).await;
    assert!(waited < threshold, "{waited:?} is not below {threshold:?}");
}

/// A store that does not long-poll answers an empty activity fetch at once.
pub async fn test_short_poll_work_item_returns_immediately(
    provider: &dyn Provider,
    threshold: Duration,
) {
    let waited = work_wait(provider, Duration::from_millis(500)).await;
    assert!(waited < threshold, "{waited:?} is not below {threshold:?}");
}

/// A long-polling store waits for an instance as long as it may.
pub async fn test_long_poll_waits_for_timeout(provider: &dyn Provider) {
    let waited = turn_wait(provider, Duration::from_millis(500)).await;
    assert!(
        waited >= Duration::from_millis(495),
        "waited only {waited:?}"
    );
}

/// A long-polling store waits for an activity as long as it may.
pub async fn test_long_poll_work_item_waits_for_timeout(provider: &dyn Provider) {
    let waited = work_wait(provider, Duration::from_millis(500)).await;
    assert!(
        waited >= Duration::from_millis(495),
        "waited only {waited:?}"
    );
}

/// No store waits much longer than it may. A busy machine may be late once of three times.
pub async fn test_fetch_respects_timeout_upper_bound(provider: &dyn Provider) {
    const POLL: Duration = Duration::from_millis(300);
    const BOUND: Duration = Duration::from_millis(600);
    let mut waits = Vec::new();
    for _ in 0..3 {
        let waited = turn_wait(provider, POLL)
            .await
            .max(work_wait(provider, POLL).await);
        waits.push(waited);
    }
    let in_time = waits.iter().filter(|waited| **waited < BOUND).count();
    assert!(in_time >= 2, "waited {waits:?} instead of {POLL:?}");
}
