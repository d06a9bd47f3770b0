//! Messages for instances that are not started. In: instances without a row. Out: either they are known after all, or
//! their messages are hidden for a while, or dead-lettered; other instances never wait for them.
//!
//! Rules: an instance is known if it has history or a start in the queue. A message for an unknown one may have
//! overtaken its start: it is hidden until the start comes, and dead-lettered once it has waited for the grace period.

use std::time::Duration;

use crate::error::Result;
use crate::tables::dead_letters::NewDeadLetter;
use crate::tables::{dead_letters, history, orchestrator_queue};
use crate::tx::{Tx, duration_ms};

/// Stands for any longer grace period: adding it to a time must not leave the range of a database's integers.
const GRACE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// An instance without a row.
#[derive(Debug)]
pub(crate) enum Unnamed {
    /// It has a start or a history and can be claimed.
    Known {
        /// Messages that came before the start wait to be claimed with it.
        messages_await_start: bool,
        /// The code that its start names.
        lane: Option<String>,
    },
    Unknown(UnknownInstance),
}

/// An instance that cannot be claimed.
#[derive(Debug)]
pub(crate) struct UnknownInstance {
    instance: String,
    /// A start is queued but delayed: wait for it.
    start_at: Option<i64>,
}

/// Looks at an instance without a row.
pub(crate) fn examine(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<Unnamed> {
    let beginning = orchestrator_queue::beginning_lane(tx, instance)?;
    let has_start = beginning.as_ref().is_some_and(|(_, at)| *at <= tx.now);
    if has_start || history::last_event_id(tx, instance, execution_id)?.is_some() {
        return Ok(Unnamed::Known {
            messages_await_start: orchestrator_queue::messages_await_start(tx, instance)?,
            lane: beginning.filter(|_| has_start).map(|(lane, _)| lane),
        });
    }
    Ok(Unnamed::Unknown(UnknownInstance {
        instance: instance.to_owned(),
        start_at: beginning.map(|(_, at)| at),
    }))
}

/// Hides the visible messages of the instance, or dead-letters them, as many as are left to the claim. Returns whether
/// some remain for the next one.
pub(crate) fn settle(
    tx: &mut Tx<'_>,
    unknown: &UnknownInstance,
    grace: Duration,
    left: &mut usize,
) -> Result<bool> {
    let instance = &unknown.instance;
    let grace = duration_ms(grace.min(GRACE_MAX));
    for message in orchestrator_queue::messages_of_unknown(tx, instance, *left)? {
        *left = left.saturating_sub(1);
        if let Some(at) = unknown.start_at {
            orchestrator_queue::hide_until(tx, message.id, at)?;
            continue;
        }
        let until = message.created_at.saturating_add(grace);
        if until > tx.now {
            orchestrator_queue::await_start(tx, message.id, until)?;
        } else if let Some(taken) = orchestrator_queue::take(tx, message.id)? {
            let letter = NewDeadLetter {
                queue: "orchestrator",
                instance,
                payload: &taken.payload,
                reason: "the instance is unknown and was not started in time",
                claimed: None,
            };
            dead_letters::push(tx, &letter)?;
        }
    }
    orchestrator_queue::choose_head(tx, instance)
}
