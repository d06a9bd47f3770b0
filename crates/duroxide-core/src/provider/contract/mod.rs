//! The trait that a store implements. In: what runtimes and clients ask for. Out: what the store has committed. Two
//! halves: the published methods, and additive ones with defaults. Nothing here runs code or decides for an instance.

mod look_then_write;

use std::any::Any;
use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    BlockedInstance, ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata,
    InstanceOutcome, InstanceWatch, OrchestrationItem, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, Submission, Submitted, SystemStats, TagFilter,
    TurnClaim, TurnHistory, TurnWrites, WorkClaim, WorkItem,
};
use crate::event::Event;

/// A place where histories, queues and leases live.
///
/// Rules that hold for every method:
///
/// - The store never makes up execution or event ids, and rejects an event with id 0 for good.
/// - `Ok(Some(_))` of a fetch means the caller holds a lease, `Err(_)` that it holds none.
/// - Every write of a lease holder checks the lease inside the same transaction.
/// - Any call may be dropped at any await; a lease taken just before runs out by itself.
/// - Events come back exactly as they were given, `duroxide_version` included.
#[async_trait]
pub trait Provider: Any + Send + Sync {
    /// The store's name, for logs.
    fn name(&self) -> &str {
        "unknown"
    }

    /// The store's version, for logs.
    fn version(&self) -> &str {
        "0.0.0"
    }

    /// Claims one instance with all its visible messages; the number is the largest attempt count among them.
    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError>;

    /// Commits one turn: all of it or nothing, and only while the lease is valid.
    #[expect(clippy::too_many_arguments, reason = "the published signature")]
    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError>;

    /// Gives a claimed instance back. Delay and attempt correction touch exactly the claimed messages.
    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError>;

    /// History of the latest execution; empty for an unknown instance.
    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError>;

    /// History of one execution; empty if unknown.
    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError>;

    /// Appends events without a lease; for tests and fault injection.
    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError>;

    /// Puts an activity on the worker queue.
    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError>;

    /// Claims one activity.
    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError>;

    /// Removes a claimed activity and, in the same transaction, enqueues its completion.
    async fn ack_work_item(
        &self,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError>;

    /// Extends the lease of a claimed activity from now; never revives an expired one.
    async fn renew_work_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError>;

    /// Extends the leases of these owners' active sessions; returns how many.
    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError>;

    /// Removes expired sessions that no queued activity names; returns how many.
    async fn cleanup_orphaned_sessions(
        &self,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError>;

    /// Gives a claimed activity back.
    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError>;

    /// Extends the lease of a claimed instance from now; never revives an expired one.
    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError>;

    /// Puts a message on the orchestrator queue, visible after `delay`.
    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError>;

    /// Puts a start, messages, or both on the orchestrator queue of one instance, if what has its id allows it. What
    /// has the id is read, what has ended is deleted and all items are stored in one transaction: [`Submission::step`]
    /// says what to do, [`Submission::answer`] what to return. Nothing else writes to the id between the look and the
    /// write; a start that is queued counts as there, also one that is delayed. A submission that is refused changes
    /// nothing.
    ///
    /// Default: looks and writes after that, so that two callers at once may both find the id free. A store that
    /// overrides it says so with [`submits_in_one_step`](Self::submits_in_one_step).
    ///
    /// # Errors
    ///
    /// As [`enqueue_for_orchestrator`](Self::enqueue_for_orchestrator), and if [`Submission::check`] does not pass.
    /// What the rule refuses is an answer and no error.
    async fn submit(&self, submission: Submission) -> Result<Submitted, ProviderError> {
        look_then_write::run(self, submission).await
    }

    /// Whether [`submit`](Self::submit) looks and writes in one transaction.
    ///
    /// Default: `false`.
    fn submits_in_one_step(&self) -> bool {
        false
    }

    /// The administrative half, if the store has one.
    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        None
    }

    /// The custom status and its version, if the version is above `last_seen_version`.
    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError>;

    /// One value, the running execution's changes included.
    async fn get_kv_value(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError>;

    /// All values, the running execution's changes included, read as one snapshot.
    async fn get_kv_all_values(
        &self,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError>;

    /// Sizes of one instance; `None` if it is unknown.
    async fn get_instance_stats(
        &self,
        instance: &str,
    ) -> Result<Option<SystemStats>, ProviderError>;

    /// Claims up to `claim.max` instances in one step. Waits up to `poll_timeout` for the first, never for more.
    ///
    /// Default: one call of [`fetch_orchestration_item`](Self::fetch_orchestration_item).
    async fn claim_turns(&self, claim: TurnClaim) -> Result<Vec<ClaimedTurn>, ProviderError> {
        let found = self
            .fetch_orchestration_item(
                claim.lock_timeout,
                claim.poll_timeout,
                claim.filter.as_ref(),
            )
            .await?;
        Ok(found
            .map(|(item, lock_token, attempt_count)| ClaimedTurn {
                item,
                lock_token,
                attempt_count,
                message_attempts: Vec::new(),
                incarnation: None,
                history: TurnHistory::Loaded,
            })
            .into_iter()
            .collect())
    }

    /// Claims up to `claim.max` activities in one step. Waits up to `poll_timeout` for the first, never for more.
    ///
    /// Default: one call of [`fetch_work_item`](Self::fetch_work_item).
    async fn claim_work(&self, claim: WorkClaim) -> Result<Vec<ClaimedWork>, ProviderError> {
        let found = self
            .fetch_work_item(
                claim.lock_timeout,
                claim.poll_timeout,
                claim.session.as_ref(),
                &claim.tag_filter,
            )
            .await?;
        Ok(found
            .map(|(item, lock_token, attempt_count)| ClaimedWork {
                item,
                lock_token,
                attempt_count,
                incarnation: None,
            })
            .into_iter()
            .collect())
    }

    /// Of these activity leases, the ones that are gone (cancelled, taken over or expired), by a cheap read.
    ///
    /// Default: `None`, the store cannot tell and workers learn it from their next renewal.
    async fn lost_work_items(
        &self,
        tokens: &[String],
    ) -> Result<Option<Vec<String>>, ProviderError> {
        let _ = tokens;
        Ok(None)
    }

    /// Whether a worker ever claimed a scheduled activity; one that is no longer queued counts as claimed.
    ///
    /// Default: `None`, the store cannot tell.
    async fn activity_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Result<Option<bool>, ProviderError> {
        let _ = activity;
        Ok(None)
    }

    /// Extends the lease of a claimed activity as [`renew_work_item_lock`](Self::renew_work_item_lock) does and, in the
    /// same transaction, keeps what the activity said last, in place of what the call said before. `call` is the first
    /// attempt of the call that the activity belongs to, by its scheduling event: a later attempt finds the details
    /// under it with [`last_heartbeat`](Self::last_heartbeat). They last as long as the execution's history, and no
    /// later life of the instance sees them. `true`: they are kept.
    ///
    /// Default: extends the lease; `false`, the store keeps no details.
    ///
    /// # Errors
    ///
    /// As a renewal. Nothing is kept under a lost lease.
    async fn heartbeat_work_item(
        &self,
        token: &str,
        extend_for: Duration,
        call: u64,
        details: &str,
    ) -> Result<bool, ProviderError> {
        let _ = (call, details);
        self.renew_work_item_lock(token, extend_for).await?;
        Ok(false)
    }

    /// What a call said last with [`heartbeat_work_item`](Self::heartbeat_work_item); `activity_id` is its first
    /// attempt.
    ///
    /// Default: `None`, the store keeps no details.
    ///
    /// # Errors
    ///
    /// When the store is out of reach.
    async fn last_heartbeat(
        &self,
        call: &ScheduledActivityIdentifier,
    ) -> Result<Option<String>, ProviderError> {
        let _ = call;
        Ok(None)
    }

    /// Dead-letters claimed messages, named by their position in the claimed batch, under the same lease. The rest of
    /// the batch stays claimed.
    ///
    /// Default: `false`, the store keeps no dead letters and nothing changed.
    async fn dead_letter_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Result<bool, ProviderError> {
        let _ = (lock_token, positions, reason);
        Ok(false)
    }

    /// Gives a claimed instance back so that nothing overtakes what was claimed:
    ///
    /// - The store hands out nothing of the instance until `rest` has passed, a message arrives, or one becomes
    ///   visible.
    /// - Then all its messages come, in order.
    /// - If a message arrived or became visible between the claim and this call, the instance is claimable at once.
    ///   After a full claim only a request to cancel has that effect, because the claim left older messages behind.
    /// - Attempts are corrected as in [`abandon_orchestration_item`](Self::abandon_orchestration_item), whose delay
    ///   later messages do not share.
    ///
    /// Default: `false`, the store cannot do that and nothing changed.
    async fn rest_orchestration_item(
        &self,
        lock_token: &str,
        rest: Duration,
        ignore_attempt: bool,
    ) -> Result<bool, ProviderError> {
        let _ = (lock_token, rest, ignore_attempt);
        Ok(false)
    }

    /// Notes under the lease of a claimed turn that the caller's node cannot go on with the instance, in place of what
    /// was noted before. The note holds until the instance has a further event, has ended or is another life; it
    /// outlives the node and the lease, and goes with the instance. The claim stays as it is. `true`: it is noted;
    /// `false` also for an instance that has not begun.
    ///
    /// Operators read it with [`ProviderAdmin::block_note`](super::ProviderAdmin::block_note) and find the instance by
    /// [`InstanceQuery::blocked`](super::InstanceQuery::blocked).
    ///
    /// Default: `false`, the store keeps no notes.
    ///
    /// # Errors
    ///
    /// As a [lost lease](ProviderError::lease_lost). Nothing is noted under a lost lease.
    async fn note_blocked(
        &self,
        lock_token: &str,
        blocked: &BlockedInstance,
        node: &str,
    ) -> Result<bool, ProviderError> {
        let _ = (lock_token, blocked, node);
        Ok(false)
    }

    /// Sees to it that the lease of a claimed turn is stored, with its messages. The engine asks for that before a turn
    /// that may have been handed out early ([`HandOut::BeforeCommit`](super::HandOut::BeforeCommit)) does more than
    /// decide: before it runs an effect in place, or asks the store something. A turn whose claim cannot be stored does
    /// neither.
    ///
    /// `Ok` means that the store has committed the claim: its lease, its messages and its attempt survive a crash, and
    /// no other claim gets the instance while the lease lasts.
    ///
    /// Default: nothing is to be done, because the store hands turns out after it has committed their claims.
    ///
    /// # Errors
    ///
    /// As a [lost lease](ProviderError::lease_lost) if the claim was rolled back, or the instance went to another claim
    /// or changed meanwhile.
    async fn store_lease(&self, lock_token: &str) -> Result<(), ProviderError> {
        let _ = lock_token;
        Ok(())
    }

    /// Commits one turn as [`ack_orchestration_item`](Self::ack_orchestration_item) does and, in the same transaction,
    /// holds the queue messages of the instance back: its [`WorkItem::QueueMessage`]s, those that are queued and those
    /// that come. Until the next commit of the instance no claim takes one of them, and they alone do not make it
    /// claimable. All other messages are handed out as always, however many queue messages were queued before them;
    /// finding them may take several claims, each of them short.
    ///
    /// The next plain commit of the instance ends that: the queue messages come again, in the order in which they were
    /// sent, within the bounds of a claim. A claim that was abandoned or ran out changes nothing. Nothing of it
    /// outlives the instance: an instance that has ended gets its queue messages as always, and a later life of the id
    /// holds none back.
    ///
    /// The engine asks for it when the code has queue messages that it did not read and waits for none: it would record
    /// further ones and carry them on. `true`: they are held back.
    ///
    /// Default: commits the turn; `false`, the store holds nothing back.
    ///
    /// # Errors
    ///
    /// As a commit.
    async fn ack_holding_queue_messages(
        &self,
        lock_token: &str,
        writes: TurnWrites,
    ) -> Result<bool, ProviderError> {
        writes.commit_to(self, lock_token).await?;
        Ok(false)
    }

    /// Dead-letters a claimed item of the worker queue, under its lease.
    ///
    /// Default: `false`, the store keeps no dead letters and nothing changed.
    async fn dead_letter_work_item(
        &self,
        token: &str,
        reason: &str,
    ) -> Result<bool, ProviderError> {
        let _ = (token, reason);
        Ok(false)
    }

    /// Where an instance stands, without reading its history; `None` if it is unknown.
    ///
    /// Default: derived from [`read`](Self::read) and [`get_custom_status`](Self::get_custom_status).
    async fn read_outcome(&self, instance: &str) -> Result<Option<InstanceOutcome>, ProviderError> {
        let history = self.read(instance).await?;
        let Some(mut outcome) = InstanceOutcome::of_history(&history) else {
            return Ok(None);
        };
        if let Some((status, version)) = self.get_custom_status(instance, 0).await? {
            outcome.custom_status = status;
            outcome.custom_status_version = version;
        }
        Ok(Some(outcome))
    }

    /// Name and version of the handler of one execution, without reading its history; `None` if unknown.
    ///
    /// Default: from the first event of the execution.
    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Option<(String, String)>, ProviderError> {
        let history = self.read_with_execution(instance, execution_id).await?;
        Ok(history.iter().find_map(Event::started_handler))
    }

    /// The time of the clock that the store compares due times with, in milliseconds since the Unix epoch. A runtime
    /// whose own clock differs follows this one, so that a timer does not fire early or late by the difference. `None`:
    /// the clocks are the same, or the store cannot tell.
    ///
    /// Default: `None`.
    ///
    /// # Errors
    ///
    /// When the store is out of reach.
    async fn clock_ms(&self) -> Result<Option<u64>, ProviderError> {
        Ok(None)
    }

    /// Notices of changes of one instance. `None`: the store cannot wake, ask again from time to time.
    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        let _ = instance;
        None
    }
}

impl TurnWrites {
    /// Gives it to a store as a plain commit ([`Provider::ack_orchestration_item`]).
    pub fn commit_to<'a, P: Provider + ?Sized>(
        self,
        store: &'a P,
        lock_token: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), ProviderError>> + Send + 'a>> {
        store.ack_orchestration_item(
            lock_token,
            self.execution_id,
            self.history,
            self.to_workers,
            self.to_orchestrators,
            self.metadata,
            self.cancelled,
        )
    }
}
