//! Labels of instances. Each instance keeps its own, as a JSON object in its row; the table has an entry for each of
//! them, by which instances are found. Both go with the row of the instance.

use duroxide_core::provider::rules::Refusal;
use duroxide_core::{LabelChange, Labels};

use crate::error::Result;
use crate::tx::Tx;

/// The labels that changes make of those before.
pub(crate) fn changed(mut labels: Labels, changes: &[LabelChange]) -> Labels {
    for change in changes {
        match &change.value {
            Some(value) => labels.insert(change.key.clone(), value.clone()),
            None => labels.remove(&change.key),
        };
    }
    labels
}

/// Labels that a new instance begins with, made ready by the caller: the writer thread only moves bytes.
#[derive(Debug, Default)]
pub(crate) struct NewLabels {
    pub(crate) all: Labels,
    /// As they are stored with the instance.
    pub(crate) json: Option<String>,
}

impl NewLabels {
    /// What changes make of no labels.
    pub(crate) fn of(changes: &[LabelChange]) -> Self {
        if changes.is_empty() {
            return Self::default();
        }
        let all = changed(Labels::new(), changes);
        let json = json(&all);
        Self { all, json }
    }
}

/// As they are stored with an instance: nothing if there are none.
fn json(labels: &Labels) -> Option<String> {
    let json = || serde_json::to_string(labels).expect("a map of texts is JSON");
    (!labels.is_empty()).then(json)
}

/// Makes changes; nothing happens if there is no such instance.
pub(crate) fn change(tx: &Tx<'_>, instance: &str, changes: &[LabelChange]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let found = tx.first(
        "SELECT labels, created_at FROM instances WHERE instance_id = ?1",
        [instance],
        |row| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, i64>(1)?)),
    )?;
    let Some((stored, created_at)) = found else {
        return Ok(());
    };
    let before = read(instance, stored.as_deref())?;
    let after = changed(before.clone(), changes);
    for (key, value) in &before {
        if after.get(key) != Some(value) {
            tx.execute(
                "DELETE FROM labels WHERE key = ?1 AND value = ?2 AND created_at = ?3 AND instance_id = ?4",
                (key, value, created_at, instance),
            )?;
        }
    }
    let is_new = |(key, value): &(&String, &String)| before.get(*key) != Some(*value);
    enter(tx, instance, after.iter().filter(is_new), created_at)?;
    tx.execute(
        "UPDATE instances SET labels = ?2 WHERE instance_id = ?1",
        (instance, json(&after)),
    )?;
    Ok(())
}

/// Enters the labels of an instance whose row has them.
pub(crate) fn enter<'l>(
    tx: &Tx<'_>,
    instance: &str,
    labels: impl IntoIterator<Item = (&'l String, &'l String)>,
    created_at: i64,
) -> Result<()> {
    // One statement for each: several rows in one statement would make SQLite copy every page it changes, so that it
    // could take back a half of them.
    for (key, value) in labels {
        tx.execute(
            "INSERT INTO labels (key, value, created_at, instance_id) VALUES (?1, ?2, ?3, ?4)",
            (key, value, created_at, instance),
        )?;
    }
    Ok(())
}

/// All labels of an instance.
pub(crate) fn of(tx: &Tx<'_>, instance: &str) -> Result<Labels> {
    let stored: Option<Option<String>> = tx.first(
        "SELECT labels FROM instances WHERE instance_id = ?1",
        [instance],
        |row| row.get(0),
    )?;
    read(instance, stored.flatten().as_deref())
}

fn read(instance: &str, stored: Option<&str>) -> Result<Labels> {
    let Some(stored) = stored else {
        return Ok(Labels::new());
    };
    serde_json::from_str(stored).map_err(|error| {
        let refusal = Refusal::Undecodable {
            what: format!("the labels of {instance}"),
            why: error.to_string(),
        };
        refusal.into()
    })
}

/// Writes the labels of an instance that comes from a snapshot.
pub(crate) fn restore(tx: &Tx<'_>, instance: &str, labels: &Labels, created_at: i64) -> Result<()> {
    if labels.is_empty() {
        return Ok(());
    }
    tx.execute(
        "UPDATE instances SET labels = ?2 WHERE instance_id = ?1",
        (instance, json(labels)),
    )?;
    enter(tx, instance, labels, created_at)
}
