//! Reads histories. Out: rows as stored; decoding is the caller's.

use crate::error::Result;
use crate::tables::{deletions, executions, history};
use crate::tx::Tx;

pub(crate) fn latest(tx: &Tx<'_>, instance: &str) -> Result<Vec<Vec<u8>>> {
    if deletions::contains(tx, instance)? {
        return Ok(Vec::new());
    }
    let execution_id = executions::latest_id(tx, instance)?;
    history::load(tx, instance, execution_id)
}

pub(crate) fn of_execution(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<Vec<Vec<u8>>> {
    if deletions::contains(tx, instance)? {
        return Ok(Vec::new());
    }
    history::load(tx, instance, execution_id)
}

/// The event that began an execution.
pub(crate) fn started(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<Option<Vec<u8>>> {
    if deletions::contains(tx, instance)? {
        return Ok(None);
    }
    history::first_of_type(tx, instance, execution_id, "OrchestrationStarted")
}
