//! What a commit leaves in memory: what the next claim would have to read, and what the watches get to know. In: the
//! turn as it was written. Out: nothing in a table.

use duroxide_core::provider::rules::lane;
use duroxide_core::provider::{ExecutionStatus, InstanceOutcome};

use super::Commit;
use crate::error::Result;
use crate::tables::instances::Handler;
use crate::tables::{history, instances};
use crate::tx::InstanceChange;
use crate::writer_memory::RecentInstance;
use crate::writer_tx::WriterTx;

/// Keeps what the next claim of the instance would have to read.
pub(super) fn remember(
    tx: &WriterTx<'_>,
    instance: &str,
    commit: &Commit,
    lane: Option<&str>,
    is_idle: bool,
) -> Result<()> {
    let memory = tx.writer().memory;
    if !commit.events.is_empty() {
        tx.writer().caution.trust(instance);
    }
    if commit.ended.is_some() {
        memory.forget(instance);
        return Ok(());
    }
    let last_written = last_written(commit);
    let changed = memory.change(instance, commit.execution_id, |entry| {
        entry.is_running &= commit.keeps_running();
        entry.is_idle = is_idle;
        entry.last_event_id = last_written.max(entry.last_event_id);
        if let Some(pinned) = &commit.execution.pinned {
            entry.handler.pinned = Some(pinned.clone());
        }
        if let Some(lane) = lane {
            lane.clone_into(&mut entry.handler.lane);
        }
    });
    if changed && commit.named.is_none() {
        return Ok(());
    }
    // Messages that were consumed without running any code prove nothing.
    if commit.events.is_empty() {
        memory.forget(instance);
        return Ok(());
    }
    if let Some(entry) = read(tx, instance, commit, lane, is_idle)? {
        memory.insert(instance, entry);
    }
    Ok(())
}

/// The last event that the turn writes.
fn last_written(commit: &Commit) -> Option<u64> {
    commit.events.iter().map(|event| event.event_id).max()
}

/// The instance as this turn leaves it, for a memory that lacks it; `None` if there is a history, but no row.
fn read(
    tx: &WriterTx<'_>,
    instance: &str,
    commit: &Commit,
    lane: Option<&str>,
    is_idle: bool,
) -> Result<Option<RecentInstance>> {
    let handler = match &commit.named {
        Some(named) if commit.begins_instance() => Some(Handler {
            name: named.name.clone(),
            version: Some(named.version.clone()),
            execution_id: commit.execution_id,
            pinned: commit.execution.pinned.clone(),
            lane: lane.unwrap_or(lane::ANY_NODE).to_owned(),
            incarnation: Some(commit.next_incarnation),
        }),
        _ => instances::handler(tx, instance)?,
    };
    let Some(handler) = handler else {
        return Ok(None);
    };
    let is_current = handler.execution_id == commit.execution_id;
    Ok(Some(RecentInstance {
        last_event_id: if commit.begins_instance() {
            last_written(commit)
        } else {
            history::last_event_id(tx, instance, handler.execution_id)?
        },
        is_idle,
        head_at: None,
        is_running: is_current
            && commit.execution.status.as_deref() == Some(ExecutionStatus::Running.as_str()),
        handler,
    }))
}

/// What the turn did to the instance, for its watches.
pub(super) fn change(tx: &WriterTx<'_>, instance: &str, commit: &Commit) -> Result<InstanceChange> {
    let Some(ended) = &commit.ended else {
        return Ok(
            match commit
                .execution
                .status
                .as_deref()
                .map(ExecutionStatus::parse)
            {
                None | Some(Some(ExecutionStatus::Running | ExecutionStatus::ContinuedAsNew)) => {
                    InstanceChange::Progressed
                }
                Some(_) => InstanceChange::Unknown,
            },
        );
    };
    // A watch that is registered after this has to read the instance anyway.
    if !tx.writer().watches.contains(instance) {
        return Ok(InstanceChange::Unknown);
    }
    Ok(match instances::custom_status(tx, instance, None)? {
        Some((custom_status, custom_status_version)) => InstanceChange::Ended(InstanceOutcome {
            execution_id: commit.execution_id,
            status: ended.clone(),
            custom_status,
            custom_status_version,
        }),
        // A history without a row; a watcher reads it if it needs to.
        None => InstanceChange::Unknown,
    })
}
