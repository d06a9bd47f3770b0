//! One typed call from its first attempt to its last. In: what the call asked for already, and how to ask again. Out:
//! the value, or the typed failure. The call itself asks for the first attempt; awaiting only observes and asks again.

use std::panic::Location;
use std::time::Duration;

use super::{Either2, OrchestrationContext};
use crate::codec;
use crate::definition::{ActivityError, Payload, Retry, Timeout, Undecodable};
use crate::event::ErrorDetails;
use crate::future::DurableFuture;

/// An answer as it is stored.
pub(super) type Stored = Result<String, Box<ErrorDetails>>;

/// Asks for a further attempt of the call whose first attempt an event recorded.
pub(super) type AskAgain = Box<dyn Fn(Option<u64>) -> DurableFuture<Stored> + Send>;

type MayRetry<E> = Box<dyn Fn(&E) -> bool + Send>;

/// The rules of a call beyond its one attempt.
pub(super) struct Rules<E> {
    pub(super) retry: Option<Retry>,
    /// Stricter than the policy: whether the author's error allows a further attempt.
    pub(super) retry_if: Vec<MayRetry<E>>,
    /// The limit over everything.
    pub(super) total: Option<DurableFuture<()>>,
    /// How long an attempt may wait for a worker, and the timer of the first attempt.
    pub(super) queue: Option<(Duration, DurableFuture<()>)>,
    /// How long an attempt may take from when it is asked for, and the timer of the first attempt.
    pub(super) attempt: Option<(Duration, DurableFuture<()>)>,
}

impl<E> Default for Rules<E> {
    fn default() -> Self {
        Self {
            retry: None,
            retry_if: Vec::new(),
            total: None,
            queue: None,
            attempt: None,
        }
    }
}

/// A call under rules.
pub(super) struct Trying<E> {
    pub(super) ctx: OrchestrationContext,
    pub(super) what: String,
    pub(super) rules: Rules<E>,
    pub(super) again: AskAgain,
    pub(super) location: &'static Location<'static>,
}

/// One attempt and the timers that limit it.
struct Attempt {
    activity: DurableFuture<Stored>,
    queue: Option<DurableFuture<()>>,
    limit: Option<DurableFuture<()>>,
}

impl<E: Payload> Trying<E> {
    /// The result of the whole call.
    pub(super) async fn run<O: Payload>(
        mut self,
        first: DurableFuture<Stored>,
    ) -> Result<O, ActivityError<E>> {
        let total = self.rules.total.take();
        let ctx = self.ctx.clone();
        // Boxed: combinators would hold a copy of all of it at each of their steps.
        let attempts = Box::pin(self.attempts(first));
        let Some(total) = total else {
            return attempts.await;
        };
        match ctx.select2(attempts, total).await {
            Either2::First(result) => result,
            Either2::Second(()) => Err(ActivityError::TimedOut {
                which: Timeout::ScheduleToClose,
            }),
        }
    }

    async fn attempts<O: Payload>(
        self,
        first: DurableFuture<Stored>,
    ) -> Result<O, ActivityError<E>> {
        // Taken apart, because what is held across an await must be shareable and the author's closures need not be.
        let Self {
            ctx,
            what,
            rules,
            again,
            location,
        } = self;
        let Rules {
            retry,
            retry_if,
            total: _,
            queue,
            attempt,
        } = rules;
        let slot = first.slot();
        let (queue_limit, queue) = queue.unzip();
        let (attempt_limit, limit) = attempt.unzip();
        let mut attempt = Attempt {
            activity: first,
            queue,
            limit,
        };
        let mut number = 1;
        loop {
            let stored = finish(&ctx, location, attempt).await;
            let (error, text) = match read::<O, E>(stored) {
                Ok(output) => return Ok(output),
                Err(failure) => failure,
            };
            let again_allowed = |retry: &&Retry| {
                number < retry.attempts_max()
                    && retry.allows(&error, text.as_deref(), |own| {
                        retry_if.iter().all(|may| may(own))
                    })
            };
            let Some(retry) = retry.as_ref().filter(again_allowed) else {
                return Err(error);
            };
            let recorded = |slot| ctx.shared.cell().operations.get(slot).event_id();
            let first_id = slot.and_then(recorded);
            let chance = ctx.fraction_for(first_id.unwrap_or_default(), number);
            let pause = retry.pause(number, chance);
            let (attempts, text) = (retry.attempts_max(), text.as_deref().unwrap_or("timeout"));
            ctx.trace_warn(format!(
                "Activity '{what}' attempt {number}/{attempts} failed: {text}. Retrying..."
            ));
            if !pause.is_zero() {
                ctx.set_timer(pause, location).await;
            }
            number += 1;
            let set = |limit| ctx.set_timer(limit, location);
            attempt = Attempt {
                activity: again(first_id),
                queue: queue_limit.map(set),
                limit: attempt_limit.map(set),
            };
        }
    }
}

/// The stored answer of one attempt, or the limit that passed.
async fn finish(
    ctx: &OrchestrationContext,
    location: &'static Location<'static>,
    attempt: Attempt,
) -> Result<Stored, Timeout> {
    let work = taken(ctx, location, attempt.activity, attempt.queue);
    let Some(limit) = attempt.limit else {
        return work.await;
    };
    match ctx.select2(work, limit).await {
        Either2::First(result) => result,
        Either2::Second(()) => Err(Timeout::StartToClose),
    }
}

/// The answer of an attempt that a worker must take in time.
async fn taken(
    ctx: &OrchestrationContext,
    location: &'static Location<'static>,
    mut activity: DurableFuture<Stored>,
    queue: Option<DurableFuture<()>>,
) -> Result<Stored, Timeout> {
    let Some(queue) = queue else {
        return Ok(activity.await);
    };
    match ctx.select2(&mut activity, queue).await {
        Either2::First(stored) => Ok(stored),
        Either2::Second(()) => {
            let id = activity.scheduling_event_id().unwrap_or_default();
            match ctx.was_claimed(id, location).await {
                Ok(false) => Err(Timeout::Queue),
                // A store that cannot tell leaves the activity alone.
                Ok(true) | Err(_) => Ok(activity.await),
            }
        }
    }
}

/// A stored answer as the author's types; a failure with its stored text, if it has one.
pub(super) fn read<O: Payload, E: Payload>(
    stored: Result<Stored, Timeout>,
) -> Result<O, (ActivityError<E>, Option<String>)> {
    match stored {
        Ok(Ok(text)) => codec::decode(&text).map_err(|error| {
            (
                ActivityError::Undecodable(Undecodable { text, error }),
                None,
            )
        }),
        Ok(Err(details)) => {
            let text = match details.as_ref() {
                ErrorDetails::Application { message, .. } => message.clone(),
                other => other.display_message(),
            };
            Err((ActivityError::of(*details), Some(text)))
        }
        Err(which) => Err((ActivityError::TimedOut { which }, None)),
    }
}
