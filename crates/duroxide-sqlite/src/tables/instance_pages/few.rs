//! Whether rows are few enough to be sorted. In: a criterion. Out: yes or no, from an index and never from more than a
//! bounded number of its entries.

use super::{Criteria, Handler};
use crate::error::Result;
use crate::tx::{Tx, count};

/// Whether at most `few` executions have one of the asked statuses, none of which is `Completed`.
pub(crate) fn few_open(tx: &Tx<'_>, status_bits: i64, few: u32) -> Result<bool> {
    let found = tx.one(
        "SELECT COUNT(*) FROM (SELECT 1 FROM executions INDEXED BY idx_executions_open
             WHERE status <> 'Completed' AND status IN
                 (SELECT 'Running' WHERE ?1 & 1 UNION ALL SELECT 'ContinuedAsNew' WHERE ?1 & 2
                  UNION ALL SELECT 'Failed' WHERE ?1 & 8) LIMIT ?2 + 1)",
        (status_bits, few),
        |row| count(row, 0),
    )?;
    Ok(found <= few as usize)
}

/// Whether at most `few` instances were created in the range that is asked for.
pub(crate) fn few_created(tx: &Tx<'_>, criteria: &Criteria, few: u32) -> Result<bool> {
    let (from, until) = criteria.created;
    let found = tx.one(
        "SELECT COUNT(*) FROM (SELECT 1 FROM instances INDEXED BY idx_instances_created
             WHERE created_at >= ?1 AND created_at < ?2 LIMIT ?3 + 1)",
        (from, until, few),
        |row| count(row, 0),
    )?;
    Ok(found <= few as usize)
}

/// Whether at most `few` instances were last updated in the range that is asked for.
pub(crate) fn few_updated(tx: &Tx<'_>, criteria: &Criteria, few: u32) -> Result<bool> {
    let (from, until) = criteria.updated;
    let found = tx.one(
        "SELECT COUNT(*) FROM (SELECT 1 FROM instances INDEXED BY idx_instances_updated
             WHERE updated_at >= ?1 AND updated_at < ?2 LIMIT ?3 + 1)",
        (from, until, few),
        |row| count(row, 0),
    )?;
    Ok(found <= few as usize)
}

/// Whether at most `few` instances run this code.
pub(crate) fn few_of_handler(tx: &Tx<'_>, handler: &Handler, few: u32) -> Result<bool> {
    let found = tx.one(
        "SELECT COUNT(*) FROM (SELECT 1 FROM instances INDEXED BY idx_instances_handler
             WHERE orchestration_name = ?1 AND COALESCE(orchestration_version, 'unknown') = ?2 LIMIT ?3 + 1)",
        (&handler.name, &handler.version, few),
        |row| count(row, 0),
    )?;
    Ok(found <= few as usize)
}

/// Whether at most `few` executions ended in the range that is asked for.
pub(crate) fn few_ended(tx: &Tx<'_>, (from, until): (i64, i64), few: u32) -> Result<bool> {
    let found = tx.one(
        "SELECT COUNT(*) FROM (SELECT 1 FROM executions INDEXED BY idx_executions_ended
             WHERE status IN ('Completed', 'Failed') AND completed_at >= ?1 AND completed_at < ?2 LIMIT ?3 + 1)",
        (from, until, few),
        |row| count(row, 0),
    )?;
    Ok(found <= few as usize)
}

/// Whether at most `few` instances have the first of the asked labels.
pub(crate) fn few_of_label(tx: &Tx<'_>, criteria: &Criteria, few: u32) -> Result<bool> {
    let (key, value) = &criteria.label;
    let found = tx.one(
        "SELECT COUNT(*) FROM (SELECT 1 FROM labels
             WHERE key = ?1 AND value = ?2 LIMIT ?3 + 1)",
        (key, value, few),
        |row| count(row, 0),
    )?;
    Ok(found <= few as usize)
}

/// Whether at most `few` ids lie in the range of the prefix, which has an end.
pub(crate) fn few_of_prefix(tx: &Tx<'_>, criteria: &Criteria, few: u32) -> Result<bool> {
    let found = tx.one(
        "SELECT COUNT(*) FROM (SELECT 1 FROM instances
             WHERE instance_id >= ?1 AND instance_id < ?2 LIMIT ?3 + 1)",
        (&criteria.prefix, &criteria.prefix_end, few),
        |row| count(row, 0),
    )?;
    Ok(found <= few as usize)
}
