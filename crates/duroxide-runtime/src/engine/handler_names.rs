//! Which handler an activity runs for. Remembered when its turn commits here, else asked of the store.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use duroxide_core::provider::{Incarnation, Provider};
use lru::LruCache;

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

/// A life of an instance, and its execution: another instance under the same id has another life.
type Key = (Incarnation, u64);
type NameAndVersion = (String, String);

/// Names and versions of handlers by life of an instance and execution.
pub(crate) struct HandlerNames {
    known: Mutex<LruCache<Key, NameAndVersion>>,
}

impl HandlerNames {
    pub(crate) fn new() -> Self {
        Self {
            known: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    pub(crate) fn remember(&self, life: Incarnation, execution_id: u64, name: &str, version: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (life, execution_id);
        if !known.contains(&key) {
            known.push(key, (name.to_owned(), version.to_owned()));
        }
    }

    /// Name and version; `"unknown"` if the store does not know either. Without a life nothing is remembered.
    pub(crate) async fn of(
        &self,
        store: &dyn Provider,
        instance: &str,
        life: Option<Incarnation>,
        execution_id: u64,
    ) -> NameAndVersion {
        if let Some(found) = life.and_then(|life| self.remembered(life, execution_id)) {
            return found;
        }
        match store.execution_handler(instance, execution_id).await {
            Ok(Some((name, version))) => {
                if let Some(life) = life {
                    self.remember(life, execution_id, &name, &version);
                }
                (name, version)
            }
            Ok(None) | Err(_) => ("unknown".to_owned(), "unknown".to_owned()),
        }
    }

    fn remembered(&self, life: Incarnation, execution_id: u64) -> Option<NameAndVersion> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(life, execution_id)).cloned()
    }
}
