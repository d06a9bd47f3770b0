//! Activities: plain, typed, on a session, with options, with retries.

use std::panic::Location;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use super::{Either2, OrchestrationContext};
use crate::codec;
use crate::future::{DurableFuture, ScheduleKind};
use crate::replay::{CommandKind, OperationKind, Resolution};
use crate::retry::RetryPolicy;

/// Where and how an activity runs, beyond its name and input.
///
/// ```
/// use std::time::Duration;
/// use duroxide_core::ActivityOptions;
/// let options = ActivityOptions::new()
///     .with_tag("gpu")
///     .with_start_timeout(Duration::from_secs(60));
/// assert_eq!(options.tag.as_deref(), Some("gpu"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActivityOptions {
    /// Route to workers that take this tag.
    pub tag: Option<String>,
    /// Bind to this session.
    pub session_id: Option<String>,
    /// Give up if no worker has taken the activity after this long.
    pub start_timeout: Option<Duration>,
    /// Give up after this long, over all attempts and waits.
    pub total_timeout: Option<Duration>,
    /// Hand every failure to the code, also those that would end the orchestration.
    pub surface_system_failures: bool,
}

impl ActivityOptions {
    /// No tag, no session, no limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Routes to workers that take this tag.
    #[must_use]
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Binds to a session.
    #[must_use]
    pub fn on_session(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Gives up if no worker has taken the activity after this long. Needs a store that can tell; with one that
    /// cannot, the activity counts as taken.
    #[must_use]
    pub fn with_start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = Some(timeout);
        self
    }

    /// Gives up after this long, over all attempts and the waits between them.
    #[must_use]
    pub fn with_total_timeout(mut self, timeout: Duration) -> Self {
        self.total_timeout = Some(timeout);
        self
    }

    /// Hands every failure to the code as an `Err`, also poison, configuration and infrastructure failures.
    #[must_use]
    pub fn surface_system_failures(mut self) -> Self {
        self.surface_system_failures = true;
        self
    }
}

impl OrchestrationContext {
    /// Schedules an activity.
    #[track_caller]
    pub fn schedule_activity(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> DurableFuture<Result<String, String>> {
        self.call_activity(name.into(), input.into(), None, None)
    }

    /// Schedules an activity with typed input and output.
    ///
    /// # Panics
    ///
    /// When the input does not serialise, which fails the orchestration.
    #[track_caller]
    pub fn schedule_activity_typed<In: Serialize, Out: DeserializeOwned + Send + 'static>(
        &self,
        name: impl Into<String>,
        input: &In,
    ) -> DurableFuture<Result<Out, String>> {
        self.call_activity(name.into(), encoded(input), None, None)
            .map(decode_outcome)
    }

    /// Schedules an activity on the worker that owns a session.
    #[track_caller]
    pub fn schedule_activity_on_session(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        session_id: impl Into<String>,
    ) -> DurableFuture<Result<String, String>> {
        self.call_activity(name.into(), input.into(), Some(session_id.into()), None)
    }

    /// Schedules a typed activity on the worker that owns a session.
    ///
    /// # Panics
    ///
    /// When the input does not serialise, which fails the orchestration.
    #[track_caller]
    pub fn schedule_activity_on_session_typed<
        In: Serialize,
        Out: DeserializeOwned + Send + 'static,
    >(
        &self,
        name: impl Into<String>,
        input: &In,
        session_id: impl Into<String>,
    ) -> DurableFuture<Result<Out, String>> {
        self.call_activity(name.into(), encoded(input), Some(session_id.into()), None)
            .map(decode_outcome)
    }

    /// Runs an activity with a tag, a session, time limits or surfaced failures.
    ///
    /// # Errors
    ///
    /// The activity's error, or a text that begins with `timeout:` when a limit of the options passed.
    pub async fn schedule_activity_with_options(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        options: ActivityOptions,
    ) -> Result<String, String> {
        let (name, input) = (name.into(), input.into());
        let attempt = self.attempt(&name, &input, &options);
        match options.total_timeout {
            None => attempt.await,
            Some(limit) => self.within(limit, &name, attempt).await,
        }
    }

    /// Runs an activity, again after failures, as the policy says.
    ///
    /// # Errors
    ///
    /// The last attempt's error, or `timeout: activity timed out` when an attempt took too long.
    pub async fn schedule_activity_with_retry(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
    ) -> Result<String, String> {
        let options = ActivityOptions::new();
        self.retry(name.into(), input.into(), policy, options).await
    }

    /// Runs an activity with typed input and output, again after failures.
    ///
    /// # Errors
    ///
    /// As [`schedule_activity_with_retry`](Self::schedule_activity_with_retry), or when the output does not decode.
    pub async fn schedule_activity_with_retry_typed<In: Serialize, Out: DeserializeOwned>(
        &self,
        name: impl Into<String>,
        input: &In,
        policy: RetryPolicy,
    ) -> Result<Out, String> {
        let options = ActivityOptions::new();
        let output = self
            .retry(name.into(), encoded(input), policy, options)
            .await?;
        codec::decode(&output)
    }

    /// Runs an activity on a session, again after failures; all attempts use the same session.
    ///
    /// # Errors
    ///
    /// As [`schedule_activity_with_retry`](Self::schedule_activity_with_retry).
    pub async fn schedule_activity_with_retry_on_session(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
        session_id: impl Into<String>,
    ) -> Result<String, String> {
        let options = ActivityOptions::new().on_session(session_id);
        self.retry(name.into(), input.into(), policy, options).await
    }

    /// Runs a typed activity on a session, again after failures; all attempts use the same session.
    ///
    /// # Errors
    ///
    /// As [`schedule_activity_with_retry`](Self::schedule_activity_with_retry), or when the output does not decode.
    pub async fn schedule_activity_with_retry_on_session_typed<
        In: Serialize,
        Out: DeserializeOwned,
    >(
        &self,
        name: impl Into<String>,
        input: &In,
        policy: RetryPolicy,
        session_id: impl Into<String>,
    ) -> Result<Out, String> {
        let options = ActivityOptions::new().on_session(session_id);
        let output = self
            .retry(name.into(), encoded(input), policy, options)
            .await?;
        codec::decode(&output)
    }

    /// Runs an activity with options, again after failures; the total timeout spans all attempts and waits.
    ///
    /// # Errors
    ///
    /// As [`schedule_activity_with_retry`](Self::schedule_activity_with_retry), or a text that begins with `timeout:`
    /// when a limit of the options passed.
    pub async fn schedule_activity_with_retry_options(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
        options: ActivityOptions,
    ) -> Result<String, String> {
        let (name, total) = (name.into(), options.total_timeout);
        let tries = self.retry(name.clone(), input.into(), policy, options);
        match total {
            None => tries.await,
            Some(limit) => self.within(limit, &name, tries).await,
        }
    }

    #[track_caller]
    pub(super) fn call_activity(
        &self,
        name: String,
        input: String,
        session_id: Option<String>,
        tag: Option<String>,
    ) -> DurableFuture<Result<String, String>> {
        let kind = CommandKind::Activity {
            name: name.clone(),
            input,
            session_id,
            tag,
        };
        let slot = self
            .shared
            .cell()
            .call(OperationKind::Activity, kind, Location::caller());
        let kind = ScheduleKind::Activity { name };
        DurableFuture::waiting(self.shared.clone(), slot, kind, Resolution::into_outcome)
    }

    /// One attempt under the options, without the total timeout.
    async fn attempt(
        &self,
        name: &str,
        input: &str,
        options: &ActivityOptions,
    ) -> Result<String, String> {
        let mut work = self.call_activity(
            name.to_owned(),
            input.to_owned(),
            options.session_id.clone(),
            options.tag.clone(),
        );
        if options.surface_system_failures {
            work = work.surface_system_failures();
        }
        let Some(limit) = options.start_timeout else {
            return work.await;
        };
        let not_taken = self.schedule_timer(limit);
        match self.select2(&mut work, not_taken).await {
            Either2::First(result) => result,
            Either2::Second(()) => {
                let id = work.scheduling_event_id().unwrap_or_default();
                if self.activity_was_claimed(id).await? {
                    work.await
                } else {
                    Err(format!(
                        "timeout: no worker took activity '{name}' within {limit:?}"
                    ))
                }
            }
        }
    }

    async fn within(
        &self,
        limit: Duration,
        name: &str,
        work: impl Future<Output = Result<String, String>>,
    ) -> Result<String, String> {
        match self.select2(work, self.schedule_timer(limit)).await {
            Either2::First(result) => result,
            Either2::Second(()) => Err(format!(
                "timeout: activity '{name}' did not finish within {limit:?}"
            )),
        }
    }

    async fn retry(
        &self,
        name: String,
        input: String,
        policy: RetryPolicy,
        options: ActivityOptions,
    ) -> Result<String, String> {
        let attempts = policy.max_attempts.max(1);
        let mut attempt = 1;
        loop {
            let work = self.attempt(&name, &input, &options);
            let result = match policy.timeout {
                None => work.await,
                Some(limit) => match self.race_attempt(work, limit).await {
                    Either2::First(result) => result,
                    Either2::Second(()) => return Err("timeout: activity timed out".to_owned()),
                },
            };
            let error = match result {
                Ok(output) => return Ok(output),
                Err(error) if attempt == attempts => return Err(error),
                Err(error) => error,
            };
            let session = options
                .session_id
                .as_ref()
                .map_or_else(String::new, |id| format!(" (session={id})"));
            self.trace_warn(format!(
                "Activity '{name}'{session} attempt {attempt}/{attempts} failed: {error}. Retrying..."
            ));
            let delay = policy.delay_for_attempt(attempt);
            if !delay.is_zero() {
                self.schedule_timer(delay).await;
            }
            attempt += 1;
        }
    }

    /// The attempt asks for its activity before the timer is set: that is the recorded order of the published engine.
    async fn race_attempt(
        &self,
        work: impl Future<Output = Result<String, String>>,
        limit: Duration,
    ) -> Either2<Result<String, String>, ()> {
        let timer = async { self.schedule_timer(limit).await };
        self.select2(work, timer).await
    }
}

pub(super) fn encoded<T: Serialize>(value: &T) -> String {
    codec::encode(value).unwrap_or_else(|e| panic!("encode: {e}"))
}

pub(super) fn decode_outcome<T: DeserializeOwned>(
    outcome: Result<String, String>,
) -> Result<T, String> {
    codec::decode(&outcome?)
}
