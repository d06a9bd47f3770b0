//! What activities are given, and how the engine calls them. In: a claimed activity with its lease. Out: a context with
//! its identity, its cancellation and its heartbeats. The worker keeps the lease; nothing here does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::TraceContext;
use duroxide_core::provider::{Provider, ScheduledActivityIdentifier};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientError};
use crate::leases::Heartbeats;

/// An activity: real work, run at least once.
#[async_trait]
pub trait ActivityHandler: Send + Sync {
    /// Runs the activity.
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String>;
}

/// An async function as an [`ActivityHandler`].
#[derive(Debug, Clone)]
pub struct FnActivity<F, Fut>(pub F)
where
    F: Fn(ActivityContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static;

#[async_trait]
impl<F, Fut> ActivityHandler for FnActivity<F, Fut>
where
    F: Fn(ActivityContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String> {
        (self.0)(ctx, input).await
    }
}

/// Who an activity runs for.
#[derive(Debug, Clone)]
pub(crate) struct ActivityIdentity {
    pub(crate) instance_id: String,
    pub(crate) execution_id: u64,
    pub(crate) orchestration_name: String,
    pub(crate) orchestration_version: String,
    pub(crate) activity_name: String,
    pub(crate) activity_id: u64,
    pub(crate) first_attempt: u64,
    /// The execution that made the call.
    pub(crate) call_execution: u64,
    pub(crate) attempt: u32,
    pub(crate) worker_id: String,
    pub(crate) session_id: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) trace: Option<TraceContext>,
}

/// How long an activity waits before it asks a store again that is out of reach, at first and in the end.
const ASK_AGAIN_AFTER_MIN: Duration = Duration::from_millis(20);
const ASK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(1);

/// What an activity knows about itself, and how it learns that it is no longer wanted.
///
/// ```
/// use duroxide::ActivityContext;
///
/// async fn transfer(ctx: ActivityContext, input: String) -> Result<String, String> {
///     // The same in every attempt: hand it to the service that must not do this twice.
///     let key = ctx.idempotency_key();
///     ctx.trace_info(format!("transferring {input} as {key}, attempt {}", ctx.attempt()));
///     if ctx.is_cancelled() {
///         return Err("no longer wanted".to_owned());
///     }
///     Ok(key)
/// }
/// ```
#[derive(Clone)]
pub struct ActivityContext {
    identity: Arc<ActivityIdentity>,
    cancelled: CancellationToken,
    shutdown: CancellationToken,
    client: Client,
    /// One permit per heartbeat.
    beats: Arc<Notify>,
    /// Absent in unit tests, where no worker keeps a lease.
    heartbeats: Option<Heartbeats>,
}

impl ActivityContext {
    pub(crate) fn new(
        identity: ActivityIdentity,
        cancelled: CancellationToken,
        shutdown: CancellationToken,
        client: Client,
    ) -> Self {
        Self {
            identity: Arc::new(identity),
            cancelled,
            shutdown,
            client,
            beats: Arc::default(),
            heartbeats: None,
        }
    }

    /// With a way to the keeper of its lease.
    pub(crate) fn with_heartbeats(mut self, heartbeats: Heartbeats) -> Self {
        self.heartbeats = Some(heartbeats);
        self
    }

    /// A context of its own, outside any worker, for unit tests of an activity: attempt 1 of activity 1 of the instance
    /// `test`. Its client works on the given store; nothing ever cancels it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), String> {
    /// use duroxide::providers::memory::MemoryProvider;
    /// use duroxide::ActivityContext;
    /// use std::sync::Arc;
    ///
    /// async fn greet(ctx: ActivityContext, name: String) -> Result<String, String> {
    ///     Ok(format!("Hello, {name}! ({})", ctx.idempotency_key()))
    /// }
    ///
    /// let ctx = ActivityContext::for_unit_test("greet", Arc::new(MemoryProvider::new()));
    /// assert_eq!(greet(ctx, "Rust".to_owned()).await?, "Hello, Rust! (test/1/1)");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn for_unit_test(activity: &str, store: Arc<dyn Provider>) -> Self {
        let identity = ActivityIdentity {
            instance_id: "test".to_owned(),
            execution_id: 1,
            orchestration_name: "test".to_owned(),
            orchestration_version: "1.0.0".to_owned(),
            activity_name: activity.to_owned(),
            activity_id: 1,
            first_attempt: 1,
            call_execution: 1,
            attempt: 1,
            worker_id: "test".to_owned(),
            session_id: None,
            tag: None,
            trace: None,
        };
        let (cancelled, shutdown) = (CancellationToken::new(), CancellationToken::new());
        Self::new(identity, cancelled, shutdown, Client::new(store))
    }

    pub(crate) fn beats(&self) -> Arc<Notify> {
        Arc::clone(&self.beats)
    }

    /// The place of this activity in the trace that its orchestration was started in; `None` if that was started
    /// without one. Hand `traceparent` and `tracestate` to the services that the activity calls. The id of the span is
    /// the same in every attempt.
    ///
    /// ```
    /// use duroxide::ActivityContext;
    ///
    /// async fn fetch(ctx: ActivityContext, url: String) -> Result<String, String> {
    ///     let header = ctx.trace_context().map(|trace| trace.traceparent());
    ///     Ok(format!("GET {url}, traceparent: {}", header.unwrap_or_default()))
    /// }
    /// ```
    #[must_use]
    pub fn trace_context(&self) -> Option<&TraceContext> {
        self.identity.trace.as_ref()
    }

    /// Says that the activity lives. A call with a [`heartbeat_timeout`](duroxide_core::Call::heartbeat_timeout) ends
    /// the attempt when this is not said for that long. It costs next to nothing and stores nothing.
    pub fn alive(&self) {
        self.beats.notify_one();
    }

    /// Says that the activity lives, as [`alive`](Self::alive) does, and how far it is. The next attempt of the same
    /// call, after a crash, a shutdown, a time limit or an error, finds the details with
    /// [`last_heartbeat`](Self::last_heartbeat) and need not begin at the beginning.
    ///
    /// Call it as often as is convenient: the details are stored with the renewals of the activity's lease, at most
    /// once in [`activity_heartbeat_interval`](crate::RuntimeOptions::activity_heartbeat_interval), and before an
    /// attempt that fails is reported. A process that dies takes what it said in that interval with it. Details that do
    /// not serialise, or exceed the payload limit, are logged and not stored.
    ///
    /// ```
    /// use duroxide::prelude::*;
    ///
    /// #[duroxide::activity]
    /// async fn import(ctx: ActivityContext, rows: u64) -> Result<u64, String> {
    ///     let done = ctx.last_heartbeat::<u64>().await.map_err(|error| error.to_string())?;
    ///     for row in done.unwrap_or(0)..rows {
    ///         // … import one row …
    ///         ctx.heartbeat(&(row + 1));
    ///     }
    ///     Ok(rows)
    /// }
    /// # let _ = Handlers::new().register(import);
    /// ```
    pub fn heartbeat<T: Serialize + ?Sized>(&self, details: &T) {
        self.alive();
        let Some(heartbeats) = &self.heartbeats else {
            return;
        };
        match self.client.encoded(details, "heartbeat") {
            Ok(details) => heartbeats.say(details),
            Err(error) => self.trace_warn(format!("a heartbeat cannot be stored: {error}")),
        }
    }

    /// What an earlier attempt of the same call said last with [`heartbeat`](Self::heartbeat); `None` if none said
    /// anything. The store is asked when this is called, so activities that do not ask pay nothing. While the store is
    /// out of reach this waits, for as long as the result of the activity is wanted.
    ///
    /// # Errors
    ///
    /// When the store refuses to answer, when the details are not of this type, and when the activity has lost its
    /// lease meanwhile: what is stored may be of another one by now.
    pub async fn last_heartbeat<T: DeserializeOwned>(&self) -> Result<Option<T>, ClientError> {
        let identity = &self.identity;
        // The call may be one of an earlier execution, which failed and was rewound. What was said last counts.
        let own_first = (identity.call_execution..=identity.execution_id).rev();
        for execution_id in own_first {
            let call = ScheduledActivityIdentifier {
                instance: identity.instance_id.clone(),
                execution_id,
                activity_id: identity.first_attempt,
            };
            if let Some(said) = self.said_last(&call).await? {
                self.confirm_lease().await?;
                return Ok(Some(said));
            }
        }
        Ok(None)
    }

    async fn said_last<T: DeserializeOwned>(
        &self,
        call: &ScheduledActivityIdentifier,
    ) -> Result<Option<T>, ClientError> {
        let mut pause = ASK_AGAIN_AFTER_MIN;
        loop {
            match self.client.last_heartbeat(call).await {
                Err(error) if self.asks_again(&error, &mut pause).await => {}
                answer => return answer,
            }
        }
    }

    /// What was read is of this life of the instance only if the activity still has its lease.
    async fn confirm_lease(&self) -> Result<(), ClientError> {
        let Some(heartbeats) = &self.heartbeats else {
            return Ok(());
        };
        let mut pause = ASK_AGAIN_AFTER_MIN;
        loop {
            match self.client.confirm(heartbeats).await {
                Err(error) if self.asks_again(&error, &mut pause).await => {}
                answer => return answer,
            }
        }
    }

    /// Whether the store is to be asked again, after a pause. An outage is no failure of the activity; its loss of the
    /// lease ends the wait.
    async fn asks_again(&self, error: &ClientError, pause: &mut Duration) -> bool {
        if !error.is_retryable() || self.is_cancelled() {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(*pause) => {}
            () = self.cancelled() => {}
        }
        *pause = (*pause * 2).min(ASK_AGAIN_AFTER_MAX);
        true
    }

    /// The instance that scheduled the activity.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        &self.identity.instance_id
    }

    /// Its execution.
    #[must_use]
    pub fn execution_id(&self) -> u64 {
        self.identity.execution_id
    }

    /// Name of the orchestration; `"unknown"` if the store no longer knows it.
    #[must_use]
    pub fn orchestration_name(&self) -> &str {
        &self.identity.orchestration_name
    }

    /// Version of the orchestration; `"unknown"` if the store no longer knows it.
    #[must_use]
    pub fn orchestration_version(&self) -> &str {
        &self.identity.orchestration_version
    }

    /// Registered name of the activity.
    #[must_use]
    pub fn activity_name(&self) -> &str {
        &self.identity.activity_name
    }

    /// Number of the activity within its execution. Each attempt of a retry policy has a number of its own; see
    /// [`idempotency_key`](Self::idempotency_key).
    #[must_use]
    pub fn activity_id(&self) -> u64 {
        self.identity.activity_id
    }

    /// A key that is the same in every attempt of one call, whether a worker died, a retry policy tries again or an
    /// operator retries the failed instance, and another one for every other call. Instance, the execution that made
    /// the call and the number of the first attempt, as `order-7/1/2`.
    ///
    /// An id that is used again after its instance was deleted uses its keys again. Give every piece of business an id
    /// of its own, or put something of the input in front.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        let identity = &self.identity;
        format!(
            "{}/{}/{}",
            identity.instance_id, identity.call_execution, identity.first_attempt
        )
    }

    /// How often this activity was taken by a worker, this time included.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.identity.attempt
    }

    /// The worker slot it runs on.
    #[must_use]
    pub fn worker_id(&self) -> &str {
        &self.identity.worker_id
    }

    /// The session it is bound to.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.identity.session_id.as_deref()
    }

    /// The tag it was routed by.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.identity.tag.as_deref()
    }

    /// Whether the result is no longer wanted.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Resolves when the result is no longer wanted.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// The same notice as a token, for tasks the activity starts.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// A token that fires when the runtime begins to shut down. An activity that does not finish within the grace
    /// period is aborted and runs again later.
    #[must_use]
    pub fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// A client on the same store, with the payload limit of the runtime.
    #[must_use]
    pub fn get_client(&self) -> Client {
        self.client.clone()
    }

    /// Logs at INFO.
    pub fn trace_info(&self, message: impl Into<String>) {
        emit!(info, self, message);
    }

    /// Logs at WARN.
    pub fn trace_warn(&self, message: impl Into<String>) {
        emit!(warn, self, message);
    }

    /// Logs at ERROR.
    pub fn trace_error(&self, message: impl Into<String>) {
        emit!(error, self, message);
    }

    /// Logs at DEBUG.
    pub fn trace_debug(&self, message: impl Into<String>) {
        emit!(debug, self, message);
    }
}

macro_rules! emit {
    ($level:ident, $ctx:expr, $message:expr) => {{
        let identity = &$ctx.identity;
        tracing::$level!(
            target: "duroxide::activity",
            instance_id = %identity.instance_id,
            execution_id = identity.execution_id,
            orchestration_name = %identity.orchestration_name,
            orchestration_version = %identity.orchestration_version,
            activity_name = %identity.activity_name,
            activity_id = identity.activity_id,
            worker_id = %identity.worker_id,
            "{}",
            $message.into()
        );
    }};
}
use emit;

impl fmt::Debug for ActivityContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActivityContext")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
