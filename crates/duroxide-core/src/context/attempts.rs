//! Activities under options: time limits, surfaced failures, further attempts after a failure.
//!
//! The first attempt is asked for by the call, like any other activity; awaiting only observes. If the future is polled
//! before the attempt is recorded, the attempt takes its place where the poll is, because that is where earlier engines
//! recorded it.

use std::panic::Location;

use serde::{Serialize, de::DeserializeOwned};

use super::activities::{decode_outcome, encoded};
use super::{ActivityOptions, Either2, OrchestrationContext};
use crate::attempt::AttemptLimits;
use crate::durable::{CommandKind, SYSCALL_ACTIVITY_CLAIMED};
use crate::future::DurableFuture;
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
        let (work, begun) = self.work(name.into(), input.into(), options, None);
        async move {
            let (total, first) = work.begin(begun);
            let result = work.finish(first.attempt);
            work.limited(total, result).await
        }
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
        let options = ActivityOptions::new();
        let (work, begun) = self.work(name.into(), input.into(), options, Some(policy));
        async move { work.retry(begun).await }
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
        let options = ActivityOptions::new();
        let (work, begun) = self.work(name.into(), encoded(input), options, Some(policy));
        async move { decode_outcome(work.retry(begun).await) }
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
        let (work, begun) = self.work(name.into(), input.into(), options, Some(policy));
        async move { work.retry(begun).await }
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
        let (work, begun) = self.work(name.into(), encoded(input), options, Some(policy));
        async move { decode_outcome(work.retry(begun).await) }
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
        let (work, begun) = self.work(name.into(), input.into(), options, Some(policy));
        async move { work.retry(begun).await }
    }

    /// Asks for the first attempt and everything that limits it.
    #[track_caller]
    fn work(
        &self,
        name: String,
        input: String,
        options: ActivityOptions,
        policy: Option<RetryPolicy>,
    ) -> (Work<'_>, Begun) {
        let work = Work {
            ctx: self,
            name,
            input,
            options,
            policy,
            location: Location::caller(),
        };
        let total = work.options.total_timeout;
        let total = total.map(|limit| self.set_timer(limit, work.location));
        let first = work.ask(None);
        let slots = first.slots(total.as_ref());
        self.shared.deciding(work.location).may_come_later(&slots);
        (work, (total, first, slots))
    }
}

/// The limit over all attempts, the first attempt, and the slots of all that.
type Begun = (Option<DurableFuture<()>>, Limited, Vec<usize>);

/// An activity to be attempted, and where the author asked for it.
struct Work<'a> {
    ctx: &'a OrchestrationContext,
    name: String,
    input: String,
    options: ActivityOptions,
    /// `None` for a single attempt.
    policy: Option<RetryPolicy>,
    location: &'static Location<'static>,
}

/// One attempt as it was asked for.
struct Attempt {
    activity: DurableFuture<Result<String, String>>,
    /// Fires if no worker took it in time.
    not_taken: Option<DurableFuture<()>>,
}

/// One attempt and the limit on its time.
struct Limited {
    attempt: Attempt,
    too_long: Option<DurableFuture<()>>,
}

impl Limited {
    fn slots(&self, total: Option<&DurableFuture<()>>) -> Vec<usize> {
        let timers = [
            total,
            self.attempt.not_taken.as_ref(),
            self.too_long.as_ref(),
        ];
        let timers = timers.into_iter().flatten().filter_map(DurableFuture::slot);
        timers.chain(self.attempt.activity.slot()).collect()
    }
}

impl Work<'_> {
    /// Asks for one attempt. The activity comes before the timers that limit it: that is the recorded order of the
    /// published engine.
    fn ask(&self, attempt_of: Option<u64>) -> Limited {
        let kind = CommandKind::Activity {
            name: self.name.clone(),
            input: self.input.clone(),
            session_id: self.options.session_id.clone(),
            tag: self.options.tag.clone(),
            attempt_of,
            limits: AttemptLimits::default(),
        };
        let mut activity = self.ctx.call_activity_as(kind, self.location);
        if self.options.surface_system_failures {
            activity = activity.surface_system_failures();
        }
        let set = |limit| self.ctx.set_timer(limit, self.location);
        let not_taken = self.options.start_timeout.map(set);
        let too_long = self.policy.as_ref().and_then(|p| p.timeout).map(set);
        let attempt = Attempt {
            activity,
            not_taken,
        };
        Limited { attempt, too_long }
    }

    /// The future is polled for the first time: what the call asked for takes its place now, unless it is recorded.
    fn begin(&self, (total, first, slots): Begun) -> (Option<DurableFuture<()>>, Limited) {
        self.ctx.shared.cell().come_now(&slots);
        (total, first)
    }

    /// The work, cut off by the total timeout if there is one.
    async fn limited(
        &self,
        total: Option<DurableFuture<()>>,
        work: impl Future<Output = Result<String, String>>,
    ) -> Result<String, String> {
        let (Some(timer), Some(limit)) = (total, self.options.total_timeout) else {
            return work.await;
        };
        match self.ctx.select2(work, timer).await {
            Either2::First(result) => result,
            Either2::Second(()) => Err(format!(
                "timeout: activity '{}' did not finish within {limit:?}",
                self.name
            )),
        }
    }

    /// The result of one attempt, without the limits on its time.
    async fn finish(&self, attempt: Attempt) -> Result<String, String> {
        let Attempt {
            mut activity,
            not_taken,
        } = attempt;
        let (Some(not_taken), Some(limit)) = (not_taken, self.options.start_timeout) else {
            return activity.await;
        };
        match self.ctx.select2(&mut activity, not_taken).await {
            Either2::First(result) => result,
            Either2::Second(()) => {
                let id = activity.scheduling_event_id().unwrap_or_default();
                if self.ctx.was_claimed(id, self.location).await? {
                    activity.await
                } else {
                    Err(format!(
                        "timeout: no worker took activity '{}' within {limit:?}",
                        self.name
                    ))
                }
            }
        }
    }
}

impl OrchestrationContext {
    /// Whether a worker ever claimed an activity of this execution.
    pub(super) async fn was_claimed(
        &self,
        activity_id: u64,
        location: &'static Location<'static>,
    ) -> Result<bool, String> {
        let question = CommandKind::Activity {
            name: SYSCALL_ACTIVITY_CLAIMED.into(),
            input: activity_id.to_string(),
            session_id: None,
            tag: None,
            attempt_of: None,
            limits: AttemptLimits::default(),
        };
        let answer = self.call_activity_as(question, location);
        Ok(answer.await? == "true")
    }
}

impl Work<'_> {
    async fn retry(&self, begun: Begun) -> Result<String, String> {
        let (total, first) = self.begin(begun);
        let policy = self.policy.clone().unwrap_or_else(|| RetryPolicy::new(1));
        // Boxed: combinators would hold a copy of all of it at each of their steps.
        let attempts = Box::pin(self.attempts(first, &policy));
        self.limited(total, attempts).await
    }

    async fn attempts(&self, first: Limited, policy: &RetryPolicy) -> Result<String, String> {
        let slot = first.attempt.activity.slot();
        let attempts = policy.max_attempts.max(1);
        let mut number = 1;
        let mut next = first;
        loop {
            let result = match next.too_long {
                None => self.finish(next.attempt).await,
                Some(timer) => match self.ctx.select2(self.finish(next.attempt), timer).await {
                    Either2::First(result) => result,
                    Either2::Second(()) => return Err("timeout: activity timed out".to_owned()),
                },
            };
            let error = match result {
                Ok(output) => return Ok(output),
                Err(error) if number == attempts => return Err(error),
                Err(error) => error,
            };
            self.note_retry(number, attempts, &error);
            let delay = policy.delay_for_attempt(number);
            if !delay.is_zero() {
                self.ctx.set_timer(delay, self.location).await;
            }
            number += 1;
            let recorded = |slot| self.ctx.shared.cell().operations.get(slot).event_id();
            next = self.ask(slot.and_then(recorded));
        }
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
