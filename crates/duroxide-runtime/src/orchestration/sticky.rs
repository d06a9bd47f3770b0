//! Suspended orchestrations kept in memory between their turns. Bounded, and never trusted: the store confirms at each
//! claim that a kept one is current, else it is replayed.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide_core::provider::{CachedHistories, CachedHistory};
use duroxide_core::replay::Execution;
use lru::LruCache;

use crate::observability::MetricsProvider;

/// Suspended orchestrations by instance, least recently used first out.
pub(crate) struct StickyCache {
    kept: Option<Mutex<LruCache<String, Execution>>>,
    metrics: Arc<MetricsProvider>,
}

impl StickyCache {
    pub(crate) fn new(max: usize, metrics: Arc<MetricsProvider>) -> Self {
        Self {
            kept: NonZeroUsize::new(max).map(|max| Mutex::new(LruCache::new(max))),
            metrics,
        }
    }

    fn kept(&self) -> Option<MutexGuard<'_, LruCache<String, Execution>>> {
        self.kept
            .as_ref()
            .map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes an instance's orchestration out, whatever it is worth.
    pub(crate) fn take(&self, instance: &str) -> Option<Execution> {
        self.kept()?.pop(instance)
    }

    /// Keeps an orchestration whose turn was committed.
    pub(crate) fn keep(&self, execution: Execution) {
        let instance = execution.instance_id().to_owned();
        let evicted = self
            .kept()
            .and_then(|mut kept| kept.push(instance, execution));
        // Dropped here, outside the lock: it runs the author's destructors.
        if evicted.is_some() {
            self.metrics.record_sticky_eviction();
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let all = self.kept().map(|mut kept| {
            let mut all = Vec::with_capacity(kept.len());
            while let Some((_, execution)) = kept.pop_lru() {
                all.push(execution);
            }
            all
        });
        drop(all);
    }
}

impl CachedHistories for StickyCache {
    fn cached(&self, instance: &str) -> Option<CachedHistory> {
        self.kept()?.peek(instance).map(|execution| CachedHistory {
            execution_id: execution.execution_id(),
            last_event_id: execution.last_event_id(),
        })
    }
}
