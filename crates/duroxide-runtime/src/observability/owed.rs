//! Counts that were made too early and are owed: the next end like it is not counted again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Ends with the same key are counted alike.
pub(super) type Key = (String, String, &'static str, Option<&'static str>);

/// Ends that were counted and then did not happen.
#[derive(Debug, Default)]
pub(super) struct Owed {
    ends: Mutex<HashMap<Key, u64>>,
}

impl Owed {
    pub(super) fn add(&self, key: Key) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        *ends.entry(key).or_default() += 1;
    }

    /// Takes one like this from what is owed; whether there was one.
    pub(super) fn take_one(&self, key: impl FnOnce() -> Key) -> bool {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.is_empty() {
            return false;
        }
        let key = key();
        let Some(owed) = ends.get_mut(&key) else {
            return false;
        };
        *owed -= 1;
        if *owed == 0 {
            ends.remove(&key);
        }
        true
    }
}
