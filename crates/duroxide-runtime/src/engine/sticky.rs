//! Suspended orchestrations kept in memory between their turns. Bounded, and never trusted: the store confirms at each
//! claim up to where a kept one is current, and what is kept must be at exactly that position, else it is replayed.
//!
//! The answer to a commit may be late by any amount; meanwhile other turns of the instance may have been claimed and
//! committed. So each claim opens a turn with a number of its own, and only the turn that was opened last may put its
//! orchestration here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::{CachedHistories, CachedHistory, Incarnation};
use duroxide_core::replay::Execution;
use lru::LruCache;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::observability::MetricsProvider;

/// How much may be kept, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StickyLimits {
    pub(crate) instances_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) idle_max: Duration,
}

/// A suspended orchestration, and which life of its instance it belongs to.
pub(crate) struct Kept {
    pub(crate) execution: Box<Execution>,
    pub(crate) incarnation: Incarnation,
    /// Bytes of the payloads it has seen: about what it may hold.
    pub(crate) bytes: usize,
}

impl Kept {
    pub(crate) fn position(&self) -> CachedHistory {
        CachedHistory {
            incarnation: self.incarnation,
            execution_id: self.execution.execution_id(),
            last_event_id: self.execution.last_event_id(),
        }
    }
}

struct Idle {
    kept: Kept,
    since: Instant,
}

struct Shelf {
    idle: LruCache<String, Idle>,
    bytes: usize,
    /// The last opened turn of each instance that has one.
    open: HashMap<String, u64>,
    next: u64,
}

impl Shelf {
    fn pop(&mut self, instance: &str) -> Option<Kept> {
        let idle = self.idle.pop(instance)?;
        self.bytes -= idle.kept.bytes;
        Some(idle.kept)
    }

    fn has_stale(&self, now: Instant, idle_max: Duration) -> bool {
        let oldest = self.idle.peek_lru();
        oldest.is_some_and(|(_, idle)| now.duration_since(idle.since) >= idle_max)
    }

    fn pop_oldest(&mut self) -> Option<Kept> {
        let (_, idle) = self.idle.pop_lru()?;
        self.bytes -= idle.kept.bytes;
        Some(idle.kept)
    }
}

/// Suspended orchestrations by instance, least recently used first out.
pub(crate) struct StickyCache {
    shelf: Option<Mutex<Shelf>>,
    limits: StickyLimits,
    metrics: Arc<MetricsProvider>,
    /// Wakes the sweeper when the cache is no longer empty.
    first: Notify,
}

/// A claimed turn of an instance, as this cache knows it.
pub(crate) struct OpenTurn {
    cache: Arc<StickyCache>,
    instance: String,
    number: u64,
}

impl StickyCache {
    pub(crate) fn new(limits: StickyLimits, metrics: Arc<MetricsProvider>) -> Self {
        Self {
            shelf: (limits.instances_max > 0).then(|| {
                Mutex::new(Shelf {
                    // `keep` keeps to the limit; a cache that knew it would reserve room for as many at once.
                    idle: LruCache::unbounded(),
                    bytes: 0,
                    open: HashMap::new(),
                    next: 0,
                })
            }),
            limits,
            metrics,
            first: Notify::new(),
        }
    }

    fn shelf(&self) -> Option<MutexGuard<'_, Shelf>> {
        self.shelf
            .as_ref()
            .map(|shelf| shelf.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens a claimed turn, and takes out what is kept of its instance, whatever that is worth.
    pub(crate) fn open(self: &Arc<Self>, instance: &str) -> (OpenTurn, Option<Kept>) {
        let (mut number, mut kept) = (0, None);
        if let Some(mut shelf) = self.shelf() {
            number = shelf.next;
            shelf.next += 1;
            shelf.open.insert(instance.to_owned(), number);
            kept = shelf.pop(instance);
        }
        let turn = OpenTurn {
            cache: Arc::clone(self),
            instance: instance.to_owned(),
            number,
        };
        (turn, kept)
    }

    /// Resolves when the longest idle orchestration has been idle for too long. A cache that stays empty never does: an
    /// idle runtime has nothing to wake up for.
    pub(crate) async fn next_stale(&self) {
        loop {
            let oldest = self
                .shelf()
                .and_then(|shelf| shelf.idle.peek_lru().map(|(_, idle)| idle.since));
            match oldest.map(|since| since.checked_add(self.limits.idle_max)) {
                Some(Some(at)) => {
                    tokio::time::sleep_until(at).await;
                    // That orchestration may have gone on meanwhile.
                    if self.is_stale(Instant::now()) {
                        return;
                    }
                }
                Some(None) => std::future::pending().await,
                None => self.first.notified().await,
            }
        }
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.shelf()
            .is_some_and(|shelf| shelf.has_stale(now, self.limits.idle_max))
    }

    /// Drops what has been idle for too long.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        loop {
            let Some(mut shelf) = self.shelf() else {
                return;
            };
            if !shelf.has_stale(now, self.limits.idle_max) {
                return;
            }
            let evicted = shelf.pop_oldest();
            drop(shelf);
            self.evict(evicted);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        while let Some(kept) = self.shelf().and_then(|mut shelf| shelf.pop_oldest()) {
            drop(kept);
        }
    }

    /// Drops orchestrations. Called without the lock: this runs the authors' destructors.
    fn evict(&self, evicted: impl IntoIterator<Item = Kept>) {
        for kept in evicted {
            drop(kept);
            self.metrics.record_sticky_eviction();
        }
    }

    fn keep(&self, turn: &OpenTurn, kept: Kept) {
        let Some(mut shelf) = self.shelf() else {
            return;
        };
        let mut is_open = shelf.open.get(&turn.instance) == Some(&turn.number);
        is_open |= Defect::LateAnswerReplacesNewer.is_on();
        if !is_open || kept.bytes > self.limits.bytes_max {
            drop(shelf);
            drop(kept);
            return;
        }
        shelf.bytes += kept.bytes;
        let idle = Idle {
            kept,
            since: Instant::now(),
        };
        if shelf.idle.is_empty() {
            self.first.notify_one();
        }
        let mut evicted: Vec<Kept> = Vec::new();
        if let Some((_, out)) = shelf.idle.push(turn.instance.clone(), idle) {
            shelf.bytes -= out.kept.bytes;
            evicted.push(out.kept);
        }
        while shelf.bytes > self.limits.bytes_max || shelf.idle.len() > self.limits.instances_max {
            evicted.extend(shelf.pop_oldest());
        }
        drop(shelf);
        self.evict(evicted);
    }
}

impl OpenTurn {
    /// Keeps the orchestration of this turn, which was committed; unless another turn was claimed meanwhile.
    pub(crate) fn keep(self, kept: Kept) {
        self.cache.keep(&self, kept);
    }
}

impl Drop for OpenTurn {
    fn drop(&mut self) {
        if let Some(mut shelf) = self.cache.shelf()
            && shelf.open.get(&self.instance) == Some(&self.number)
        {
            shelf.open.remove(&self.instance);
        }
    }
}

impl CachedHistories for StickyCache {
    fn cached(&self, instance: &str) -> Option<CachedHistory> {
        let shelf = self.shelf()?;
        let idle = shelf.idle.peek(instance)?;
        Some(idle.kept.position())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use duroxide_core::replay::{ExecutionStart, TurnLimits};
    use duroxide_core::{FnOrchestration, OrchestrationContext};

    use super::*;
    use crate::observability::ObservabilityConfig;

    fn cache(instances_max: usize, bytes_max: usize) -> Arc<StickyCache> {
        let limits = StickyLimits {
            instances_max,
            bytes_max,
            idle_max: Duration::from_secs(60),
        };
        let metrics = MetricsProvider::new(&ObservabilityConfig::default());
        Arc::new(StickyCache::new(limits, Arc::new(metrics.unwrap())))
    }

    /// A suspended orchestration of an instance.
    fn kept(instance: &str, bytes: usize) -> Kept {
        let waits = |ctx: OrchestrationContext, _: String| async move {
            Ok::<_, String>(ctx.schedule_wait("go").await)
        };
        let start = ExecutionStart {
            instance: instance.to_owned(),
            execution_id: 1,
            ..ExecutionStart::default()
        };
        let handler = Arc::new(FnOrchestration(waits));
        let mut execution = Box::new(Execution::begin(start, handler, HashMap::new(), 0));
        execution.start_turn(0, Vec::new());
        let limits = TurnLimits {
            payload_bytes_max: 1_000,
            history_events_max: None,
        };
        execution.advance(&limits, true);
        Kept {
            execution,
            incarnation: Incarnation::from_random(42),
            bytes,
        }
    }

    #[test]
    fn a_turn_keeps_nothing_once_another_one_was_claimed() {
        let cache = cache(10, 1_000);
        let (late, _) = cache.open("i");
        let (newer, found) = cache.open("i");
        assert!(found.is_none());
        late.keep(kept("i", 1));
        assert!(cache.cached("i").is_none());
        newer.keep(kept("i", 1));
        assert!(cache.cached("i").is_some());
    }

    #[test]
    fn what_is_kept_is_bounded_by_its_bytes() {
        let cache = cache(10, 100);
        for instance in ["a", "b", "c"] {
            let (turn, _) = cache.open(instance);
            turn.keep(kept(instance, 40));
        }
        assert!(cache.cached("a").is_none());
        assert!(cache.cached("b").is_some() && cache.cached("c").is_some());
        let (turn, _) = cache.open("huge");
        turn.keep(kept("huge", 101));
        assert!(cache.cached("huge").is_none() && cache.cached("c").is_some());
    }

    #[test]
    fn what_is_kept_is_bounded_by_its_number_and_room_is_not_reserved() {
        let two = cache(2, 1_000);
        for instance in ["a", "b", "c"] {
            let (turn, _) = two.open(instance);
            turn.keep(kept(instance, 1));
        }
        assert!(two.cached("a").is_none());
        assert!(two.cached("b").is_some() && two.cached("c").is_some());
        let all = cache(usize::MAX, 1_000);
        let (turn, _) = all.open("a");
        turn.keep(kept("a", 1));
        assert!(all.cached("a").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_rests_for_too_long_leaves_memory() {
        let cache = cache(10, 1_000);
        for instance in ["old", "young"] {
            let (turn, _) = cache.open(instance);
            turn.keep(kept(instance, 1));
            tokio::time::advance(Duration::from_secs(40)).await;
            cache.sweep();
        }
        assert!(cache.cached("old").is_none());
        assert!(cache.cached("young").is_some());
    }
}
