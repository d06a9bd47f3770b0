//! Where an instance stands, and waiting for it. Woken by the store where it can wake, asking again where it cannot.

use std::time::Duration;

use duroxide_core::codec;
use duroxide_core::provider::InstanceWatch;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Client, ClientError};
use crate::status::OrchestrationStatus;

/// How long a wait trusts a watch before it looks for itself.
const WATCH_RECHECK: Duration = Duration::from_secs(5);
/// First and longest pause between two looks at a store that cannot wake.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl Client {
    /// Where an instance stands now.
    ///
    /// # Errors
    ///
    /// What the store says.
    pub async fn get_orchestration_status(
        &self,
        instance: &str,
    ) -> Result<OrchestrationStatus, ClientError> {
        let outcome = self.store.read_outcome(instance).await?;
        Ok(OrchestrationStatus::of(outcome))
    }

    /// Waits until an instance has ended. An instance that does not exist yet is waited for.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline; permanent store errors at once. Retryable ones are outwaited.
    pub async fn wait_for_orchestration(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<OrchestrationStatus, ClientError> {
        self.wait_until(instance, timeout, LONGEST_PAUSE, || async move {
            let status = self.get_orchestration_status(instance).await?;
            Ok(status.is_terminal().then_some(status))
        })
        .await
    }

    /// Waits until an instance has ended and decodes its output; the inner `Err` is the failure's text.
    ///
    /// # Errors
    ///
    /// As [`wait_for_orchestration`](Self::wait_for_orchestration), or `InvalidInput` when the output does not decode.
    pub async fn wait_for_orchestration_typed<Out: DeserializeOwned>(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<Result<Out, String>, ClientError> {
        match self.wait_for_orchestration(instance, timeout).await? {
            OrchestrationStatus::Completed { output, .. } => codec::decode(&output)
                .map(Ok)
                .map_err(|e| ClientError::invalid(format!("decode failed: {e}"))),
            OrchestrationStatus::Failed { details, .. } => Ok(Err(details.display_message())),
            OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => {
                Err(ClientError::Timeout)
            }
        }
    }

    /// Waits until the custom status changed after `last_seen_version`, or the instance ended. `poll_interval` is the
    /// longest pause between two looks at a store that cannot wake.
    ///
    /// # Errors
    ///
    /// As [`wait_for_orchestration`](Self::wait_for_orchestration).
    pub async fn wait_for_status_change(
        &self,
        instance: &str,
        last_seen_version: u64,
        poll_interval: Duration,
        timeout: Duration,
    ) -> Result<OrchestrationStatus, ClientError> {
        self.wait_until(instance, timeout, poll_interval, || async move {
            let status = self.get_orchestration_status(instance).await?;
            let news = status.is_terminal() || status.custom_status_version() > last_seen_version;
            Ok(news.then_some(status))
        })
        .await
    }

    /// Looks until it finds, woken by changes of the instance.
    pub(super) async fn wait_until<T, Fut>(
        &self,
        instance: &str,
        timeout: Duration,
        longest_pause: Duration,
        look: impl Fn() -> Fut,
    ) -> Result<T, ClientError>
    where
        Fut: Future<Output = Result<Option<T>, ClientError>>,
    {
        let deadline = saturating_deadline(timeout);
        // The watch is taken before the first look, so that no change falls between the two.
        let mut watch = self.store.watch_instance(instance);
        let mut pause = FIRST_PAUSE;
        loop {
            match timeout_at(deadline, look()).await {
                Err(_) => return Err(ClientError::Timeout),
                Ok(Ok(Some(found))) => return Ok(found),
                Ok(Ok(None)) => pause_until_news(&mut watch, pause, deadline).await,
                Ok(Err(error)) if error.is_retryable() => {
                    sleep_until(deadline.min(Instant::now() + pause)).await;
                }
                Ok(Err(error)) => return Err(error),
            }
            if Instant::now() >= deadline {
                return Err(ClientError::Timeout);
            }
            pause = (pause * 2).min(longest_pause.max(FIRST_PAUSE));
        }
    }
}

async fn pause_until_news(
    watch: &mut Option<Box<dyn InstanceWatch>>,
    pause: Duration,
    deadline: Instant,
) {
    match watch {
        Some(watch) => {
            let recheck = deadline.min(Instant::now() + WATCH_RECHECK);
            // Elapsed means the same as a notice: look again.
            let _elapsed = timeout_at(recheck, watch.changed()).await;
        }
        None => sleep_until(deadline.min(Instant::now() + pause)).await,
    }
}

/// A deadline that a very long timeout cannot overflow.
fn saturating_deadline(timeout: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    Instant::now() + timeout.min(FAR)
}
