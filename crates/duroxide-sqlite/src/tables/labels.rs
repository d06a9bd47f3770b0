//! Labels of instances. They go with the row of their instance.

use duroxide_core::{LabelChange, Labels};

use crate::error::Result;
use crate::tx::Tx;

/// Makes a change; nothing happens if there is no such instance.
pub(crate) fn change(tx: &Tx<'_>, instance: &str, change: &LabelChange) -> Result<()> {
    match &change.value {
        Some(value) => tx.execute(
            "INSERT INTO labels (instance_id, key, value, created_at)
             SELECT instance_id, ?2, ?3, created_at FROM instances WHERE instance_id = ?1
             ON CONFLICT (instance_id, key) DO UPDATE SET value = excluded.value",
            (instance, &change.key, value),
        )?,
        None => tx.execute(
            "DELETE FROM labels WHERE instance_id = ?1 AND key = ?2",
            (instance, &change.key),
        )?,
    };
    Ok(())
}

/// All labels of an instance.
pub(crate) fn of(tx: &Tx<'_>, instance: &str) -> Result<Labels> {
    let labels = tx.all(
        "SELECT key, value FROM labels WHERE instance_id = ?1",
        [instance],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(labels.into_iter().collect())
}

/// Writes the labels of an instance that comes from a snapshot.
pub(crate) fn restore(tx: &Tx<'_>, instance: &str, labels: &Labels, created_at: i64) -> Result<()> {
    for (key, value) in labels {
        tx.execute(
            "INSERT INTO labels (instance_id, key, value, created_at) VALUES (?1, ?2, ?3, ?4)",
            (instance, key, value, created_at),
        )?;
    }
    Ok(())
}
