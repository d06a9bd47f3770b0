//! Claiming in batches, and claiming what the caller already knows.
//!
//! These types belong to the additive half of the contract: a provider that implements only the published methods
//! never sees them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{OrchestrationItem, SessionFetchConfig, TagFilter, WorkItem};
use crate::version::DispatcherCapabilityFilter;

/// What a dispatcher asks for when it claims turns.
#[derive(Clone)]
pub struct TurnClaim {
    /// How many instances at most; at least one.
    pub max: usize,
    /// Lease of each claimed instance.
    pub lock_timeout: Duration,
    /// How long to wait for the first one.
    pub poll_timeout: Duration,
    /// Which executions the caller can replay; `None` for all.
    pub filter: Option<DispatcherCapabilityFilter>,
    /// Histories the caller holds in memory; their events need not be loaded again.
    pub cached: Option<Arc<dyn CachedHistories>>,
    /// Whether the caller takes turns ahead of the commit of their claim. It promises to do nothing with them but to
    /// decide, and to commit or give back what it decided; a claim that did not last is told by that commit, as a lost
    /// lease. What it asks meanwhile ([`get_kv_value`](super::Provider::get_kv_value),
    /// [`activity_claimed`](super::Provider::activity_claimed)) is answered as of its claim. A store need not make use
    /// of it.
    pub ahead: bool,
}

impl fmt::Debug for TurnClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnClaim")
            .field("max", &self.max)
            .field("lock_timeout", &self.lock_timeout)
            .field("poll_timeout", &self.poll_timeout)
            .field("filter", &self.filter)
            .field("ahead", &self.ahead)
            .finish_non_exhaustive()
    }
}

/// Up to where the caller holds a history in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedHistory {
    /// The execution.
    pub execution_id: u64,
    /// Its last event.
    pub last_event_id: u64,
}

/// Answers, during a claim, which history the caller holds. Called inside the claiming transaction: must be quick.
pub trait CachedHistories: Send + Sync {
    /// What is held for this instance.
    fn cached(&self, instance: &str) -> Option<CachedHistory>;
}

/// One claimed instance.
#[derive(Debug)]
pub struct ClaimedTurn {
    /// The turn. If `history` says [`TurnHistory::Unchanged`], its history and key-value snapshot are empty.
    pub item: OrchestrationItem,
    /// Proof of the lease.
    pub lock_token: String,
    /// Largest attempt count over the messages.
    pub attempt_count: u32,
    /// Attempt count of each message, in the order of `item.messages`; empty if the store does not tell.
    pub message_attempts: Vec<u32>,
    /// Whether the events were loaded.
    pub history: TurnHistory,
}

/// Whether a claim loaded the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnHistory {
    /// The item carries it.
    Loaded,
    /// The store confirmed, in the claiming transaction, that the caller's copy is current.
    Unchanged,
}

/// What a dispatcher asks for when it claims activities.
#[derive(Debug, Clone)]
pub struct WorkClaim {
    /// How many at most; at least one.
    pub max: usize,
    /// Lease of each claimed item.
    pub lock_timeout: Duration,
    /// How long to wait for the first one.
    pub poll_timeout: Duration,
    /// Session owner; `None` takes no session-bound work.
    pub session: Option<SessionFetchConfig>,
    /// Which tags.
    pub tag_filter: TagFilter,
}

/// One claimed activity.
#[derive(Debug, Clone)]
pub struct ClaimedWork {
    /// The item.
    pub item: WorkItem,
    /// Proof of the lease.
    pub lock_token: String,
    /// How often it was claimed, this time included.
    pub attempt_count: u32,
}
