//! One claimed activity from claim to completion.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use duroxide_core::provider::{ClaimedWork, ScheduledActivityIdentifier};
use duroxide_core::{ErrorDetails, PoisonMessageType, WorkItem, attempt_of};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::stray;
use crate::activity::{ActivityContext, ActivityHandler, ActivityIdentity};
use crate::engine::Engine;
use crate::leases::{Held, Leased};
use crate::options::renewal_interval;

/// Pauses between tries of one acknowledgement while the store says "later".
const RETRY_PAUSES_MS: [u64; 7] = [10, 20, 40, 80, 160, 320, 640];
/// How long an activity rests whose result could not be stored.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// What was claimed, taken apart.
struct Work {
    activity: ScheduledActivityIdentifier,
    /// The first attempt of the call, by its scheduling event.
    first_attempt: u64,
    name: String,
    /// As the work item has it; see [`attempt_of`].
    input: String,
    session_id: Option<String>,
    tag: Option<String>,
    lock_token: String,
    attempt: u32,
}

/// How the handler ended.
enum Ended {
    With(Result<String, String>),
    /// Nobody wants the result any more.
    Cancelled,
}

/// A log line about an activity, with the fields that all of them have.
macro_rules! line {
    ($level:ident, $message:literal, $work:expr, $worker_id:expr $(, $($field:tt)+)?) => {
        tracing::$level!(
            target: "duroxide::runtime",
            instance_id = %$work.activity.instance, execution_id = $work.activity.execution_id,
            activity_name = %$work.name, activity_id = $work.activity.activity_id,
            worker_id = %$worker_id, activity_tag = $work.tag.as_deref().unwrap_or("default"),
            $($($field)+,)?
            $message
        )
    };
}

/// A claimed activity whose lease is kept from now on, also while it waits for a slot or for its session.
pub(super) struct Claimed {
    pub(super) work: ClaimedWork,
    lease: Held,
}

impl Claimed {
    pub(super) fn keep(engine: &Engine, work: ClaimedWork) -> Self {
        let timeout = engine.options.worker_lock_timeout;
        let interval = renewal_interval(timeout, engine.options.worker_lock_renewal_buffer);
        let lease = engine
            .leases
            .hold(Leased::Work, &work.lock_token, timeout, interval);
        Self { work, lease }
    }

    /// Gives it back untried.
    pub(super) async fn give_back(self, engine: &Engine, delay: Option<Duration>) {
        let token = &self.work.lock_token;
        if let Err(error) = engine.store.abandon_work_item(token, delay, true).await {
            tracing::debug!(target: "duroxide::runtime::worker", %error, "giving back an activity failed, its lease will run out");
        }
    }
}

/// Runs one claimed activity.
pub(super) async fn run(engine: &Arc<Engine>, claimed: Claimed, slot: usize) {
    let started = Instant::now();
    let Claimed { work, lease: held } = claimed;
    let Some(work) = Work::of(work, engine).await else {
        return;
    };
    if work.attempt > engine.options.max_attempts {
        work.poison(engine).await;
    } else if let Some((_, handler)) = engine.activities.resolve_handler(&work.name) {
        work.execute(engine, handler, &held, slot).await;
    } else {
        work.not_registered(engine).await;
    }
    engine
        .metrics
        .record_work_duration(started.elapsed().as_secs_f64() * 1_000.0);
}

impl Work {
    /// Takes the claim apart. Something that is not an activity has no business here: it is set aside.
    async fn of(claimed: ClaimedWork, engine: &Engine) -> Option<Self> {
        match claimed.item {
            WorkItem::ActivityExecute {
                instance,
                execution_id,
                id,
                name,
                input,
                session_id,
                tag,
            } => Some(Self {
                activity: ScheduledActivityIdentifier {
                    instance,
                    execution_id,
                    activity_id: id,
                },
                first_attempt: attempt_of(&input).0.unwrap_or(id),
                name,
                input,
                session_id,
                tag,
                lock_token: claimed.lock_token,
                attempt: claimed.attempt_count,
            }),
            other => {
                stray::set_aside(engine, &claimed.lock_token, &other).await;
                None
            }
        }
    }

    async fn execute(
        self,
        engine: &Arc<Engine>,
        handler: Arc<dyn ActivityHandler>,
        held: &Held,
        slot: usize,
    ) {
        let cancelled = held.lost().clone();
        let registered =
            engine
                .running
                .register(self.activity.clone(), &self.lock_token, cancelled.clone());
        let ctx = self.context(engine, slot, cancelled.clone()).await;
        let worker_id = ctx.worker_id().to_owned();
        line!(debug, "Activity started", self, worker_id);
        let started = Instant::now();
        let ended = self.invoke(engine, handler, ctx, &cancelled).await;
        drop(registered);
        let seconds = started.elapsed().as_secs_f64();
        match ended {
            Ended::Cancelled => self.note(engine, "cancelled", seconds),
            Ended::With(result) => self.complete(engine, &worker_id, result, seconds).await,
        }
    }

    async fn context(
        &self,
        engine: &Engine,
        slot: usize,
        cancelled: CancellationToken,
    ) -> ActivityContext {
        let (orchestration_name, orchestration_version) = engine
            .names
            .of(
                engine.store.as_ref(),
                &self.activity.instance,
                self.activity.execution_id,
            )
            .await;
        let node = engine
            .options
            .worker_node_id
            .as_ref()
            .unwrap_or(&engine.runtime_id);
        let identity = ActivityIdentity {
            instance_id: self.activity.instance.clone(),
            execution_id: self.activity.execution_id,
            orchestration_name,
            orchestration_version,
            activity_name: self.name.clone(),
            activity_id: self.activity.activity_id,
            first_attempt: self.first_attempt,
            attempt: self.attempt,
            worker_id: format!("work-{slot}-{node}"),
            session_id: self.session_id.clone(),
            tag: self.tag.clone(),
        };
        let shutdown = engine.stop.clone();
        ActivityContext::new(identity, cancelled, shutdown, Arc::clone(&engine.store))
    }

    /// Runs the handler. A panic stays there, and a deaf one is dropped when its time is up.
    async fn invoke(
        &self,
        engine: &Engine,
        handler: Arc<dyn ActivityHandler>,
        ctx: ActivityContext,
        cancelled: &CancellationToken,
    ) -> Ended {
        let input = attempt_of(&self.input).1.to_owned();
        let mut activity = pin!(async move { handler.invoke(ctx, input).await });
        let mut task = poll_fn(move |cx| {
            match catch_unwind(AssertUnwindSafe(|| activity.as_mut().poll(cx))) {
                Ok(polled) => polled.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        tokio::select! {
            biased;
            done = &mut task => {
                // A result that arrives together with the notice is not wanted either.
                if cancelled.is_cancelled() {
                    return Ended::Cancelled;
                }
                Ended::With(match done {
                    Ok(result) => result,
                    Err(panic) => Err(panic_message(panic.as_ref())),
                })
            }
            () = cancelled.cancelled() => {
                let grace = engine.options.activity_cancellation_grace_period;
                tracing::info!(
                    target: "duroxide::runtime",
                    instance_id = %self.activity.instance, activity_name = %self.name,
                    grace_ms = grace.as_millis() as u64,
                    "Orchestration terminated, waiting for activity grace period"
                );
                if tokio::time::timeout(grace, &mut task).await.is_err() {
                    tracing::debug!(
                        target: "duroxide::runtime",
                        instance_id = %self.activity.instance, activity_name = %self.name,
                        "Activity did not finish within grace period; aborting"
                    );
                }
                Ended::Cancelled
            }
        }
    }

    async fn complete(
        self,
        engine: &Engine,
        worker_id: &str,
        result: Result<String, String>,
        seconds: f64,
    ) {
        let what = format!("Activity '{}' result", self.name);
        let result = result.and_then(|text| match engine.limits.too_large(&what, &text) {
            Some(violation) => Err(violation),
            None => Ok(text),
        });
        let result = result.map_err(|text| match engine.limits.too_large(&what, &text) {
            Some(violation) => violation,
            None => text,
        });
        let duration_ms = (seconds * 1_000.0) as u64;
        let (outcome, item) = match result {
            Ok(result) => {
                line!(
                    debug,
                    "Activity completed",
                    self,
                    worker_id,
                    outcome = "success",
                    duration_ms,
                    result_size = result.len()
                );
                ("success", self.completed(result))
            }
            Err(error) => {
                line!(warn, "Activity failed (application error)", self, worker_id, outcome = "app_error", duration_ms, error = %error);
                (
                    "app_error",
                    self.failed(ErrorDetails::activity_failed(error)),
                )
            }
        };
        if self.acknowledge(engine, item).await {
            self.note(engine, outcome, seconds);
        }
    }

    fn completed(&self, result: String) -> WorkItem {
        let activity = self.activity.clone();
        WorkItem::ActivityCompleted {
            instance: activity.instance,
            execution_id: activity.execution_id,
            id: activity.activity_id,
            result,
        }
    }

    fn failed(&self, details: ErrorDetails) -> WorkItem {
        let activity = self.activity.clone();
        WorkItem::ActivityFailed {
            instance: activity.instance,
            execution_id: activity.execution_id,
            id: activity.activity_id,
            details,
        }
    }

    fn note(&self, engine: &Engine, outcome: &'static str, seconds: f64) {
        engine.metrics.record_activity(
            &self.name,
            outcome,
            self.attempt,
            self.tag.as_deref(),
            seconds,
        );
    }

    /// Stores the completion; false if it could not be stored and the activity will run again.
    async fn acknowledge(&self, engine: &Engine, item: WorkItem) -> bool {
        let mut pauses = RETRY_PAUSES_MS.iter();
        loop {
            let result = engine
                .store
                .ack_work_item(&self.lock_token, Some(item.clone()))
                .await;
            let error = match result {
                Ok(()) => {
                    engine.turns_ready.notify_one();
                    return true;
                }
                Err(error) => error,
            };
            match pauses.next() {
                Some(ms) if error.is_retryable() => {
                    tokio::time::sleep(Duration::from_millis(*ms)).await;
                }
                _ if !error.is_lease_lost() => {
                    tracing::warn!(target: "duroxide::runtime::worker", %error, "worker: atomic ack failed, abandoning work item");
                    engine.metrics.record_activity_infra_error(&self.name);
                    self.abandon(engine, RETRY_DELAY, false).await;
                    return false;
                }
                _ => {
                    // The lease is gone: cancelled, or taken over by another worker that answers instead.
                    tracing::debug!(target: "duroxide::runtime::worker", %error, "result discarded, the activity's lease is gone");
                    return false;
                }
            }
        }
    }

    async fn abandon(&self, engine: &Engine, delay: Duration, ignore_attempt: bool) {
        let given_back = engine
            .store
            .abandon_work_item(&self.lock_token, Some(delay), ignore_attempt)
            .await;
        if let Err(error) = given_back {
            tracing::debug!(target: "duroxide::runtime::worker", %error, "giving back an activity failed, its lease will run out");
        }
    }

    async fn not_registered(self, engine: &Engine) {
        let delay = engine.options.unregistered_backoff.delay(self.attempt);
        let left = engine.options.max_attempts.saturating_sub(self.attempt);
        tracing::warn!(
            target: "duroxide::runtime",
            activity_name = %self.name,
            "Activity not registered, abandoning with {:.1}s backoff (will poison in {left} more attempts)",
            delay.as_secs_f64()
        );
        engine.metrics.record_activity_config_error(&self.name);
        self.abandon(engine, delay, false).await;
    }

    async fn poison(self, engine: &Engine) {
        let item = WorkItem::ActivityExecute {
            instance: self.activity.instance.clone(),
            execution_id: self.activity.execution_id,
            id: self.activity.activity_id,
            name: self.name.clone(),
            input: self.input.clone(),
            session_id: self.session_id.clone(),
            tag: self.tag.clone(),
        };
        let details = ErrorDetails::Poison {
            attempt_count: self.attempt,
            max_attempts: engine.options.max_attempts,
            message_type: PoisonMessageType::Activity {
                instance: self.activity.instance.clone(),
                execution_id: self.activity.execution_id,
                activity_name: self.name.clone(),
                activity_id: self.activity.activity_id,
            },
            message: serde_json::to_string(&item).unwrap_or_default(),
        };
        tracing::error!(
            target: "duroxide::runtime",
            instance_id = %self.activity.instance, activity_name = %self.name,
            error = %details.display_message(),
            "Activity poisoned"
        );
        if self.acknowledge(engine, self.failed(details)).await {
            engine.metrics.record_activity_poison();
        }
    }
}

/// The words of a panic, without the number of the task that happened to run it.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    match text {
        Some(text) => format!("activity panicked: {text}"),
        None => "activity panicked".to_owned(),
    }
}
