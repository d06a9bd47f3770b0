//! What happens to the calls of a process to its store: it dies at one of them, or the store fails it.
//!
//! The store itself lives on, as a file does. A commit that was under way when the process died has either happened or
//! not; the process never learns which.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide_core::provider::ProviderError;
use duroxide_runtime::observability::Layer;
use tokio::sync::Notify;

/// Whether something happens before a call reaches the store, or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The store never sees the call.
    Before,
    /// The store has done what the call asks for, and its answer is lost.
    After,
}

/// Calls that write what a process did.
const COMMITS: [&str; 2] = ["ack_orchestration_item", "ack_work_item"];
/// The name under which both are counted.
const COMMIT: &str = "commit";

/// Calls that a runtime makes, by the names of their methods.
const CALLS: [&str; 17] = [
    COMMIT,
    "claim_turns",
    "ack_orchestration_item",
    "abandon_orchestration_item",
    "rest_orchestration_item",
    "renew_orchestration_item_lock",
    "claim_work",
    "ack_work_item",
    "abandon_work_item",
    "renew_work_item_lock",
    "heartbeat_work_item",
    "renew_session_lock",
    "enqueue_for_orchestrator",
    "read",
    "read_with_execution",
    "dead_letter_messages",
    "dead_letter_work_item",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// The process dies.
    Death,
    /// The store answers with an error that may pass.
    Error,
}

#[derive(Debug)]
struct Planned {
    call: &'static str,
    /// Which call of this name it is.
    number: u64,
    what: What,
    moment: Moment,
}

#[derive(Debug, Default)]
struct Book {
    counts: HashMap<&'static str, u64>,
    planned: Vec<Planned>,
    /// Workers that died and were not started again.
    dead: Vec<usize>,
}

/// What is to happen to the calls of all workers.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    book: Mutex<Book>,
    died: Notify,
}

impl Fate {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn die_at_commit(&self, nth: u64, moment: Moment) {
        self.plan(COMMIT, nth, What::Death, moment);
    }

    pub(crate) fn die_at(&self, call: &str, nth: u64, moment: Moment) {
        self.plan(call, nth, What::Death, moment);
    }

    pub(crate) fn fail_at(&self, call: &str, nth: u64, moment: Moment) {
        self.plan(call, nth, What::Error, moment);
    }

    fn plan(&self, call: &str, nth: u64, what: What, moment: Moment) {
        let known = CALLS.into_iter().find(|known| *known == call);
        let call = known.unwrap_or_else(|| {
            panic!(
                "a worker never calls {call:?}; it calls {}",
                CALLS.join(", ")
            )
        });
        let mut book = self.book();
        let number = book.counts.get(call).copied().unwrap_or(0) + nth.max(1);
        book.planned.push(Planned {
            call,
            number,
            what,
            moment,
        });
    }

    /// Counts a call and says what happens to it.
    fn of(&self, call: &'static str) -> Option<(What, Moment)> {
        let mut book = self.book();
        let mut names = vec![call];
        if COMMITS.contains(&call) {
            names.push(COMMIT);
        }
        let mut fate = None;
        for name in names {
            let count = book.counts.entry(name).or_default();
            *count += 1;
            let number = *count;
            let is_due = |planned: &mut Planned| planned.call == name && planned.number <= number;
            if let Some(planned) = book.planned.extract_if(.., is_due).next() {
                fate = fate.or(Some((planned.what, planned.moment)));
            }
        }
        fate
    }

    /// Commits so far.
    pub(crate) fn commits(&self) -> u64 {
        self.book().counts.get(COMMIT).copied().unwrap_or(0)
    }

    /// Calls of one name so far.
    pub(crate) fn calls(&self, call: &str) -> u64 {
        self.book().counts.get(call).copied().unwrap_or(0)
    }

    /// The next worker that died.
    pub(crate) async fn died(&self) -> usize {
        loop {
            let noticed = self.died.notified();
            if let Some(worker) = self.book().dead.pop() {
                return worker;
            }
            noticed.await;
        }
    }
}

/// One run of a worker process.
#[derive(Debug)]
pub(crate) struct WorkerRun {
    fate: Arc<Fate>,
    worker: usize,
    dead: AtomicBool,
}

impl WorkerRun {
    pub(crate) fn new(fate: Arc<Fate>, worker: usize) -> Self {
        Self {
            fate,
            worker,
            dead: AtomicBool::new(false),
        }
    }

    fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.fate.book().dead.push(self.worker);
        self.fate.died.notify_one();
    }
}

impl Layer for WorkerRun {
    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        if self.dead.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let Some((what, moment)) = self.fate.of(operation) else {
            return call.await;
        };
        if moment == Moment::After {
            // The store's answer reaches no code.
            let _unheard = call.await;
        }
        match what {
            What::Error => {
                let text = "the test has the store fail here";
                Err(ProviderError::retryable(operation, text))
            }
            What::Death => {
                self.end();
                std::future::pending().await
            }
        }
    }
}
