//! Where metrics go: to the recorder of the `metrics` facade. In: a name and labels. Out: a counter, gauge or
//! histogram.
//!
//! A recorder may belong to one thread, as in tests. The engine works on other threads, and a recorder cannot be
//! carried there; what it registers can. So if the thread that starts a runtime has a recorder of its own, everything
//! that the runtime may record is registered at the start, and found again by name and labels.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use ::metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, with_recorder};

const ORIGIN: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// What one recorder registered, by name and labels.
struct Registered<T>(RwLock<HashMap<Key, T>>);

impl<T> Default for Registered<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Clone> Registered<T> {
    fn insert(&self, key: Key, metric: T) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(key, metric);
    }

    fn get(&self, key: &Key) -> Option<T> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(key).cloned()
    }
}

/// What the recorder of the starting thread registered.
#[derive(Default)]
struct Local {
    counters: Registered<Counter>,
    gauges: Registered<Gauge>,
    histograms: Registered<Histogram>,
    is_ready: AtomicBool,
}

/// Where metrics go.
#[derive(Default)]
pub(super) struct Sink {
    local: OnceLock<Local>,
}

impl Sink {
    /// Registers all that `record_all` records, if this thread has a recorder of its own. Nothing is counted meanwhile.
    pub(super) fn prepare(&self, record_all: impl FnOnce()) -> bool {
        if !has_local_recorder() || self.local.set(Local::default()).is_err() {
            return false;
        }
        record_all();
        if let Some(local) = self.local.get() {
            local.is_ready.store(true, Ordering::Release);
        }
        true
    }

    pub(super) fn counter(&self, name: &'static str, labels: Vec<Label>) -> Counter {
        let key = Key::from_parts(name, labels);
        let register = |key: &Key| with_recorder(|r| r.register_counter(key, &ORIGIN));
        self.find(key, |local| &local.counters, register, Counter::noop)
    }

    pub(super) fn gauge(&self, name: &'static str, labels: Vec<Label>) -> Gauge {
        let key = Key::from_parts(name, labels);
        let register = |key: &Key| with_recorder(|r| r.register_gauge(key, &ORIGIN));
        self.find(key, |local| &local.gauges, register, Gauge::noop)
    }

    pub(super) fn histogram(&self, name: &'static str, labels: Vec<Label>) -> Histogram {
        let key = Key::from_parts(name, labels);
        let register = |key: &Key| with_recorder(|r| r.register_histogram(key, &ORIGIN));
        self.find(key, |local| &local.histograms, register, Histogram::noop)
    }

    fn find<T: Clone>(
        &self,
        key: Key,
        kind: impl Fn(&Local) -> &Registered<T>,
        register: impl Fn(&Key) -> T,
        noop: impl Fn() -> T,
    ) -> T {
        let Some(local) = self.local.get() else {
            return register(&key);
        };
        if local.is_ready.load(Ordering::Acquire) {
            return kind(local).get(&key).unwrap_or_else(noop);
        }
        let metric = register(&key);
        kind(local).insert(key, metric);
        noop()
    }
}

/// Whether this thread has another recorder than a new one would have.
fn has_local_recorder() -> bool {
    let here = recorder_address();
    let elsewhere = std::thread::Builder::new()
        .spawn(recorder_address)
        .map(std::thread::JoinHandle::join);
    matches!(elsewhere, Ok(Ok(elsewhere)) if elsewhere != here)
}

fn recorder_address() -> usize {
    with_recorder(|recorder| std::ptr::from_ref(recorder).cast::<()>().addr())
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink")
            .field("is_local", &self.local.get().is_some())
            .finish()
    }
}
