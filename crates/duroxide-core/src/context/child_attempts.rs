//! One child from its first attempt to its last. In: what the call asked for already, and what a further attempt asks
//! for. Out: the value, or the typed failure. Every attempt is a child of its own, recorded like any other.

use std::panic::Location;
use std::time::Duration;

use super::trying::Stored;
use super::{Either2, OrchestrationContext};
use crate::codec;
use crate::definition::{OrchestrationError, Payload, Retry, Undecodable};
use crate::durable::CommandKind;
use crate::future::DurableFuture;

type MayRetry<E> = Box<dyn Fn(&E) -> bool + Send>;

/// When a child is started again.
pub(super) struct Rules<E> {
    pub(super) retry: Option<Retry>,
    /// Stricter than the policy: whether the author's error allows a further attempt.
    pub(super) retry_if: Vec<MayRetry<E>>,
    /// The limit over everything, and its timer.
    pub(super) total: Option<(Duration, DurableFuture<()>)>,
}

impl<E> Default for Rules<E> {
    fn default() -> Self {
        Self {
            retry: None,
            retry_if: Vec::new(),
            total: None,
        }
    }
}

/// A child under rules.
pub(super) struct Attempts<E> {
    pub(super) ctx: OrchestrationContext,
    pub(super) name: &'static str,
    pub(super) rules: Rules<E>,
    /// What the first attempt asked for.
    pub(super) kind: CommandKind,
    pub(super) location: &'static Location<'static>,
}

/// The id of an attempt, if the author chose the id of the first.
pub(super) fn attempt_id(first: &str, number: u32) -> String {
    match number {
        1 => first.to_owned(),
        _ => format!("{first}~{number}"),
    }
}

/// A stored answer as the author's types.
pub(super) fn outcome<T: Payload, E: Payload>(stored: Stored) -> Result<T, OrchestrationError<E>> {
    let text = stored.map_err(|details| OrchestrationError::of(*details))?;
    codec::decode(&text)
        .map_err(|error| OrchestrationError::Undecodable(Undecodable { text, error }))
}

impl<E: Payload> Attempts<E> {
    /// The result of the whole call.
    pub(super) async fn run<T: Payload>(
        mut self,
        first: DurableFuture<Stored>,
    ) -> Result<T, OrchestrationError<E>> {
        let ctx = self.ctx.clone();
        let total = self.rules.total.take();
        // Boxed: combinators would hold a copy of all of it at each of their steps.
        let attempts = Box::pin(self.attempts(first));
        let Some((limit, total)) = total else {
            return attempts.await;
        };
        match ctx.select2(attempts, total).await {
            Either2::First(result) => result,
            Either2::Second(()) => Err(OrchestrationError::TimedOut {
                message: format!(
                    "timed out: the child and its further attempts did not end within {limit:?}"
                ),
            }),
        }
    }

    async fn attempts<T: Payload>(
        self,
        first: DurableFuture<Stored>,
    ) -> Result<T, OrchestrationError<E>> {
        // Taken apart, because what is held across an await must be shareable and the author's closures need not be.
        let Self {
            ctx,
            name,
            rules,
            kind,
            location,
        } = self;
        let Rules {
            retry, retry_if, ..
        } = rules;
        let slot = first.slot();
        let mut attempt = first;
        let mut number = 1;
        loop {
            let details = match attempt.await {
                Err(details) => details,
                given => return outcome(given),
            };
            let error = OrchestrationError::of((*details).clone());
            let again_allowed = |retry: &&Retry| {
                number < retry.attempts_max()
                    && retry.allows_another_child(&error, &details, |own| {
                        retry_if.iter().all(|may| may(own))
                    })
            };
            let Some(retry) = retry.as_ref().filter(again_allowed) else {
                return Err(error);
            };
            let recorded = |slot| ctx.shared.cell().operations.get(slot).event_id();
            let first_id = slot.and_then(recorded).unwrap_or_default();
            let pause = retry.pause(number, ctx.fraction_for(first_id, number));
            let (attempts, text) = (retry.attempts_max(), details.display_message());
            ctx.trace_warn(format!(
                "Child '{name}' attempt {number}/{attempts} failed: {text}. Retrying..."
            ));
            if !pause.is_zero() {
                ctx.set_timer(pause, location).await;
            }
            number += 1;
            attempt = ctx.ask_child(name, as_attempt(&kind, number), location);
        }
    }
}

/// What a further attempt asks for.
fn as_attempt(first: &CommandKind, number: u32) -> CommandKind {
    let mut kind = first.clone();
    if let CommandKind::Child {
        instance: Some(id), ..
    } = &mut kind
    {
        *id = attempt_id(id, number);
    }
    kind
}
