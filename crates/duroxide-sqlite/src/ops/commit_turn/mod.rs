//! Commits one turn. In: everything the turn decided, already encoded. Out: all of it stored and the lease ended, or
//! nothing changed and the lease as it was. Existing history is never read or rewritten.

mod decided;
mod remember;

pub(crate) use decided::Commit;

use duroxide_core::provider::Incarnation;
use duroxide_core::provider::rules::{self, Refusal, lane};

use self::remember::{change, remember};
use crate::damage::Damage;
use crate::error::{Result, SqliteError};
use crate::tables::dead_letters::{NewDeadLetter, Recipient};
use crate::tables::held_queue_messages::Hold;
use crate::tables::instances::Birth;
use crate::tables::orchestrator_queue::NewMessage;
use crate::tables::{
    dead_letters, executions, held_queue_messages, history, instance_locks, instances, kv, labels,
    orchestrator_queue, pauses, worker_queue,
};
use crate::tx::{QueueMemory, Tx};
use crate::writer_tx::WriterTx;

pub(crate) fn run(tx: &mut WriterTx<'_>, commit: &Commit) -> Result<()> {
    let (instance, next_incarnation) = (commit.instance(), commit.next_incarnation);
    // Writing to it would fail this transaction, and every one that shares it.
    if let Some(Damage::History(why)) = tx.writer().damaged.get(instance) {
        return Err(Refusal::Undecodable {
            what: format!("the history of {instance}"),
            why,
        }
        .into());
    }
    let parents = parents(tx, instance, commit)?;
    let queue = end_lease(tx, instance, commit)?;
    let birth = Birth {
        incarnation: next_incarnation,
        parent_incarnation: parents.first().copied(),
    };
    let lane = lane_after(tx, instance, commit)?;
    write_instance(tx, instance, commit, lane.as_deref(), birth)?;
    for event in &commit.events {
        history::append(tx, instance, commit.execution_id, event)?;
    }
    write_state(tx, instance, commit, queue)?;
    schedule(tx, instance, commit)?;
    // After the scheduling: what was scheduled and cancelled in the same turn nets to nothing.
    for activity in &commit.cancelled {
        worker_queue::cancel(
            tx,
            &activity.instance,
            activity.execution_id,
            activity.activity_id,
        )?;
    }
    send(tx, instance, commit, parents)?;
    hold_queue_messages(tx, instance, commit)?;
    if queue == QueueAfter::MayHaveMore && orchestrator_queue::choose_head(tx, instance)? {
        let now = tx.now;
        tx.effects.turn_claimable_at(now);
    }
    let is_idle = queue == QueueAfter::Empty && !commit.sends_to(instance);
    remember(tx, instance, commit, lane.as_deref(), is_idle)?;
    // What has ended is not paused; activities that were held back went with their cancellation.
    if commit.ends_instance() && pauses::remove(tx, instance)? {
        worker_queue::bring_back(tx, instance)?;
    }
    if !commit.ends_execution() {
        tx.writer().in_flight.end_turn(instance);
    }
    let change = change(tx, instance, commit)?;
    tx.effects.instance_changed(instance, change);
    Ok(())
}

/// Enqueues the activities that the turn scheduled, each stamped with the life of the instance.
fn schedule(tx: &mut WriterTx<'_>, instance: &str, commit: &Commit) -> Result<()> {
    if commit.to_workers.is_empty() {
        return Ok(());
    }
    let own = match tx.writer().memory.incarnation(instance) {
        Some(incarnation) => incarnation,
        None if commit.begins_instance() && commit.named.is_some() => Some(commit.next_incarnation),
        None => instances::incarnation(tx, instance)?,
    };
    for work in &commit.to_workers {
        let incarnation = if work.instance == instance {
            own
        } else {
            instances::incarnation(tx, &work.instance)?
        };
        worker_queue::push(tx, work, incarnation)?;
    }
    Ok(())
}

/// The lives of the parents that sent the starts this turn was claimed with; read while they are still queued, and only
/// if the turn has to do with a parent.
fn parents(tx: &Tx<'_>, instance: &str, commit: &Commit) -> Result<Vec<Incarnation>> {
    let is_child = commit.begins_instance()
        && commit
            .named
            .as_ref()
            .is_some_and(|named| named.parent.is_some());
    if is_child || commit.to_orchestrators.iter().any(NewMessage::is_notice) {
        return orchestrator_queue::senders(tx, instance);
    }
    Ok(Vec::new())
}

/// Enqueues what the turn decided to send. The start of a child is stamped with the life of this instance; how a child
/// ended reaches only the life of the parent that started it.
fn send(
    tx: &mut Tx<'_>,
    instance: &str,
    commit: &Commit,
    mut parents: Vec<Incarnation>,
) -> Result<()> {
    let mut own_parent_known = false;
    for message in &commit.to_orchestrators {
        if message.starts_child_of.as_deref() == Some(instance) {
            let sender = instances::incarnation(tx, instance)?;
            orchestrator_queue::push_from(tx, message, sender)?;
            continue;
        }
        if message.is_notice() {
            if !own_parent_known {
                parents.extend(instances::parent_incarnation(tx, instance)?);
                own_parent_known = true;
            }
            let alive = instances::incarnation(tx, &message.instance)?;
            if !parents.is_empty() && !alive.is_some_and(|alive| parents.contains(&alive)) {
                let letter = NewDeadLetter {
                    queue: "orchestrator",
                    instance: &message.instance,
                    payload: &message.json,
                    reason: "the instance that started the child was deleted",
                    claimed: None,
                };
                dead_letters::push_as(tx, &letter, Recipient::Gone)?;
                continue;
            }
        }
        orchestrator_queue::push(tx, message)?;
    }
    Ok(())
}

/// Holds the queue messages of the instance back, or ends that. Claims hide those that they meet.
fn hold_queue_messages(tx: &Tx<'_>, instance: &str, commit: &Commit) -> Result<()> {
    if !commit.holds_queue_messages || commit.ends_instance() {
        return orchestrator_queue::release_queue_messages(tx, instance);
    }
    if held_queue_messages::of(tx, instance)? == Some(Hold::Closed) {
        return Ok(());
    }
    held_queue_messages::set(tx, instance, Hold::Closed)
}

/// What is queued for the instance once the messages of the claim are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueAfter {
    Empty,
    MayHaveMore,
}

/// The lease is checked and ended by the first write, inside the transaction that stores the turn: a holder that was
/// overtaken changes nothing. A lease that began in this transaction is in no table, and cannot have been taken over.
fn end_lease(tx: &WriterTx<'_>, instance: &str, commit: &Commit) -> Result<QueueAfter> {
    let in_flight = tx.writer().in_flight;
    // It goes with the messages of the claim.
    tx.writer().memory.head_is(instance, None);
    if let Some(lease) = in_flight.end_lease(instance, &commit.token, tx.now) {
        orchestrator_queue::end(tx, instance, &lease.messages)?;
        return Ok(queue_after(tx, instance));
    }
    if !instance_locks::release_valid(tx, instance, &commit.token)? {
        return Err(why_not_held(tx, instance, &commit.token)?);
    }
    orchestrator_queue::delete_claimed(tx, instance, &commit.token, commit.bounds)?;
    Ok(queue_after(tx, instance))
}

fn queue_after(tx: &WriterTx<'_>, instance: &str) -> QueueAfter {
    if tx.writer().memory.claim_took_all(instance) {
        QueueAfter::Empty
    } else {
        QueueAfter::MayHaveMore
    }
}

/// The code that the instance needs after the turn, if that changes with it. A turn that names no handler may still
/// move the execution to another engine version.
fn lane_after(tx: &Tx<'_>, instance: &str, commit: &Commit) -> Result<Option<String>> {
    if commit.lane.is_some() || commit.named.is_some() {
        return Ok(commit.lane.clone());
    }
    let Some(pinned) = &commit.execution.pinned else {
        return Ok(None);
    };
    let handler = instances::handler(tx, instance)?;
    Ok(handler.map(|it| lane::of(&it.name, it.version.as_deref(), Some(pinned))))
}

fn write_instance(
    tx: &WriterTx<'_>,
    instance: &str,
    commit: &Commit,
    lane: Option<&str>,
    birth: Birth,
) -> Result<()> {
    match &commit.named {
        Some(named) => {
            let lane = lane.unwrap_or(lane::ANY_NODE);
            let code = (commit.execution_id, lane);
            instances::name(tx, instance, named, code, birth, &commit.born_with)?;
        }
        None => instances::advance(tx, instance, commit.execution_id, lane)?,
    }
    // The messages that the turn sends to its own instance go into this lane.
    if let Some(lane) = lane {
        tx.writer().memory.move_to_lane(instance, lane);
    }
    if is_recorded(tx, instance, commit) {
        return Ok(());
    }
    executions::apply(tx, instance, commit.execution_id, &commit.execution)
}

/// Whether the row of the execution has the status of the turn already: that it runs.
fn is_recorded(tx: &WriterTx<'_>, instance: &str, commit: &Commit) -> bool {
    let says_nothing = commit.execution.pinned.is_none() && commit.execution.output.is_none();
    says_nothing
        && commit.keeps_running()
        && tx.writer().memory.is_running(instance, commit.execution_id)
}

fn write_state(tx: &Tx<'_>, instance: &str, commit: &Commit, queue: QueueAfter) -> Result<()> {
    if let Some(status) = &commit.custom_status {
        instances::set_custom_status(tx, instance, status.as_deref())?;
    }
    if commit.begins_later {
        // What an execution that failed has changed.
        kv::drop_changes(tx, instance)?;
    }
    for change in &commit.kv {
        kv::change(tx, instance, change)?;
    }
    if !commit.creates_instance() {
        labels::change(tx, instance, &commit.labels)?;
    }
    if commit.ends_execution() {
        let status = commit.execution.status.as_deref();
        if status.is_some_and(rules::merges_key_values) {
            kv::merge(tx, instance)?;
        }
        if queue == QueueAfter::MayHaveMore {
            orchestrator_queue::delete_pending_timers(tx, instance)?;
        }
    }
    Ok(())
}

/// Why a token no longer holds its instance.
pub(crate) fn why_not_held(tx: &Tx<'_>, instance: &str, token: &str) -> Result<SqliteError> {
    Ok(if instance_locks::is_known(tx, instance, token)? {
        SqliteError::Contract(Refusal::LockExpired {
            instance: instance.to_owned(),
        })
    } else {
        SqliteError::Contract(Refusal::InvalidToken)
    })
}
