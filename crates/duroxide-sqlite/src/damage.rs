//! Instances that SQLite cannot read. In: the first failed read of an instance. Out: what the writer must not touch
//! again: SQLite refuses to commit a transaction that met a damaged page.

use std::cell::RefCell;
use std::collections::HashMap;

/// How many damaged instances are kept; with more than this, all are dropped and met anew.
const DAMAGED_MAX: usize = 8_192;

/// What of an instance cannot be read, in SQLite's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Damage {
    Messages(String),
    History(String),
}

/// The damaged instances that this process has met. Belongs to the writer thread.
#[derive(Debug, Default)]
pub(crate) struct DamagedInstances(RefCell<HashMap<String, Damage>>);

impl DamagedInstances {
    pub(crate) fn get(&self, instance: &str) -> Option<Damage> {
        let damaged = self.0.borrow();
        if damaged.is_empty() {
            return None;
        }
        damaged.get(instance).cloned()
    }

    /// A page of the instance could not be read.
    pub(crate) fn add(&self, instance: &str, damage: Damage) {
        let mut damaged = self.0.borrow_mut();
        if damaged.len() >= DAMAGED_MAX {
            damaged.clear();
        }
        tracing::error!(target: "duroxide::providers::sqlite", instance_id = instance, ?damage, "part of an instance cannot be read; restore a backup");
        damaged.insert(instance.to_owned(), damage);
    }
}
