//! A process that dies, simulated: from one moment on, no call of its runtime to the store is answered any more.
//!
//! The store itself lives on, as a file does. A commit that was under way when the process died has either happened or
//! not; the runtime never learns which.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use duroxide_core::provider::ProviderError;
use duroxide_runtime::observability::Layer;
use tokio::sync::Notify;

/// Calls that write what a runtime did.
const COMMITS: [&str; 2] = ["ack_orchestration_item", "ack_work_item"];

/// When a process dies.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    commits: AtomicU64,
    dies_at: Mutex<Option<Death>>,
    died: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Death {
    at_commit: u64,
    /// Whether that commit still reaches the store.
    after: bool,
}

impl Fate {
    /// Lets the process die at the n-th commit from now, before or after it reaches the store.
    pub(crate) fn die_at_commit(&self, nth: u64, after: bool) {
        let at_commit = self.commits.load(Ordering::SeqCst) + nth.max(1);
        *self.dies_at.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Death { at_commit, after });
    }

    /// Commits so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Resolves when a process has died.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    fn death_at(&self, commit: u64) -> Option<Death> {
        let mut dies_at = self.dies_at.lock().unwrap_or_else(PoisonError::into_inner);
        dies_at.take_if(|death| commit >= death.at_commit)
    }
}

/// One life of a process.
#[derive(Debug)]
pub(crate) struct Life {
    fate: Arc<Fate>,
    dead: AtomicBool,
}

impl Life {
    pub(crate) fn new(fate: Arc<Fate>) -> Self {
        Self {
            fate,
            dead: AtomicBool::new(false),
        }
    }

    fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.fate.died.notify_one();
    }
}

impl Layer for Life {
    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        if self.dead.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        if !COMMITS.contains(&operation) {
            return call.await;
        }
        let commit = self.fate.commits.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fate.death_at(commit) {
            None => call.await,
            Some(death) => {
                if death.after {
                    // The process is dead: the store's answer reaches no code.
                    let _unheard = call.await;
                }
                self.end();
                std::future::pending().await
            }
        }
    }
}
