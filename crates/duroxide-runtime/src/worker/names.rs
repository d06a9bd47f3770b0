//! Which handler an activity runs for. Remembered when its turn commits here, else asked of the store.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use duroxide_core::provider::Provider;
use lru::LruCache;

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

type Key = (String, u64);
type NameAndVersion = (String, String);

/// Names and versions of handlers by instance and execution.
pub(crate) struct HandlerNames {
    known: Mutex<LruCache<Key, NameAndVersion>>,
}

impl HandlerNames {
    pub(crate) fn new() -> Self {
        Self {
            known: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    pub(crate) fn remember(&self, instance: &str, execution_id: u64, name: &str, version: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (instance.to_owned(), execution_id);
        if !known.contains(&key) {
            known.push(key, (name.to_owned(), version.to_owned()));
        }
    }

    /// Name and version; `"unknown"` if the store does not know either.
    pub(crate) async fn of(
        &self,
        store: &dyn Provider,
        instance: &str,
        execution_id: u64,
    ) -> NameAndVersion {
        let key = (instance.to_owned(), execution_id);
        let remembered = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if let Some(found) = remembered {
            return found;
        }
        match store.execution_handler(instance, execution_id).await {
            Ok(Some((name, version))) => {
                self.remember(instance, execution_id, &name, &version);
                (name, version)
            }
            Ok(None) | Err(_) => ("unknown".to_owned(), "unknown".to_owned()),
        }
    }
}
