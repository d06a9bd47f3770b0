//! Key-values of an instance: the base left by finished executions, and over it the changes of the running one.
//! The two tables are only ever used together, so they share this file.

use std::collections::HashMap;

use duroxide_core::provider::KvEntry;

use crate::error::Result;
use crate::tables::budget::{rows, spend};
use crate::tx::{Tx, shown_ms, stored_ms};

/// A change made by the running execution.
#[derive(Debug, Clone)]
pub(crate) enum KvChange {
    Set {
        key: String,
        value: String,
        at_ms: u64,
    },
    Clear {
        key: String,
    },
    ClearAll,
}

pub(crate) fn change(tx: &Tx<'_>, instance: &str, change: &KvChange) -> Result<()> {
    const UPSERT: &str =
        "INSERT INTO kv_delta (instance_id, key, value, last_updated_at_ms) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (instance_id, key) DO UPDATE
         SET value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms";
    match change {
        KvChange::Set { key, value, at_ms } => {
            tx.execute(UPSERT, (instance, key, Some(value), stored_ms(*at_ms)))?;
        }
        KvChange::Clear { key } => {
            tx.execute(UPSERT, (instance, key, None::<&str>, tx.now))?;
        }
        KvChange::ClearAll => {
            tx.execute(
                "UPDATE kv_delta SET value = NULL, last_updated_at_ms = ?2 WHERE instance_id = ?1",
                (instance, tx.now),
            )?;
            tx.execute(
                "INSERT INTO kv_delta (instance_id, key, value, last_updated_at_ms)
                 SELECT instance_id, key, NULL, ?2 FROM kv_store WHERE instance_id = ?1
                 ON CONFLICT (instance_id, key) DO NOTHING",
                (instance, tx.now),
            )?;
        }
    }
    Ok(())
}

/// The execution has ended and did not fail: its changes become the base.
pub(crate) fn merge(tx: &Tx<'_>, instance: &str) -> Result<()> {
    let changed = tx.first(
        "SELECT 1 FROM kv_delta WHERE instance_id = ?1 LIMIT 1",
        [instance],
        |_| Ok(()),
    )?;
    if changed.is_none() {
        return Ok(());
    }
    tx.execute(
        "INSERT INTO kv_store (instance_id, key, value, last_updated_at_ms)
         SELECT instance_id, key, value, last_updated_at_ms FROM kv_delta WHERE instance_id = ?1 AND value IS NOT NULL
         ON CONFLICT (instance_id, key) DO UPDATE
         SET value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms",
        [instance],
    )?;
    tx.execute(
        "DELETE FROM kv_store WHERE instance_id = ?1
         AND key IN (SELECT key FROM kv_delta WHERE instance_id = ?1 AND value IS NULL)",
        [instance],
    )?;
    tx.execute("DELETE FROM kv_delta WHERE instance_id = ?1", [instance])?;
    Ok(())
}

/// Another execution begins in place of one that failed: the changes of that one are no longer true.
pub(crate) fn drop_changes(tx: &Tx<'_>, instance: &str) -> Result<()> {
    tx.execute("DELETE FROM kv_delta WHERE instance_id = ?1", [instance])?;
    Ok(())
}

/// What the running execution started from, if that has no more bytes than `bytes_max`.
pub(crate) fn base_up_to(
    tx: &Tx<'_>,
    instance: &str,
    bytes_max: usize,
) -> Result<Option<HashMap<String, KvEntry>>> {
    let mut entries = HashMap::new();
    let mut bytes = 0_usize;
    tx.walk(
        "SELECT key, value, last_updated_at_ms FROM kv_store WHERE instance_id = ?1",
        [instance],
        |row| {
            let (key, value): (String, String) = (row.get(0)?, row.get(1)?);
            bytes += key.len() + value.len();
            let last_updated_at_ms = shown_ms(row.get(2)?);
            let entry = KvEntry {
                value,
                last_updated_at_ms,
            };
            entries.insert(key, entry);
            Ok(bytes <= bytes_max)
        },
    )?;
    Ok((bytes <= bytes_max).then_some(entries))
}

/// What the running execution started from.
pub(crate) fn base(tx: &Tx<'_>, instance: &str) -> Result<HashMap<String, KvEntry>> {
    let base = base_up_to(tx, instance, usize::MAX)?;
    Ok(base.unwrap_or_default())
}

/// One value, the running execution's changes included.
pub(crate) fn value(tx: &Tx<'_>, instance: &str, key: &str) -> Result<Option<String>> {
    let changed: Option<Option<String>> = tx.first(
        "SELECT value FROM kv_delta WHERE instance_id = ?1 AND key = ?2",
        (instance, key),
        |row| row.get(0),
    )?;
    match changed {
        Some(value) => Ok(value),
        None => tx.first(
            "SELECT value FROM kv_store WHERE instance_id = ?1 AND key = ?2",
            (instance, key),
            |row| row.get(0),
        ),
    }
}

/// All values, the running execution's changes included.
pub(crate) fn values(tx: &Tx<'_>, instance: &str) -> Result<HashMap<String, String>> {
    let entries = tx.all(
        "SELECT key, value FROM kv_delta WHERE instance_id = ?1 AND value IS NOT NULL
         UNION ALL
         SELECT s.key, s.value FROM kv_store AS s WHERE s.instance_id = ?1 AND NOT EXISTS
             (SELECT 1 FROM kv_delta AS d WHERE d.instance_id = s.instance_id AND d.key = s.key)",
        [instance],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(entries.into_iter().collect())
}

/// Deletes key-values of an instance, as many as are left to the transaction.
pub(crate) fn delete_instance(tx: &Tx<'_>, instance: &str, left: &mut usize) -> Result<()> {
    if let Some(last) = last_that_fits(
        tx,
        "SELECT key, octet_length(value) FROM kv_store WHERE instance_id = ?1 ORDER BY key LIMIT ?2",
        instance,
        left,
    )? {
        tx.execute(
            "DELETE FROM kv_store WHERE instance_id = ?1 AND key <= ?2",
            (instance, last),
        )?;
    }
    if let Some(last) = last_that_fits(
        tx,
        "SELECT key, COALESCE(octet_length(value), 0) FROM kv_delta WHERE instance_id = ?1 ORDER BY key LIMIT ?2",
        instance,
        left,
    )? {
        tx.execute(
            "DELETE FROM kv_delta WHERE instance_id = ?1 AND key <= ?2",
            (instance, last),
        )?;
    }
    Ok(())
}

/// The last key up to which the transaction may delete.
fn last_that_fits(
    tx: &Tx<'_>,
    sql: &'static str,
    instance: &str,
    left: &mut usize,
) -> Result<Option<String>> {
    let mut last = None;
    let budget = rows(*left);
    tx.walk(sql, (instance, budget), |row| {
        last = Some(row.get(0)?);
        spend(left, row.get(1)?);
        Ok(*left > 0)
    })?;
    Ok(last)
}
