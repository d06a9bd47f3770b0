//! Messages for instances nobody knows. In: an instance without a row whose messages came up. Out: they are dropped,
//! hidden for a while, or set aside; other instances never wait for them.
//!
//! Rules: an instance is known if it has history or a start in the queue. Queue messages for an unknown one are
//! dropped with a warning. Anything else may have overtaken its start: it is hidden until the start comes, and set
//! aside once it has waited for the grace period.

use std::time::Duration;

use crate::tables::dead_letters::NewLetter;
use crate::tables::orchestrator_queue::Mailbox;
use crate::tables::{dead_letters, history, orchestrator_queue};
use crate::tx::{Result, Tx, duration_ms};

/// An instance without a row.
#[derive(Debug)]
pub(crate) enum Unnamed {
    /// It has a start or a history and can be claimed.
    Known {
        /// Messages that came before the start wait to be claimed with it.
        somebody_awaits: bool,
    },
    Unknown(Orphan),
}

/// An instance that cannot be claimed.
#[derive(Debug)]
pub(crate) struct Orphan {
    instance: String,
    /// A start is queued but delayed: wait for it.
    start_at: Option<i64>,
}

/// Looks at an instance without a row.
pub(crate) fn examine(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<Unnamed> {
    let Mailbox {
        start_at,
        somebody_awaits,
    } = orchestrator_queue::mailbox(tx, instance)?;
    let has_start = start_at.is_some_and(|at| at <= tx.now);
    if has_start || history::last_event_id(tx, instance, execution_id)?.is_some() {
        return Ok(Unnamed::Known { somebody_awaits });
    }
    Ok(Unnamed::Unknown(Orphan {
        instance: instance.to_owned(),
        start_at,
    }))
}

pub(crate) fn settle(tx: &mut Tx<'_>, orphan: &Orphan, grace: Duration) -> Result<()> {
    let instance = &orphan.instance;
    if let Some(at) = orphan.start_at {
        return orchestrator_queue::hide_until(tx, instance, at);
    }
    if orchestrator_queue::only_queue_messages(tx, instance)? {
        let dropped = orchestrator_queue::drop_visible(tx, instance)?;
        tracing::warn!(target: "duroxide::providers::sqlite", instance_id = %instance, dropped, "queue messages for an unknown instance were dropped");
        return Ok(());
    }
    for id in orchestrator_queue::overdue_ids(tx, instance, tx.earlier(grace))? {
        if let Some(payload) = orchestrator_queue::take(tx, id)? {
            let letter = NewLetter {
                queue: "orchestrator",
                instance,
                payload: &payload,
                reason: "the instance is unknown and was not started in time",
                claimed: None,
            };
            dead_letters::push(tx, &letter)?;
        }
    }
    orchestrator_queue::await_start(tx, instance, duration_ms(grace))
}
