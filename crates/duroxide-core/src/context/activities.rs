//! Activities: plain, typed, on a session. Options and retries are in `attempts.rs`.

use std::panic::Location;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use super::OrchestrationContext;
use crate::attempt::AttemptLimits;
use crate::codec;
use crate::durable::{CommandKind, OperationKind, Resolution};
use crate::future::{DurableFuture, ScheduleKind};

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
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     ctx.schedule_activity("resize", input).await
    /// }
    /// ```
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
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let length: usize = ctx.schedule_activity_typed("measure", &input).await?;
    ///     Ok(format!("{length} bytes"))
    /// }
    /// ```
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
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     // Both run on the same worker, which may keep what the first one loaded.
    ///     ctx.schedule_activity_on_session("load", input.as_str(), "session-7").await?;
    ///     ctx.schedule_activity_on_session("render", input.as_str(), "session-7").await
    /// }
    /// ```
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

    #[track_caller]
    pub(super) fn call_activity(
        &self,
        name: String,
        input: String,
        session_id: Option<String>,
        tag: Option<String>,
    ) -> DurableFuture<Result<String, String>> {
        let kind = CommandKind::Activity {
            name,
            input,
            session_id,
            tag,
            attempt_of: None,
            limits: AttemptLimits::default(),
        };
        self.call_activity_as(kind, Location::caller())
    }

    pub(super) fn call_activity_as(
        &self,
        kind: CommandKind,
        location: &'static Location<'static>,
    ) -> DurableFuture<Result<String, String>> {
        let name = match &kind {
            CommandKind::Activity { name, .. } => name.clone(),
            _ => String::new(),
        };
        let slot = self
            .shared
            .deciding(location)
            .call(OperationKind::Activity, kind, location);
        let kind = ScheduleKind::Activity { name };
        DurableFuture::waiting(self.shared.clone(), slot, kind, Resolution::into_outcome)
    }
}

pub(super) fn encoded<T: Serialize + ?Sized>(value: &T) -> String {
    codec::encode(value).unwrap_or_else(|e| panic!("encode: {e}"))
}

pub(super) fn decode_outcome<T: DeserializeOwned>(
    outcome: Result<String, String>,
) -> Result<T, String> {
    codec::decode(&outcome?)
}
