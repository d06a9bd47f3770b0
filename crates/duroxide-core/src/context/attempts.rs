//! Activities under options: time limits, surfaced failures, further attempts after a failure.
//!
//! Nothing is scheduled before the returned future is polled. The place of the call is kept for the report of a
//! divergence, which is why these are functions that return a future.

use std::panic::Location;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use super::activities::{decode_outcome, encoded};
use super::{ActivityOptions, Either2, OrchestrationContext};
use crate::replay::SYSCALL_ACTIVITY_CLAIMED;
use crate::retry::RetryPolicy;

impl OrchestrationContext {
    /// Runs an activity with a tag, a session, time limits or surfaced failures.
    ///
    /// # Errors
    ///
    /// The activity's error, or a text that begins with `timeout:` when a limit of the options passed.
    ///
    /// ```
    /// use duroxide::{ActivityOptions, OrchestrationContext};
    /// use std::time::Duration;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let options = ActivityOptions::new()
    ///         .with_tag("gpu")
    ///         .with_start_timeout(Duration::from_secs(60))
    ///         .with_total_timeout(Duration::from_secs(600));
    ///     ctx.schedule_activity_with_options("render", input, options).await
    /// }
    /// ```
    #[track_caller]
    pub fn schedule_activity_with_options(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<String, String>> {
        let work = self.work(name.into(), input.into(), options);
        async move { work.limited(work.attempt()).await }
    }

    /// Runs an activity, again after failures, as the policy says.
    ///
    /// # Errors
    ///
    /// The last attempt's error, or `timeout: activity timed out` when an attempt took too long.
    ///
    /// ```
    /// use duroxide::{BackoffStrategy, OrchestrationContext, RetryPolicy};
    /// use std::time::Duration;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let policy = RetryPolicy::new(5)
    ///         .with_timeout(Duration::from_secs(10))
    ///         .with_backoff(BackoffStrategy::Fixed { delay: Duration::from_secs(1) });
    ///     ctx.schedule_activity_with_retry("call", input, policy).await
    /// }
    /// ```
    #[track_caller]
    pub fn schedule_activity_with_retry(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
    ) -> impl Future<Output = Result<String, String>> {
        let work = self.work(name.into(), input.into(), ActivityOptions::new());
        async move { work.retry(&policy).await }
    }

    /// Runs an activity with typed input and output, again after failures.
    ///
    /// # Errors
    ///
    /// As [`schedule_activity_with_retry`](Self::schedule_activity_with_retry), or when the output does not decode.
    #[track_caller]
    pub fn schedule_activity_with_retry_typed<In: Serialize, Out: DeserializeOwned>(
        &self,
        name: impl Into<String>,
        input: &In,
        policy: RetryPolicy,
    ) -> impl Future<Output = Result<Out, String>> {
        let work = self.work(name.into(), encoded(input), ActivityOptions::new());
        async move { decode_outcome(work.retry(&policy).await) }
    }

    /// Runs an activity on a session, again after failures; all attempts use the same session.
    ///
    /// # Errors
    ///
    /// As [`schedule_activity_with_retry`](Self::schedule_activity_with_retry).
    #[track_caller]
    pub fn schedule_activity_with_retry_on_session(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
        session_id: impl Into<String>,
    ) -> impl Future<Output = Result<String, String>> {
        let options = ActivityOptions::new().on_session(session_id);
        let work = self.work(name.into(), input.into(), options);
        async move { work.retry(&policy).await }
    }

    /// Runs a typed activity on a session, again after failures; all attempts use the same session.
    ///
    /// # Errors
    ///
    /// As [`schedule_activity_with_retry`](Self::schedule_activity_with_retry), or when the output does not decode.
    #[track_caller]
    pub fn schedule_activity_with_retry_on_session_typed<In: Serialize, Out: DeserializeOwned>(
        &self,
        name: impl Into<String>,
        input: &In,
        policy: RetryPolicy,
        session_id: impl Into<String>,
    ) -> impl Future<Output = Result<Out, String>> {
        let options = ActivityOptions::new().on_session(session_id);
        let work = self.work(name.into(), encoded(input), options);
        async move { decode_outcome(work.retry(&policy).await) }
    }

    /// Runs an activity with options, again after failures; the total timeout spans all attempts and waits.
    ///
    /// # Errors
    ///
    /// As [`schedule_activity_with_retry`](Self::schedule_activity_with_retry), or a text that begins with `timeout:`
    /// when a limit of the options passed.
    #[track_caller]
    pub fn schedule_activity_with_retry_options(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
        policy: RetryPolicy,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<String, String>> {
        let work = self.work(name.into(), input.into(), options);
        async move { work.limited(work.retry(&policy)).await }
    }

    #[track_caller]
    fn work(&self, name: String, input: String, options: ActivityOptions) -> Work<'_> {
        Work {
            ctx: self,
            name,
            input,
            options,
            location: Location::caller(),
        }
    }
}

/// An activity to be attempted, and where the author asked for it.
struct Work<'a> {
    ctx: &'a OrchestrationContext,
    name: String,
    input: String,
    options: ActivityOptions,
    location: &'static Location<'static>,
}

impl Work<'_> {
    /// The work, cut off by the total timeout if there is one.
    async fn limited(
        &self,
        work: impl Future<Output = Result<String, String>>,
    ) -> Result<String, String> {
        let Some(limit) = self.options.total_timeout else {
            return work.await;
        };
        let timer = self.ctx.set_timer(limit, self.location);
        match self.ctx.select2(work, timer).await {
            Either2::First(result) => result,
            Either2::Second(()) => Err(format!(
                "timeout: activity '{}' did not finish within {limit:?}",
                self.name
            )),
        }
    }

    /// One attempt under the options, without the total timeout.
    async fn attempt(&self) -> Result<String, String> {
        let mut work = self.ctx.call_activity_at(
            self.name.clone(),
            self.input.clone(),
            self.options.session_id.clone(),
            self.options.tag.clone(),
            self.location,
        );
        if self.options.surface_system_failures {
            work = work.surface_system_failures();
        }
        let Some(limit) = self.options.start_timeout else {
            return work.await;
        };
        let not_taken = self.ctx.set_timer(limit, self.location);
        match self.ctx.select2(&mut work, not_taken).await {
            Either2::First(result) => result,
            Either2::Second(()) => {
                let id = work.scheduling_event_id().unwrap_or_default();
                if self.was_claimed(id).await? {
                    work.await
                } else {
                    Err(format!(
                        "timeout: no worker took activity '{}' within {limit:?}",
                        self.name
                    ))
                }
            }
        }
    }

    /// Whether a worker ever claimed the attempt.
    async fn was_claimed(&self, activity_id: u64) -> Result<bool, String> {
        let question = self.ctx.call_activity_at(
            SYSCALL_ACTIVITY_CLAIMED.into(),
            activity_id.to_string(),
            None,
            None,
            self.location,
        );
        Ok(question.await? == "true")
    }

    async fn retry(&self, policy: &RetryPolicy) -> Result<String, String> {
        let attempts = policy.max_attempts.max(1);
        let mut attempt = 1;
        loop {
            let result = match policy.timeout {
                None => self.attempt().await,
                Some(limit) => match self.race_attempt(limit).await {
                    Either2::First(result) => result,
                    Either2::Second(()) => return Err("timeout: activity timed out".to_owned()),
                },
            };
            let error = match result {
                Ok(output) => return Ok(output),
                Err(error) if attempt == attempts => return Err(error),
                Err(error) => error,
            };
            self.note_retry(attempt, attempts, &error);
            let delay = policy.delay_for_attempt(attempt);
            if !delay.is_zero() {
                self.ctx.set_timer(delay, self.location).await;
            }
            attempt += 1;
        }
    }

    /// The attempt asks for its activity before the timer is set: that is the recorded order of the published engine.
    async fn race_attempt(&self, limit: Duration) -> Either2<Result<String, String>, ()> {
        let timer = async { self.ctx.set_timer(limit, self.location).await };
        self.ctx.select2(self.attempt(), timer).await
    }

    fn note_retry(&self, attempt: u32, attempts: u32, error: &str) {
        let name = &self.name;
        let session = self
            .options
            .session_id
            .as_ref()
            .map_or_else(String::new, |id| format!(" (session={id})"));
        self.ctx.trace_warn(format!(
            "Activity '{name}'{session} attempt {attempt}/{attempts} failed: {error}. Retrying..."
        ));
    }
}
