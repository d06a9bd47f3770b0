//! One claimed activity from claim to completion. In: a claim. Out: a completion on its way to the store, or the claim
//! given back. Never waits for the store after the handler has ended; `complete.rs` does.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::replay::SYSCALL_AWAIT_INSTANCE;
use duroxide_core::{ErrorDetails, PoisonMessageType, Timeout, WorkItem};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::activity_parts::ActivityParts;
use super::awaiting::{self, Look};
use super::claimed::{ClaimedActivity, give_back};
use super::complete::Completion;
use super::limits::exceeded;
use super::wrong_kind;
use crate::activity::{ActivityContext, ActivityHandler, ActivityIdentity};
use crate::client::Client;
use crate::engine::{Engine, Registered};
use crate::leases::Attempt;
use crate::observability::code_spans;
use crate::options::OnUnregistered;
use crate::panics::panic_message;

/// How the handler ended.
enum Ended {
    With(Result<String, String>),
    /// The orchestration does not want the result any more.
    Cancelled,
    /// It exceeded a limit that the worker keeps.
    Exceeded(Timeout, Duration),
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

/// Runs one claimed activity.
pub(super) fn run<'a>(
    engine: &'a Arc<Engine>,
    claimed: ClaimedActivity,
    slot: usize,
) -> impl Future<Output = ()> + Send + 'a {
    // Taken apart before the future begins: an activity is on the heap once, and its futures hand it on.
    let work = ActivityParts::of(claimed);
    async move {
        let started = Instant::now();
        match work {
            Ok(work) => work.run(engine, slot).await,
            Err(other) => {
                let (lease, item) = *other;
                Box::pin(wrong_kind::dead_letter(engine, lease, &item)).await;
                return;
            }
        }
        engine
            .metrics
            .record_work_duration(started.elapsed().as_secs_f64() * 1_000.0);
    }
}

impl ActivityParts {
    /// What is rare is on the heap by itself: the task of every activity would have room for it otherwise.
    async fn run(self: Box<Self>, engine: &Arc<Engine>, slot: usize) {
        let mut is_lost = self.lease.lost().is_cancelled();
        is_lost &= !Defect::LostLeaseBegins.is_on();
        if is_lost {
            // Cancelled or taken over while it waited; its result is not wanted.
            if self.is_cancellation_excused() {
                engine.excuses.add(&self.key());
            }
            self.lease.end();
            return;
        }
        if self.name == SYSCALL_AWAIT_INSTANCE {
            return Box::pin(self.look_for_end(engine)).await;
        }
        let attempt = if self.attempt > engine.options.max_attempts {
            engine.excuses.discount(&self.key(), self.attempt)
        } else {
            self.attempt
        };
        let handler = engine.activities.resolve_handler(&self.name);
        let mut waits = engine.options.on_unregistered() == OnUnregistered::Wait;
        waits &= !Defect::MissingActivityCounts.is_on();
        match handler {
            None if waits => {
                Box::pin(self.wait_for_code(engine)).await;
            }
            _ if attempt > engine.options.max_attempts => Box::pin(self.poison(engine)).await,
            Some((_, handler)) => self.execute(engine, handler, slot).await,
            None => Box::pin(self.not_registered(engine)).await,
        }
    }

    async fn execute(
        mut self: Box<Self>,
        engine: &Arc<Engine>,
        handler: Arc<dyn ActivityHandler>,
        slot: usize,
    ) {
        let cancelled = self.lease.lost().clone();
        // What the attempt started is notified of its end, whatever ends it; the lease itself is needed to store that.
        let notice = cancelled.child_token();
        let ctx = self.context(engine, slot, notice.clone()).await;
        if self.lease.is_overdue() {
            // The answer to its claim came late, or it waited for long: another worker may run it already.
            Box::pin(self.lease.renew_now(engine.store.as_ref())).await;
        }
        let mut is_lost = cancelled.is_cancelled();
        is_lost &= !Defect::LostLeaseBegins.is_on();
        if is_lost {
            // It went while the activity waited here, or while the store named the orchestration.
            if self.is_cancellation_excused() {
                engine.excuses.add(&self.key());
            }
            self.lease.end();
            return;
        }
        let worker_id = ctx.worker_id().to_owned();
        line!(debug, "Activity started", self, worker_id);
        let started = Instant::now();
        let ended = self.invoke(engine, handler, ctx, &cancelled).await;
        // Its result is on the way; a request to cancel comes too late.
        let is_excused = self.is_cancellation_excused();
        let registered = self.registered.take();
        // Then it was excused already.
        let is_taken_over = registered.as_ref().is_some_and(Registered::is_taken_over);
        drop(registered);
        let seconds = started.elapsed().as_secs_f64();
        match ended {
            Ended::Cancelled => {
                engine
                    .metrics
                    .count_activity(&self.end("cancelled", seconds));
                if is_excused && !is_taken_over {
                    engine.excuses.add(&self.key());
                }
                self.lease.end();
            }
            Ended::With(result) => self.complete(engine, &worker_id, result, seconds).await,
            Ended::Exceeded(which, limit) => {
                notice.cancel();
                line!(warn, "Activity exceeded a time limit", self, worker_id, outcome = "app_error", limit = %which, limit_ms = limit.as_millis() as u64);
                Box::pin(self.save_heartbeat(engine)).await;
                let item = self.failed(which.to_details(&self.name, limit));
                self.store(engine, "app_error", item, seconds).await;
            }
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
                self.incarnation,
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
            call_execution: self.call_execution,
            attempt: self.attempt,
            worker_id: format!("work-{slot}-{node}"),
            session_id: self.session_id.clone(),
            tag: self.tag.clone(),
            trace: self.trace.clone(),
        };
        let shutdown = engine.stop.clone();
        let client = Client::new(Arc::clone(&engine.store))
            .with_payload_limit(engine.options.payload_bytes_max);
        ActivityContext::new(identity, cancelled, shutdown, client)
            .with_heartbeats(self.lease.heartbeats(self.first_attempt))
    }

    /// Runs the handler. A panic ends here. A handler that ignores its cancellation is dropped after the grace period.
    async fn invoke(
        &self,
        engine: &Engine,
        handler: Arc<dyn ActivityHandler>,
        ctx: ActivityContext,
        cancelled: &CancellationToken,
    ) -> Ended {
        let input = self.own_input().to_owned();
        let mut exceeded = pin!(exceeded(self.limits, ctx.beats()));
        let span = code_spans::activity(&self.activity, &self.name, self.attempt);
        let mut activity = pin!(async move { handler.invoke(ctx, input).await }.instrument(span));
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
            (which, limit) = &mut exceeded => Ended::Exceeded(which, limit),
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
        self: Box<Self>,
        engine: &Arc<Engine>,
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
        if result.is_err() {
            Box::pin(self.save_heartbeat(engine)).await;
        }
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
        self.store(engine, outcome, item, seconds).await;
    }

    /// Stores what the activity said last, for the attempt that may follow.
    async fn save_heartbeat(&self, engine: &Engine) {
        let length = engine.options.worker_lock_timeout;
        self.lease
            .store_last_heartbeat(engine.store.as_ref(), length)
            .await;
    }

    /// Counts the end and stores the completion.
    async fn store(
        self: Box<Self>,
        engine: &Arc<Engine>,
        outcome: &'static str,
        item: WorkItem,
        seconds: f64,
    ) {
        let end = self.end(outcome, seconds);
        // The instance may end with this result, and its client may look at the counters before this task goes on.
        engine.metrics.count_activity(&end);
        let span = self.span(engine, &item, seconds);
        let completion = Box::new(Completion {
            key: self.key(),
            lease: self.lease,
            item,
            end,
            execution_id: self.activity.execution_id,
            incarnation: self.incarnation,
            span,
            is_refused: false,
        });
        completion.store(engine).await;
    }

    /// Completes the activity if the awaited instance has ended; otherwise gives it back uncounted, to look again
    /// later.
    async fn look_for_end(self: Box<Self>, engine: &Arc<Engine>) {
        let item = match awaiting::look(engine, self.own_input()).await {
            Look::Later(pause) => {
                return give_back(engine, self.lease, Some(pause), Attempt::Uncounted).await;
            }
            Look::Ended(text) => self.completed(text),
            Look::Malformed(why) => self.failed(ErrorDetails::activity_failed(why)),
        };
        self.store(engine, "success", item, 0.0).await;
    }

    /// Leaves the activity to a node that has its handler.
    async fn wait_for_code(self: Box<Self>, engine: &Engine) {
        if engine.code_wanted.is_first_miss(&self.name) {
            line!(
                warn,
                "Activity not registered here; it waits for a node that has it",
                self,
                engine.runtime_id
            );
            engine.metrics.record_activity_config_error(&self.name);
        }
        let delay = engine.options.unregistered_backoff.delay(self.attempt);
        give_back(engine, self.lease, Some(delay), Attempt::Uncounted).await;
    }

    async fn not_registered(self: Box<Self>, engine: &Engine) {
        let delay = engine.options.unregistered_backoff.delay(self.attempt);
        let left = engine.options.max_attempts.saturating_sub(self.attempt);
        tracing::warn!(
            target: "duroxide::runtime",
            activity_name = %self.name,
            "Activity not registered, abandoning with {:.1}s backoff (will poison in {left} more attempts)",
            delay.as_secs_f64()
        );
        engine.metrics.record_activity_config_error(&self.name);
        give_back(engine, self.lease, Some(delay), Attempt::Counted).await;
    }

    async fn poison(self: Box<Self>, engine: &Arc<Engine>) {
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
        let item = self.failed(details);
        self.store(engine, "poison", item, 0.0).await;
    }
}
