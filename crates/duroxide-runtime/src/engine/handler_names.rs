//! Which handler an activity runs for. In: turns that commit here, and answers of the store for all others. Out: name
//! and version. Never asks twice for a life of an instance that it remembers.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::provider::{Incarnation, Provider};
use lru::LruCache;
use tokio::time::Instant;

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

/// How long an answer is good that names no life.
const LIFELESS_ANSWER_MAX_AGE: Duration = Duration::from_secs(5);

/// A life of an instance, and its execution: another instance under the same id has another life.
type Key = (Incarnation, u64);
type NameAndVersion = (String, String);

/// Names and versions of handlers by life of an instance and execution.
pub(crate) struct HandlerNames {
    known: Mutex<LruCache<Key, NameAndVersion>>,
    /// What stores said that draw no lives: good for a moment only, because the id may begin another life.
    recent: Mutex<LruCache<(String, u64), (NameAndVersion, Instant)>>,
}

impl HandlerNames {
    pub(crate) fn new() -> Self {
        Self {
            known: Mutex::new(LruCache::new(REMEMBERED)),
            recent: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    pub(crate) fn remember(
        &self,
        incarnation: Incarnation,
        execution_id: u64,
        name: &str,
        version: &str,
    ) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (incarnation, execution_id);
        if !known.contains(&key) {
            known.push(key, (name.to_owned(), version.to_owned()));
        }
    }

    /// Name and version; `"unknown"` if the store does not know either. Without a life the answer is remembered for a
    /// moment.
    pub(crate) async fn of(
        &self,
        store: &dyn Provider,
        instance: &str,
        incarnation: Option<Incarnation>,
        execution_id: u64,
    ) -> NameAndVersion {
        let found = match incarnation {
            Some(incarnation) => self.remembered(incarnation, execution_id),
            None => self.recently_found(instance, execution_id),
        };
        if let Some(found) = found {
            return found;
        }
        match store.execution_handler(instance, execution_id).await {
            Ok(Some((name, version))) => {
                match incarnation {
                    Some(incarnation) => self.remember(incarnation, execution_id, &name, &version),
                    None => self.remember_found(instance, execution_id, &name, &version),
                }
                (name, version)
            }
            Ok(None) | Err(_) => ("unknown".to_owned(), "unknown".to_owned()),
        }
    }

    fn remembered(&self, incarnation: Incarnation, execution_id: u64) -> Option<NameAndVersion> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(incarnation, execution_id)).cloned()
    }

    fn recently_found(&self, instance: &str, execution_id: u64) -> Option<NameAndVersion> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, since) = recent.get(&(instance.to_owned(), execution_id))?;
        (since.elapsed() < LIFELESS_ANSWER_MAX_AGE).then(|| found.clone())
    }

    fn remember_found(&self, instance: &str, execution_id: u64, name: &str, version: &str) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let found = (name.to_owned(), version.to_owned());
        recent.push((instance.to_owned(), execution_id), (found, Instant::now()));
    }
}
