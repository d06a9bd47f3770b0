//! Waiting for an instance's end, woken by the store where it can wake.

use std::time::{Duration, Instant};

use duroxide_core::provider::Provider;
use duroxide_runtime::{Client, OrchestrationStatus};

/// Pause between two looks: short for stores that cannot wake, a safety net for those that can.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
const SAFETY_NET: Duration = Duration::from_millis(500);

/// How the instance ended, or `None` if it did not within this time.
pub(crate) async fn ended(
    client: &Client,
    store: &dyn Provider,
    instance: &str,
    patience: Duration,
) -> Option<OrchestrationStatus> {
    let began = Instant::now();
    let mut watch = store.watch_instance(instance);
    while began.elapsed() < patience {
        match client.get_orchestration_status(instance).await {
            Ok(OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. }) => {}
            Ok(status) => return Some(status),
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("the status of `{instance}` cannot be read: {error}"),
        }
        match &mut watch {
            Some(watch) => drop(tokio::time::timeout(SAFETY_NET, watch.changed()).await),
            None => tokio::time::sleep(LOOK_PAUSE).await,
        }
    }
    None
}
