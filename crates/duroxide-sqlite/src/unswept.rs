//! Deleted instances of which this process has something left to delete. In: ids, noted inside the transactions that
//! delete. Out: what later calls go on with. Never what another process left: that goes when a file is opened.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Their ids. One whose transaction was rolled back after all is found to have nothing left.
#[derive(Debug, Default)]
pub(crate) struct Unswept(Mutex<BTreeSet<String>>);

impl Unswept {
    pub(crate) fn add(&self, instance: &str) {
        self.ids().insert(instance.to_owned());
    }

    pub(crate) fn remove(&self, instance: &str) {
        self.ids().remove(instance);
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.ids().iter().cloned().collect()
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
