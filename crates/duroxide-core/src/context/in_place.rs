//! Small effects that run in place: no queue, no worker, one commit. In: the author's closure. Out: its recorded
//! result.

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::OrchestrationContext;
use super::trying::{Rules, Stored, Trying, read};
use crate::attempt::AttemptLimits;
use crate::codec;
use crate::definition::{ActivityError, Payload, Retry, Retryable};
use crate::durable::{CommandKind, InPlace, InPlaceFuture, OperationKind, SYSCALL_RUN_PREFIX};
use crate::future::{DurableFuture, ScheduleKind};

type Body = Arc<dyn Fn() -> InPlaceFuture + Send + Sync>;

impl OrchestrationContext {
    /// Runs a small effect in place and records its result: the runtime drives the closure's future within the turn,
    /// and what it gives is stored by the turn's own commit. Replay does not run it again.
    ///
    /// Rules:
    ///
    /// - It runs **at least once**: a crash before the commit, or a commit that the store refuses, runs it again.
    /// - Keep it short. The instance does nothing else meanwhile, a request to cancel waits, and no tag can route it to
    ///   another worker. What takes longer than a second or so, or must survive on its own, is an activity.
    /// - Its code may do what the orchestration's may not: read clocks and files, call servers, await anything of
    ///   tokio. It cannot use the context.
    /// - An attempt that hangs is given up alone, with `TimedOut`: after [`Run::timeout`], and after a third of what a
    ///   turn may take (20 seconds by default) in any case. What it did until then may have had its effect.
    /// - Failed and timed-out attempts are repeated by [`Run::retry`], with durable pauses, like those of an activity.
    /// - The name is recorded, and replay compares it.
    ///
    /// ```
    /// use duroxide_core::{OrchestrationContext, RetryPolicy};
    ///
    /// async fn example(ctx: OrchestrationContext, path: String) -> Result<usize, String> {
    ///     let size = ctx
    ///         .run("size", move || {
    ///             let path = path.clone();
    ///             async move { std::fs::read(&path).map(|bytes| bytes.len()).map_err(|e| e.to_string()) }
    ///         })
    ///         .retry(RetryPolicy::exponential(3))
    ///         .await?;
    ///     Ok(size)
    /// }
    /// ```
    #[track_caller]
    pub fn run<T, E, F, Fut>(&self, name: impl AsRef<str>, work: F) -> Run<T, E>
    where
        T: Payload,
        E: Payload,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let body: Body = Arc::new(move || {
            let work = work();
            Box::pin(async move {
                match work.await {
                    Ok(value) => codec::encode(&value),
                    Err(error) => Err(codec::encode(&error)?),
                }
            })
        });
        let location = Location::caller();
        let name = format!("{SYSCALL_RUN_PREFIX}{}", name.as_ref());
        Run {
            state: State::Asked {
                first: self.ask_in_place(&name, &body, None, location),
                ctx: self.clone(),
                rules: None,
            },
            name,
            body,
            limit: None,
            location,
        }
    }

    fn ask_in_place(
        &self,
        name: &str,
        body: &Body,
        limit: Option<Duration>,
        location: &'static Location<'static>,
    ) -> Asked {
        let kind = CommandKind::Activity {
            name: name.to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
            attempt_of: None,
            limits: AttemptLimits::default(),
        };
        let body = Arc::clone(body);
        let mut cell = self.shared.deciding(location);
        let slot = cell.call(OperationKind::Activity, kind, location);
        cell.operations.get_mut(slot).surfaces_failures = true;
        let work = Box::new(move || body());
        cell.in_place.insert(slot, InPlace { work, limit });
        drop(cell);
        let kind = ScheduleKind::Activity {
            name: name.to_owned(),
        };
        let ctx = self.clone();
        DurableFuture::waiting(self.shared.clone(), slot, kind, move |resolution| {
            // Dropped after the lock: what the author's closure holds may ask for it.
            let work = ctx.shared.cell().in_place.remove(&slot);
            drop(work);
            resolution.into_details()
        })
    }
}

type Asked = DurableFuture<Stored>;
type Running<T, E> = Pin<Box<dyn Future<Output = Result<T, ActivityError<E>>> + Send>>;

/// An effect that runs in place; see [`OrchestrationContext::run`].
#[must_use = "dropping it cancels it; await it, or keep it"]
pub struct Run<T, E> {
    state: State<T, E>,
    name: String,
    body: Body,
    limit: Option<Duration>,
    location: &'static Location<'static>,
}

enum State<T, E> {
    Asked {
        ctx: OrchestrationContext,
        first: Asked,
        rules: Option<Box<Rules<E>>>,
    },
    Trying(Running<T, E>),
    Done,
}

impl<T: Payload, E: Payload> Run<T, E> {
    /// Tries again after failures whose error is [`Retryable`], and after attempts that timed out, unless the policy
    /// says otherwise. A limit of the policy for one attempt is kept as [`timeout`](Self::timeout) is.
    ///
    /// An error of your own says whether trying again may help, or this does not compile; texts and numbers may be
    /// tried again always.
    ///
    /// ```
    /// use duroxide_core::{ActivityError, OrchestrationContext, Retry, Retryable};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Debug, Serialize, Deserialize)]
    /// enum LookError {
    ///     NoSuchHost,
    ///     Busy,
    /// }
    /// impl Retryable for LookError {
    ///     fn is_retryable(&self) -> bool {
    ///         matches!(self, Self::Busy)
    ///     }
    /// }
    ///
    /// async fn example(ctx: OrchestrationContext) -> Result<u64, ActivityError<LookError>> {
    ///     let look = ctx.run("look", || async { Err::<u64, _>(LookError::NoSuchHost) });
    ///     look.retry(Retry::exponential(5)).await // one attempt
    /// }
    /// ```
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self
    where
        E: Retryable,
    {
        let retry: Retry = retry.into();
        if let Some(total) = retry.total_limit() {
            self = self.schedule_to_close(total);
        }
        if let Some(limit) = retry.attempt_limit() {
            self = self.timeout(limit);
        }
        if let Some((_, rules)) = self.rules() {
            rules.retry = Some(retry);
            rules.retry_if.push(Box::new(E::is_retryable));
        }
        self
    }

    /// Tries again only after errors for which this holds, beside what the policy and the error itself say.
    pub fn retry_if(mut self, may: impl Fn(&E) -> bool + Send + 'static) -> Self {
        if let Some((_, rules)) = self.rules() {
            rules.retry_if.push(Box::new(may));
        }
        self
    }

    /// Limits each attempt. One that takes longer is given up and fails with [`TimedOut`](ActivityError::TimedOut); the
    /// other effects of its turn are not touched. At most a third of what a turn may take, 20 seconds by default: what
    /// takes longer is an activity.
    ///
    /// ```
    /// use duroxide_core::{ActivityError, OrchestrationContext, Timeout};
    /// use std::time::Duration;
    ///
    /// async fn example(ctx: OrchestrationContext) -> Result<String, String> {
    ///     let asked = ctx.run("ask", || async { Ok::<String, String>("yes".to_owned()) });
    ///     match asked.timeout(Duration::from_secs(2)).await {
    ///         Err(ActivityError::TimedOut { which: Timeout::StartToClose }) => Ok("later".to_owned()),
    ///         other => Ok(other?),
    ///     }
    /// }
    /// ```
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        if let State::Asked { ctx, first, .. } = &self.state
            && let Some(slot) = first.slot()
            && let Some(asked) = ctx.shared.cell().in_place.get_mut(&slot)
        {
            asked.limit = self.limit;
        }
        self
    }

    /// Limits all attempts and the pauses between them. An attempt that runs is not cut off.
    pub fn schedule_to_close(mut self, limit: Duration) -> Self {
        let location = self.location;
        if let Some((ctx, rules)) = self.rules() {
            rules.total = Some(ctx.set_timer(limit, location));
        }
        self
    }

    fn rules(&mut self) -> Option<(&OrchestrationContext, &mut Rules<E>)> {
        let State::Asked { ctx, rules, .. } = &mut self.state else {
            return None;
        };
        let rules = rules.get_or_insert_with(Box::default);
        Some((&*ctx, rules))
    }
}

impl<T, E> Unpin for Run<T, E> {}

impl<T: Payload, E: Payload> Future for Run<T, E> {
    type Output = Result<T, ActivityError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Asked { rules: Some(_), .. } = &self.state
            && let State::Asked {
                ctx,
                first,
                rules: Some(rules),
            } = std::mem::replace(&mut self.state, State::Done)
        {
            let (again, name, location) = (ctx.clone(), self.name.clone(), self.location);
            let (body, limit) = (Arc::clone(&self.body), self.limit);
            let trying = Trying {
                again: Box::new(move |_| again.ask_in_place(&name, &body, limit, location)),
                ctx,
                what: self.name.clone(),
                rules: *rules,
                location,
            };
            self.state = State::Trying(Box::pin(trying.run(first)));
        }
        let polled = match &mut self.state {
            State::Asked { first, .. } => Pin::new(first)
                .poll(cx)
                .map(|stored| read(Ok(stored)).map_err(|(error, _)| error)),
            State::Trying(running) => running.as_mut().poll(cx),
            State::Done => panic!("it was polled after it had resolved"),
        };
        if polled.is_ready() {
            self.state = State::Done;
        }
        polled
    }
}

impl<T, E> fmt::Debug for Run<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
