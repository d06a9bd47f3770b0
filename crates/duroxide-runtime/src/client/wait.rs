//! Where an instance stands, and waiting for it. In: an id, and until when. Out: the status, once it is what the caller
//! waits for. The store wakes the wait where it can; where it cannot, the wait looks again. Never reads a history.

use std::time::Duration;

use duroxide_core::codec;
use duroxide_core::provider::{InstanceOutcome, InstanceWatch};
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
    /// `Timeout` at the deadline; permanent store errors at once. The wait outlasts retryable ones.
    pub async fn wait_for_orchestration(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<OrchestrationStatus, ClientError> {
        let deadline = saturating_deadline(timeout);
        let mut waiting = Waiting::new(self, instance, deadline, LONGEST_PAUSE);
        if waiting.is_running()
            && let Some(ended) = waiting.for_the_end().await?
        {
            return Ok(OrchestrationStatus::of(Some(ended)));
        }
        loop {
            let look = self.get_orchestration_status(instance);
            if let Some(status) = waiting.look(look).await?
                && status.is_terminal()
            {
                return Ok(status);
            }
            if let Some(ended) = waiting.for_the_end().await? {
                return Ok(OrchestrationStatus::of(Some(ended)));
            }
        }
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
            let has_changed =
                status.is_terminal() || status.custom_status_version() > last_seen_version;
            Ok(has_changed.then_some(status))
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
        let mut waiting = Waiting::new(self, instance, deadline, longest_pause);
        loop {
            if let Some(Some(found)) = waiting.look(look()).await? {
                return Ok(found);
            }
            waiting.for_a_change().await?;
        }
    }
}

/// A wait for one instance.
struct Waiting {
    watch: Option<Box<dyn InstanceWatch>>,
    deadline: Instant,
    /// How long to pause where the store cannot wake; grows.
    pause: Duration,
    longest_pause: Duration,
    /// The last look failed; its store is given a pause.
    failed: bool,
}

impl Waiting {
    /// The watch is taken before the first look, so that no change falls between the two.
    fn new(client: &Client, instance: &str, deadline: Instant, longest_pause: Duration) -> Self {
        Self {
            watch: client.store.watch_instance(instance),
            deadline,
            pause: FIRST_PAUSE,
            longest_pause: longest_pause.max(FIRST_PAUSE),
            failed: false,
        }
    }

    /// Whether the end is known to be still to come.
    fn is_running(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.is_running())
    }

    /// One look; `None` if the store said "later".
    async fn look<T>(
        &mut self,
        look: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<Option<T>, ClientError> {
        let looked = timeout_at(self.deadline, look)
            .await
            .map_err(|_| ClientError::Timeout)?;
        self.failed = looked.is_err();
        match looked {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_retryable() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until a look may bring something new.
    async fn for_a_change(&mut self) -> Result<(), ClientError> {
        match &mut self.watch {
            Some(watch) if !self.failed => {
                let recheck = self.deadline.min(Instant::now() + WATCH_RECHECK);
                // Elapsed means the same as a notice: look again.
                let _elapsed = timeout_at(recheck, watch.changed()).await;
            }
            _ => self.pause_between_looks().await,
        }
        self.in_time()
    }

    /// Waits until the instance may have ended; with how, if the store reported it.
    async fn for_the_end(&mut self) -> Result<Option<InstanceOutcome>, ClientError> {
        let ended = match &mut self.watch {
            Some(watch) if !self.failed => {
                let recheck = self.deadline.min(Instant::now() + WATCH_RECHECK);
                timeout_at(recheck, watch.ended()).await.unwrap_or(None)
            }
            _ => {
                self.pause_between_looks().await;
                None
            }
        };
        if ended.is_none() {
            self.in_time()?;
        }
        Ok(ended)
    }

    async fn pause_between_looks(&mut self) {
        sleep_until(self.deadline.min(Instant::now() + self.pause)).await;
        self.pause = (self.pause * 2).min(self.longest_pause);
    }

    fn in_time(&self) -> Result<(), ClientError> {
        if Instant::now() >= self.deadline {
            return Err(ClientError::Timeout);
        }
        Ok(())
    }
}

/// A deadline that a very long timeout cannot overflow.
fn saturating_deadline(timeout: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    Instant::now() + timeout.min(FAR)
}
