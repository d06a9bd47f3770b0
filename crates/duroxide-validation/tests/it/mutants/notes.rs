//! What a mutant remembers of the calls it saw.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use duroxide_core::provider::{BlockNote, OrchestrationItem, ScheduledActivityIdentifier};
use duroxide_core::{Labels, WorkItem};

#[derive(Default)]
pub(super) struct Notes {
    inner: Mutex<Inner>,
    /// Whether a fetch is under way.
    pub(super) busy: AtomicBool,
    /// How many fetches are under way, or were made.
    pub(super) fetching: AtomicUsize,
}

#[derive(Default)]
pub(super) struct Inner {
    /// Instance of every turn token seen.
    pub(super) turns: HashMap<String, String>,
    /// Activity of every work token seen.
    pub(super) works: HashMap<String, WorkItem>,
    /// What calls said, by instance and call.
    pub(super) said: HashMap<(String, u64), String>,
    /// The labels that an instance was last seen with.
    pub(super) labels: HashMap<String, Labels>,
    /// What was noted of instances that are blocked.
    pub(super) blocks: HashMap<String, BlockNote>,
    /// The memo that an instance was last seen with.
    pub(super) memos: HashMap<String, String>,
    /// Turn tokens that committed.
    pub(super) committed: HashSet<String>,
    /// Claims that were neither acked nor abandoned.
    pub(super) open_turns: HashSet<String>,
    /// Instances that were written to before they were started.
    pub(super) orphans: HashSet<String>,
    /// The real token behind the one that everybody gets.
    pub(super) real_token: Option<String>,
    /// The token of the last claim.
    pub(super) last_token: Option<String>,
    /// How long the first lease of a token was.
    pub(super) lengths: HashMap<String, Duration>,
    /// What instances set, by instance and key.
    pub(super) values: HashMap<String, HashMap<String, String>>,
    /// Values and children of instances that were deleted.
    pub(super) deleted: HashMap<String, (HashMap<String, String>, Vec<String>)>,
    /// Why the store says that it is closed.
    pub(super) closed: Option<String>,
    /// Attempts that strangers took off.
    pub(super) forgiven: HashMap<String, u32>,
    /// A claim that another claimer may have, too.
    pub(super) met: Option<(OrchestrationItem, String, u32)>,
}

impl Notes {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics under this lock")
    }

    pub(super) fn instance_of(&self, token: &str) -> Option<String> {
        self.lock().turns.get(token).cloned()
    }

    /// Whether a claim of a turn or an activity was seen whose end was not.
    pub(super) fn holds_leases(&self) -> bool {
        let inner = self.lock();
        !inner.open_turns.is_empty() || !inner.works.is_empty()
    }

    pub(super) fn activity_of(&self, token: &str) -> Option<WorkItem> {
        self.lock().works.get(token).cloned()
    }

    /// Whether this activity was ever claimed.
    pub(super) fn was_claimed(&self, wanted: &ScheduledActivityIdentifier) -> bool {
        self.lock().works.values().any(|item| {
            matches!(item, WorkItem::ActivityExecute { instance, id, .. }
                if *instance == wanted.instance && *id == wanted.activity_id)
        })
    }
}
