//! Sizes of one instance.

use duroxide_core::provider::{SystemStats, rules};

use crate::codec;
use crate::error::Result;
use crate::ops::read_history;
use crate::tables::{history, instances, kv};
use crate::tx::Tx;

pub(crate) fn run(tx: &Tx<'_>, instance: &str) -> Result<Option<SystemStats>> {
    let Some(execution_id) = instances::current_execution(tx, instance)? else {
        return Ok(None);
    };
    let (history_event_count, history_size_bytes) = history::size(tx, instance, execution_id)?;
    let values = kv::values(tx, instance)?;
    let value_bytes: usize = values.values().map(String::len).sum();
    Ok(Some(SystemStats {
        history_event_count,
        history_size_bytes,
        queue_pending_count: carried_forward(tx, instance, execution_id)?,
        kv_user_key_count: as_u64(values.len()),
        kv_total_value_bytes: as_u64(value_bytes),
    }))
}

/// Queue messages carried into the execution by its predecessor.
fn carried_forward(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<u64> {
    let Some(row) = read_history::started(tx, instance, execution_id)? else {
        return Ok(0);
    };
    let started = codec::decode_event(instance, &row)?;
    Ok(as_u64(rules::carried_messages(&started.kind)))
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
