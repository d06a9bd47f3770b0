//! Instances and activities that SQLite cannot read. In: the first failed read of one. Out: what the writer must not
//! touch again: SQLite refuses to commit a transaction that met a damaged page.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// How many damaged instances, and activities, are kept; with more than this, all are dropped and met anew.
const DAMAGED_MAX: usize = 8_192;

/// What of an instance cannot be read, in SQLite's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Damage {
    Messages(String),
    History(String),
}

/// The damaged rows that this process has met. Belongs to the writer thread.
#[derive(Debug, Default)]
pub(crate) struct DamagedRows {
    instances: RefCell<HashMap<String, Damage>>,
    /// Numbers of activities.
    work: RefCell<HashSet<i64>>,
}

impl DamagedRows {
    pub(crate) fn get(&self, instance: &str) -> Option<Damage> {
        let damaged = self.instances.borrow();
        if damaged.is_empty() {
            return None;
        }
        damaged.get(instance).cloned()
    }

    /// A page of the instance could not be read.
    pub(crate) fn add(&self, instance: &str, damage: Damage) {
        let mut damaged = self.instances.borrow_mut();
        if damaged.len() >= DAMAGED_MAX {
            damaged.clear();
        }
        tracing::error!(target: "duroxide::providers::sqlite", instance_id = instance, ?damage, "part of an instance cannot be read; restore a backup");
        damaged.insert(instance.to_owned(), damage);
    }

    /// Whether any activity could not be read.
    pub(crate) fn has_work(&self) -> bool {
        !self.work.borrow().is_empty()
    }

    pub(crate) fn contains_work(&self, id: i64) -> bool {
        self.work.borrow().contains(&id)
    }

    /// An activity could not be read.
    pub(crate) fn add_work(&self, id: i64, detail: &str) {
        let mut damaged = self.work.borrow_mut();
        if damaged.len() >= DAMAGED_MAX {
            damaged.clear();
        }
        tracing::error!(target: "duroxide::providers::sqlite", row = id, detail, "an activity cannot be read; restore a backup");
        damaged.insert(id);
    }
}
