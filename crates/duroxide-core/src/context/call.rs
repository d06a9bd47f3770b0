//! The one way to call an activity by its definition. The call asks at once; what is set on it afterwards changes what
//! was asked for, before it is recorded.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::OrchestrationContext;
use super::trying::{AskAgain, Rules, Stored, Trying, read};
use crate::attempt::AttemptLimits;
use crate::definition::{Activity, ActivityError, Arguments, Retry, ToActivity};
use crate::durable::{CommandKind, OperationKind, Resolution};
use crate::future::{DurableFuture, ScheduleKind};

impl OrchestrationContext {
    /// Calls an activity by its definition. The call takes effect now, like every durable call; awaiting it only
    /// observes. What is set on it (retries, limits, tag, session) must be set before the next `await`.
    ///
    /// # Panics
    ///
    /// When the input does not serialise, which fails the orchestration.
    ///
    /// ```
    /// use duroxide_core::{ActivityError, ActivityRef, OrchestrationContext, RetryPolicy, Timeout};
    /// use std::time::Duration;
    ///
    /// const CHARGE: ActivityRef<u64, String> = ActivityRef::new("charge");
    ///
    /// async fn pay(ctx: OrchestrationContext, cents: u64) -> Result<String, String> {
    ///     let receipt = ctx
    ///         .call(CHARGE, &cents)
    ///         .retry(RetryPolicy::exponential(5))
    ///         .timeout(Duration::from_secs(30))
    ///         .await;
    ///     match receipt {
    ///         Err(ActivityError::TimedOut { which: Timeout::StartToClose }) => Ok("later".to_owned()),
    ///         other => Ok(other?),
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn call<Via, T: ToActivity<Via>>(
        &self,
        activity: T,
        input: impl Arguments<<T::Activity as Activity>::Input>,
    ) -> Call<T::Activity> {
        let input = input.encode().unwrap_or_else(|e| panic!("encode: {e}"));
        self.call_encoded(&activity.to_activity(), input, Location::caller())
    }

    pub(super) fn call_encoded<A: Activity>(
        &self,
        activity: &A,
        input: String,
        location: &'static Location<'static>,
    ) -> Call<A> {
        let kind = CommandKind::Activity {
            name: activity.name().to_owned(),
            input,
            session_id: None,
            tag: None,
            attempt_of: None,
            limits: AttemptLimits::default(),
        };
        Call {
            state: State::Asked {
                first: self.ask_activity(activity.name(), kind, location),
                ctx: self.clone(),
                rules: None,
            },
            name: activity.name(),
            location,
            types: PhantomData,
        }
    }

    /// Asks for one attempt of an activity, all its failures to be handed to the code.
    pub(super) fn ask_activity(
        &self,
        name: &str,
        kind: CommandKind,
        location: &'static Location<'static>,
    ) -> DurableFuture<Stored> {
        let mut cell = self.shared.deciding(location);
        let slot = cell.call(OperationKind::Activity, kind, location);
        cell.operations.get_mut(slot).surfaces_failures = true;
        drop(cell);
        let kind = ScheduleKind::Activity {
            name: name.to_owned(),
        };
        DurableFuture::waiting(self.shared.clone(), slot, kind, Resolution::into_details)
    }
}

/// A call of an activity, in flight.
///
/// Dropping it before it resolved cancels the activity.
#[must_use = "dropping a call cancels it; await it, or keep it"]
pub struct Call<A: Activity> {
    state: State<A>,
    name: &'static str,
    location: &'static Location<'static>,
    types: PhantomData<fn() -> A>,
}

type Running<A> = Pin<Box<dyn Future<Output = Answer<A>> + Send>>;
type Answer<A> = Result<<A as Activity>::Output, ActivityError<<A as Activity>::Error>>;

enum State<A: Activity> {
    Asked {
        ctx: OrchestrationContext,
        first: DurableFuture<Stored>,
        /// The rules, and what further attempts ask for.
        rules: Option<Box<(Rules<A::Error>, CommandKind)>>,
    },
    Trying(Running<A>),
    Done,
}

impl<A: Activity> Call<A> {
    /// Tries again after failures. A timed-out attempt is tried again too, unless the policy says otherwise. The
    /// idempotency key is the same in all attempts.
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        let retry: Retry = retry.into();
        if let Some(total) = retry.total_limit() {
            self = self.schedule_to_close(total);
        }
        let location = self.location;
        if let Some((ctx, rules)) = self.rules() {
            if let Some(limit) = retry.attempt_limit() {
                rules.attempt = Some((limit, ctx.set_timer(limit, location)));
            }
            rules.retry = Some(retry);
            rules.retry_if.push(Box::new(A::is_retryable));
        }
        self
    }

    /// Tries again only after errors for which this holds, beside what the policy and the error itself say. Code that
    /// runs again must answer alike: decide by the error alone.
    pub fn retry_if(mut self, may: impl Fn(&A::Error) -> bool + Send + 'static) -> Self {
        if let Some((_, rules)) = self.rules() {
            rules.retry_if.push(Box::new(may));
        }
        self
    }

    /// Limits each attempt, from when a worker begins it (start-to-close). The worker keeps this limit.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.amend(|kind| {
            if let CommandKind::Activity { limits, .. } = kind {
                limits.start_to_close = Some(limit);
            }
        });
        self
    }

    /// Limits the time between two heartbeats of an attempt. The worker keeps this limit.
    pub fn heartbeat_timeout(mut self, limit: Duration) -> Self {
        self.amend(|kind| {
            if let CommandKind::Activity { limits, .. } = kind {
                limits.heartbeat = Some(limit);
            }
        });
        self
    }

    /// Limits the whole call, over all attempts and the pauses between them (schedule-to-close).
    pub fn schedule_to_close(mut self, limit: Duration) -> Self {
        let (location, slot) = (self.location, self.slot());
        if let Some((ctx, rules)) = self.rules() {
            let timer = ctx.set_timer(limit, location);
            // In front of the activity: the order that histories have.
            let mut cell = ctx.shared.cell();
            if let (Some(timer), Some(activity)) = (timer.slot(), slot) {
                cell.ask_before(timer, activity);
            }
            drop(cell);
            rules.total = Some(timer);
        }
        self
    }

    /// Gives up if no worker has taken an attempt after this long. Needs a store that can tell; with one that cannot,
    /// the activity counts as taken.
    pub fn queue_timeout(mut self, limit: Duration) -> Self {
        let location = self.location;
        if let Some((ctx, rules)) = self.rules() {
            rules.queue = Some((limit, ctx.set_timer(limit, location)));
        }
        self
    }

    /// Routes the activity to workers that take this tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        let chosen = tag.into();
        self.amend(|kind| {
            if let CommandKind::Activity { tag, .. } = kind {
                *tag = Some(chosen.clone());
            }
        });
        self
    }

    /// Binds the activity, with all its attempts, to the worker that owns this session.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        let chosen = session.into();
        self.amend(|kind| {
            if let CommandKind::Activity { session_id, .. } = kind {
                *session_id = Some(chosen.clone());
            }
        });
        self
    }

    fn slot(&self) -> Option<usize> {
        match &self.state {
            State::Asked { first, .. } => first.slot(),
            State::Trying(_) | State::Done => None,
        }
    }

    /// Changes what was asked for, here and for further attempts.
    fn amend(&mut self, change: impl Fn(&mut CommandKind)) {
        let State::Asked { ctx, first, rules } = &mut self.state else {
            return;
        };
        if let Some(slot) = first.slot() {
            ctx.shared.cell().amend(slot, &change);
        }
        if let Some(rules) = rules {
            change(&mut rules.1);
        }
    }

    /// The rules, to be changed.
    fn rules(&mut self) -> Option<(&OrchestrationContext, &mut Rules<A::Error>)> {
        let State::Asked { ctx, first, rules } = &mut self.state else {
            return None;
        };
        if rules.is_none() {
            let asked = first.slot().and_then(|slot| ctx.shared.cell().asked(slot));
            *rules = asked.map(|kind| Box::new((Rules::default(), kind)));
        }
        rules.as_mut().map(|rules| (&*ctx, &mut rules.0))
    }
}

impl<A: Activity> Unpin for Call<A> {}

impl<A: Activity> Future for Call<A> {
    type Output = Answer<A>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Asked { rules: Some(_), .. } = &self.state
            && let State::Asked {
                ctx,
                first,
                rules: Some(rules),
            } = std::mem::replace(&mut self.state, State::Done)
        {
            let (rules, kind) = *rules;
            let trying = Trying {
                again: ask_again(ctx.clone(), self.name, kind, self.location),
                ctx,
                what: self.name.to_owned(),
                rules,
                location: self.location,
            };
            self.state = State::Trying(Box::pin(trying.run(first)));
        }
        let polled = match &mut self.state {
            State::Asked { first, .. } => Pin::new(first)
                .poll(cx)
                .map(|stored| read(Ok(stored)).map_err(|(error, _)| error)),
            State::Trying(running) => running.as_mut().poll(cx),
            State::Done => panic!("a call was polled after it had resolved"),
        };
        if polled.is_ready() {
            self.state = State::Done;
        }
        polled
    }
}

fn ask_again(
    ctx: OrchestrationContext,
    name: &'static str,
    kind: CommandKind,
    location: &'static Location<'static>,
) -> AskAgain {
    Box::new(move |first| {
        let mut kind = kind.clone();
        if let CommandKind::Activity { attempt_of, .. } = &mut kind {
            *attempt_of = first;
        }
        ctx.ask_activity(name, kind, location)
    })
}

impl<A: Activity> fmt::Debug for Call<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("activity", &self.name)
            .finish_non_exhaustive()
    }
}
