//! Messages for instances nobody knows. In: an instance without a row whose messages came up. Out: they are dropped,
//! hidden for a while, or set aside; other instances never wait for them.
//!
//! Rules: an instance is known if it has history or a start in the queue. Queue messages for an unknown one are
//! dropped with a warning. Anything else may have overtaken its start: it is hidden until the start comes, and set
//! aside once it has waited for the grace period.

use std::time::Duration;

use crate::tables::{dead_letters, executions, history, orchestrator_queue};
use crate::tx::{Result, Tx, duration_ms};

/// What to do with the messages of an instance that cannot be claimed.
#[derive(Debug)]
pub(crate) struct Orphan {
    instance: String,
    /// A start is queued but delayed: wait for it.
    start_at: Option<i64>,
}

/// Looks at an instance without a row; `None` if it can be claimed all the same.
pub(crate) fn examine(tx: &Tx<'_>, instance: &str) -> Result<Option<Orphan>> {
    let start_at = orchestrator_queue::start_visible_at(tx, instance)?;
    if start_at.is_some_and(|at| at <= tx.now) {
        return Ok(None);
    }
    let execution_id = executions::latest_id(tx, instance)?;
    if history::last_event_id(tx, instance, execution_id)?.is_some() {
        return Ok(None);
    }
    Ok(Some(Orphan {
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
            let reason = "the instance is unknown and was not started in time";
            dead_letters::push(tx, "orchestrator", instance, &payload, reason)?;
        }
    }
    orchestrator_queue::await_start(tx, instance, duration_ms(grace))
}
