//! Claiming in batches, and claiming what the caller already knows.
//!
//! These types belong to the additive half of the contract: a provider that implements only the published methods
//! never sees them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Incarnation, OrchestrationHandlers, OrchestrationItem, SessionFetchConfig, TagFilter, WorkItem,
};
use crate::version::DispatcherCapabilityFilter;

/// How many messages of one instance a claim hands out at most, through whichever method. The rest stays queued and
/// comes with the next turn, in order.
pub const CLAIM_MESSAGES_MAX: usize = 1_000;

/// How many bytes of messages of one instance a claim hands out at most; one message always comes, whatever its size.
pub const CLAIM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How many [`QueueMessage`](crate::WorkItem::QueueMessage)s of one instance a claim hands out at most; it ends before
/// the next one. Code may read one of them per execution, and carries the others on.
pub const CLAIM_QUEUE_MESSAGES_MAX: usize = 64;

/// After this many messages of all its instances together a claim takes no further instance.
pub const CLAIM_MESSAGES_IN_ALL_MAX: usize = 4 * CLAIM_MESSAGES_MAX;

/// After this many bytes of messages of all its instances together a claim takes no further instance.
pub const CLAIM_BYTES_IN_ALL_MAX: usize = 4 * CLAIM_BYTES_MAX;

/// What a dispatcher asks for when it claims turns.
///
/// ```
/// use duroxide_core::provider::TurnClaim;
/// use std::time::Duration;
/// let claim = TurnClaim { messages_max: 10, ..TurnClaim::new(64, Duration::from_secs(5), Duration::ZERO) };
/// assert!(claim.handlers.is_none() && claim.cached.is_none());
/// ```
#[derive(Clone)]
pub struct TurnClaim {
    /// The largest number of instances; at least one.
    ///
    /// One claim takes a bounded number of messages in all. Once its instances have brought
    /// [`CLAIM_MESSAGES_IN_ALL_MAX`] messages or [`CLAIM_BYTES_IN_ALL_MAX`] bytes of them, it takes no further instance
    /// and leaves the others as they are, untried, to the next claim. The first instance always gets what
    /// [`messages_max`](Self::messages_max) allows, and so does each one that is begun within the bound: it is never
    /// exceeded by more than one instance may bring.
    pub max: usize,
    /// Lease of each claimed instance.
    pub lock_timeout: Duration,
    /// The longest wait for the first one.
    pub poll_timeout: Duration,
    /// The executions that the caller can replay; `None` for all.
    pub filter: Option<DispatcherCapabilityFilter>,
    /// Handlers that the caller has; `None` for all. An instance goes only to callers that can run it: a running
    /// one by the handler of its current execution, a new or continued one by the handler that its start names.
    /// Messages of an instance that has ended need no code. To be passed over for want of code is not an attempt.
    pub handlers: Option<Arc<OrchestrationHandlers>>,
    /// An instance with a request to cancel that was enqueued this long ago goes to any caller, with code or without:
    /// it can be ended though no node has its code. One with a request that
    /// [terminates](crate::WorkItem::terminates) does so at once: no code is asked.
    pub cancel_without_code_after: Duration,
    /// How many messages of one instance at most, oldest first, at least one and never more than [`CLAIM_MESSAGES_MAX`]
    /// or [`CLAIM_BYTES_MAX`] allow. The message that begins the next execution and the oldest request to cancel, one
    /// that terminates before others, come with the claim even if older messages fill it: an instance that cannot run
    /// must still be seen to be cancelled. Of queue messages a claim takes no more than [`CLAIM_QUEUE_MESSAGES_MAX`].
    ///
    /// A [`ContinueAsNew`](crate::WorkItem::ContinueAsNew) goes before an older start, for the claim and for the code
    /// it needs. If it carries unread queue messages, the claim takes no
    /// [`QueueMessage`](crate::WorkItem::QueueMessage): they stay queued, in their order, for a turn that begins
    /// nothing or carries nothing. What an instance carries from execution to execution does not grow with its queue.
    pub messages_max: usize,
    /// Histories the caller holds in memory; their events need not be loaded again.
    pub cached: Option<Arc<dyn CachedHistories>>,
    /// The earliest moment at which the caller accepts the turns. A store may always hand them out later.
    pub hand_out: HandOut,
}

impl TurnClaim {
    /// How long the claim waits for the first one, short enough to be added to any instant; `None` if it does not wait.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        wait(self.poll_timeout)
    }

    /// A claim of up to `max` instances by a caller that can run and replay everything and holds nothing in memory.
    #[must_use]
    pub fn new(max: usize, lock_timeout: Duration, poll_timeout: Duration) -> Self {
        Self {
            max,
            lock_timeout,
            poll_timeout,
            filter: None,
            handlers: None,
            cancel_without_code_after: Duration::ZERO,
            messages_max: CLAIM_MESSAGES_MAX,
            cached: None,
            hand_out: HandOut::AfterCommit,
        }
    }

    /// The claim of one instance that [`Provider::fetch_orchestration_item`](super::Provider::fetch_orchestration_item)
    /// stands for.
    #[must_use]
    pub fn one(
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Self {
        Self {
            filter: filter.cloned(),
            ..Self::new(1, lock_timeout, poll_timeout)
        }
    }
}

impl fmt::Debug for TurnClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnClaim")
            .field("max", &self.max)
            .field("lock_timeout", &self.lock_timeout)
            .field("poll_timeout", &self.poll_timeout)
            .field("filter", &self.filter)
            .field("handlers", &self.handlers)
            .field("messages_max", &self.messages_max)
            .field("hand_out", &self.hand_out)
            .finish_non_exhaustive()
    }
}

/// When a store hands out the turns of a claim.
///
/// A turn only decides: until the store commits it, nothing outside the caller has seen any effect of it. So a store
/// may hand a turn out before it has committed the claim, store message, claim and turn in one transaction, and save
/// syncs to disk. [`BeforeCommit`](Self::BeforeCommit) permits that to a store that keeps four rules:
///
/// 1. **It is a permission.** A store that hands out after the commit does everything right and can ignore the variant.
/// 2. **The claim and the turn last together.** From the moment of the hand-out the turn is leased, and the lease runs
///    out like any other. The commit of the turn succeeds only if its claim is stored before it or with it, and if no
///    other claim got the instance meanwhile. If the transaction of the claim is rolled back or never stored, every
///    later call with its lock token fails as a [lost lease](super::ProviderError::lease_lost).
/// 3. **The turn reads what its claim saw.** While the claim is not committed,
///    [`get_kv_value`](super::Provider::get_kv_value) and [`activity_claimed`](super::Provider::activity_claimed)
///    answer from the state that includes the open transaction, and so does
///    [`pending_work`](super::ProviderAdmin::pending_work);
///    [`read_outcome`](super::Provider::read_outcome) knows of instances that began in it.
/// 4. **A crash is counted.** A turn that ends the process before the commit leaves no attempt behind. So a store hands
///    out before the commit only messages that it has never handed out before, and none for a while after an unclean
///    shutdown: whatever ended the process is then handed out after its attempt is stored.
///
/// The caller promises in return that it only decides, and that it commits or abandons the turn. Before a turn runs an
/// effect in place or asks the store something, the caller calls [`store_lease`](super::Provider::store_lease); if that
/// fails, the turn does neither. So a store that hands turns out early implements it.
///
/// Activities have no such permission ([`WorkClaim`] has no such field): they act on the world, so the store hands them
/// out after the commit.
///
/// ```
/// use duroxide_core::provider::{HandOut, TurnClaim};
/// use std::time::Duration;
/// let claim = TurnClaim::new(1, Duration::from_secs(5), Duration::ZERO);
/// assert_eq!(claim.hand_out, HandOut::AfterCommit);
/// let early = TurnClaim { hand_out: HandOut::BeforeCommit, ..claim };
/// assert_eq!(early.hand_out, HandOut::BeforeCommit);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HandOut {
    /// The store hands a turn out after it has committed the claim.
    #[default]
    AfterCommit,
    /// The store may hand a turn out before it has committed the claim.
    BeforeCommit,
}

/// Up to where the caller holds a history in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedHistory {
    /// The life of the instance.
    pub incarnation: Incarnation,
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
    /// Attempt count of each message, in the order of `item.messages`; empty if the store does not report it.
    pub message_attempts: Vec<u32>,
    /// The life of the instance; of one that does not exist yet, the life that the commit of this turn gives it. `None`
    /// if the store draws none: the engine then keeps nothing of it in memory.
    pub incarnation: Option<Incarnation>,
    /// Whether the events were loaded.
    pub history: TurnHistory,
}

impl ClaimedTurn {
    /// What [`Provider::fetch_orchestration_item`](super::Provider::fetch_orchestration_item) returns: the turn, its
    /// lock token and its attempt count.
    #[must_use]
    pub fn into_parts(self) -> (OrchestrationItem, String, u32) {
        (self.item, self.lock_token, self.attempt_count)
    }
}

/// Whether a claim loaded the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnHistory {
    /// The item carries it.
    Loaded,
    /// The store confirmed, in the claiming transaction, that the caller's copy up to here is current.
    Unchanged(CachedHistory),
}

/// What a dispatcher asks for when it claims activities.
#[derive(Debug, Clone)]
pub struct WorkClaim {
    /// The largest number of activities; at least one.
    pub max: usize,
    /// Lease of each claimed item.
    pub lock_timeout: Duration,
    /// The longest wait for the first one.
    pub poll_timeout: Duration,
    /// Session owner; `None` takes no session-bound work.
    pub session: Option<SessionFetchConfig>,
    /// How many sessions that the owner does not hold yet this claim may take at most. Work of a session that would
    /// exceed it stays queued, free for other owners.
    pub new_sessions_max: usize,
    /// The tags that the caller takes.
    pub tag_filter: TagFilter,
    /// The activities the caller has code for; `None` for all. Work for other names stays queued and is not counted as
    /// tried.
    pub activities: Option<Arc<BTreeSet<String>>>,
}

impl WorkClaim {
    /// How long the claim waits for the first one, short enough to be added to any instant; `None` if it does not wait.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        wait(self.poll_timeout)
    }

    /// A claim of up to `max` activities of any name without a tag, and of no session.
    #[must_use]
    pub fn new(max: usize, lock_timeout: Duration, poll_timeout: Duration) -> Self {
        Self {
            max,
            lock_timeout,
            poll_timeout,
            session: None,
            new_sessions_max: usize::MAX,
            tag_filter: TagFilter::default(),
            activities: None,
        }
    }

    /// The claim of one activity that [`Provider::fetch_work_item`](super::Provider::fetch_work_item) stands for.
    #[must_use]
    pub fn one(
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Self {
        Self {
            session: session.cloned(),
            tag_filter: tag_filter.clone(),
            ..Self::new(1, lock_timeout, poll_timeout)
        }
    }
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
    /// The life of the instance that scheduled it; `None` if the store does not report it.
    pub incarnation: Option<Incarnation>,
}

impl ClaimedWork {
    /// What [`Provider::fetch_work_item`](super::Provider::fetch_work_item) returns: the item, its lock token and its
    /// attempt count.
    #[must_use]
    pub fn into_parts(self) -> (WorkItem, String, u32) {
        (self.item, self.lock_token, self.attempt_count)
    }
}

/// Stands for every longer wait: what a caller means by "for ever" could overflow an instant.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60 * 24 * 365);

fn wait(poll_timeout: Duration) -> Option<Duration> {
    (!poll_timeout.is_zero()).then(|| poll_timeout.min(WAIT_MAX))
}
