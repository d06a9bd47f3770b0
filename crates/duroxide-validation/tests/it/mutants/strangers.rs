//! Flaws about what is not there: instances that nobody started, tokens that nobody got, queues that are empty.

use duroxide_core::provider::{
    InstanceOutcome, KvEntry, OrchestrationItem, OutcomeStatus, PendingWork, Provider,
    ProviderError, SystemStats,
};
use duroxide_core::{Event, WorkItem};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

fn nothing(operation: &str) -> ProviderError {
    ProviderError::permanent(operation, "there is nothing")
}

impl Mutant {
    /// A number or a text about an instance that the store does not know.
    pub(super) fn or_known<T>(&self, answer: Option<T>, invented: impl FnOnce() -> T) -> Option<T> {
        match answer {
            None if self.has(Flaw::StrangersAreKnown) => Some(invented()),
            answer => answer,
        }
    }

    pub(super) fn no_stats() -> SystemStats {
        SystemStats {
            history_event_count: 0,
            history_size_bytes: 0,
            queue_pending_count: 0,
            kv_user_key_count: 0,
            kv_total_value_bytes: 0,
        }
    }

    pub(super) fn no_outcome() -> InstanceOutcome {
        InstanceOutcome {
            execution_id: 1,
            status: OutcomeStatus::Running,
            custom_status: None,
            custom_status_version: 0,
        }
    }

    /// An instance without a row is told as one whose turn runs.
    pub(super) fn as_pending(&self, pending: &mut PendingWork) {
        let is_empty = pending.messages.is_empty() && pending.activities.is_empty();
        if is_empty && self.has(Flaw::StrangersAreKnown) {
            pending.turn_leased_until_ms = Some(u64::MAX);
        }
    }

    pub(super) fn or_missing(&self, history: Vec<Event>) -> Result<Vec<Event>> {
        if history.is_empty() && self.has(Flaw::NoHistoryIsAnError) {
            return Err(nothing("read"));
        }
        Ok(history)
    }

    /// What a claim found; nothing may be an error.
    pub(super) fn or_fail<T>(&self, found: Vec<T>, operation: &str) -> Result<Vec<T>> {
        if found.is_empty() && self.has(Flaw::NoWorkIsAnError) {
            return Err(nothing(operation));
        }
        Ok(found)
    }

    /// A value that nobody set, for an instance that begins.
    pub(super) fn invent_value(item: &mut OrchestrationItem) {
        if item.history.is_empty() {
            let entry = KvEntry {
                value: String::new(),
                last_updated_at_ms: 1,
            };
            item.kv_snapshot.insert("invented".to_owned(), entry);
        }
    }

    /// Whether this renewal is accepted though its token was never handed out.
    pub(super) fn takes_for_renewed(&self, token: &str) -> bool {
        let is_known =
            self.notes.instance_of(token).is_some() || self.notes.activity_of(token).is_some();
        self.has(Flaw::StrangersRenew) && !is_known
    }

    /// Whether an activity is dropped because its instance is not there.
    pub(super) async fn drops_work(&self, item: &WorkItem) -> Result<bool> {
        if !self.has(Flaw::WorkNeedsItsInstance) {
            return Ok(false);
        }
        let outcome = self.inner.read_outcome(item.target_instance()).await?;
        Ok(outcome.is_none())
    }

    /// Whether a start is dropped because a message of its id could not be read.
    pub(super) async fn drops_start(&self, item: &WorkItem) -> Result<bool> {
        if !self.has(Flaw::DeadLetterBlocksId) || !item.is_start() {
            return Ok(false);
        }
        let letters = self
            .reference()
            .list_dead_letters_of(item.target_instance(), 1);
        Ok(!letters.await?.is_empty())
    }
}
