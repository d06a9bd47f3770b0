//! Counts of all instances, from indexes alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use duroxide_core::provider::ExecutionStatus;

use crate::error::Result;
use crate::tx::{Tx, unsigned};

/// All instances by status. Those that have not completed are few and have an index; the rest is counted without being
/// read.
pub(crate) fn by_status(tx: &Tx<'_>) -> Result<Vec<(String, u64)>> {
    let mut counts: Vec<(String, u64)> = tx.all(
        "SELECT CASE WHEN e.status IN ('Running', 'ContinuedAsNew', 'Failed') THEN e.status ELSE 'Unknown' END AS key,
             COUNT(*)
         FROM executions AS e INDEXED BY idx_executions_open CROSS JOIN instances AS i
             ON i.instance_id = e.instance_id AND i.current_execution_id = e.execution_id
         WHERE e.status <> 'Completed' GROUP BY 1",
        [],
        |row| Ok((row.get(0)?, unsigned(row, 1)?)),
    )?;
    let open: u64 = counts.iter().map(|(_, count)| count).sum();
    let completed = all(tx)?.saturating_sub(open);
    if completed > 0 {
        counts.push((ExecutionStatus::Completed.to_string(), completed));
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(counts)
}

/// All instances by handler, from the index alone.
pub(crate) fn by_name(tx: &Tx<'_>) -> Result<Vec<(String, u64)>> {
    tx.all(
        "SELECT orchestration_name AS key, COUNT(*) AS n FROM instances INDEXED BY idx_instances_handler
         GROUP BY 1 ORDER BY n DESC, key",
        [],
        |row| Ok((row.get(0)?, unsigned(row, 1)?)),
    )
}

/// All instances by version, from the index alone. It is walked in its own order, by handler, and the few handlers are
/// added up here: in another order SQLite would sort all instances first.
pub(crate) fn by_version(tx: &Tx<'_>) -> Result<Vec<(String, u64)>> {
    let by_handler: Vec<(String, u64)> = tx.all(
        "SELECT COALESCE(orchestration_version, 'unknown'), COUNT(*) FROM instances INDEXED BY idx_instances_handler
         GROUP BY orchestration_name, COALESCE(orchestration_version, 'unknown')",
        [],
        |row| Ok((row.get(0)?, unsigned(row, 1)?)),
    )?;
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (version, count) in by_handler {
        *sums.entry(version).or_default() += count;
    }
    let mut counts: Vec<_> = sums.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    Ok(counts)
}

/// How many instances there are. SQLite counts the entries of the pages of its smallest index.
pub(crate) fn all(tx: &Tx<'_>) -> Result<u64> {
    tx.one("SELECT COUNT(*) FROM instances", [], |row| unsigned(row, 0))
}
