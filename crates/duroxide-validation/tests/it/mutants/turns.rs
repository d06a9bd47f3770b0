//! Flaws of the orchestrator side.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duroxide_core::provider::{
    CachedHistory, ClaimedTurn, DispatcherCapabilityFilter, ExecutionMetadata, HandOut,
    Incarnation, KvEntry, OrchestrationItem, OutcomeStatus, Provider, ProviderError,
    ScheduledActivityIdentifier, SemverRange, TurnClaim, TurnHistory,
};
use duroxide_core::{Event, EventKind, REWIND_QUEUE, WorkItem};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;
type Fetched = Option<(OrchestrationItem, String, u32)>;

const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);
const SHARED_TOKEN: &str = "the-token";

/// A commit, by name.
pub(super) struct Turn {
    pub(super) token: String,
    pub(super) execution_id: u64,
    pub(super) events: Vec<Event>,
    pub(super) work: Vec<WorkItem>,
    pub(super) messages: Vec<WorkItem>,
    pub(super) metadata: ExecutionMetadata,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
}

/// One range from the lowest to the highest version of all ranges.
fn hull(ranges: &[SemverRange]) -> Vec<SemverRange> {
    let min = ranges.iter().map(|range| &range.min).min();
    let max = ranges.iter().map(|range| &range.max).max();
    let ends = min.cloned().zip(max.cloned());
    ends.map(|(min, max)| SemverRange::new(min, max))
        .into_iter()
        .collect()
}

/// Whether a turn schedules an activity that it cancels.
fn schedules(work: &[WorkItem], wanted: &ScheduledActivityIdentifier) -> bool {
    work.iter().any(|item| {
        matches!(item, WorkItem::ActivityExecute { instance, execution_id, id, .. }
            if *instance == wanted.instance
                && *execution_id == wanted.execution_id
                && *id == wanted.activity_id)
    })
}

fn rand_bits() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

impl Mutant {
    pub(super) fn real_token(&self, token: &str) -> String {
        let real = self.notes.lock().real_token.clone();
        match real {
            Some(real) if token == SHARED_TOKEN => real,
            _ => token.to_owned(),
        }
    }

    pub(super) async fn fetch_turn(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched> {
        if self.has(Flaw::OrphanBlocksQueue) && self.has_orphan().await? {
            return Ok(None);
        }
        if self.is_blind() {
            return Ok(None);
        }
        if self.has(Flaw::LostRaceIsNoWork) {
            return self
                .fetch_or_give_up(lock_timeout, poll_timeout, filter)
                .await;
        }
        if self.has(Flaw::ClaimsTwice) {
            return self.fetch_twice(lock_timeout, poll_timeout).await;
        }
        if self.has(Flaw::Oversleeps) {
            self.oversleep(poll_timeout).await;
        }
        let filter = self.as_filter(filter);
        let lease = self.as_lease(lock_timeout);
        let found = match self.flaw {
            Flaw::NeverWaits => {
                let now = Duration::ZERO;
                self.inner
                    .fetch_orchestration_item(lease, now, filter.as_ref())
                    .await?
            }
            Flaw::SleepsThroughWork => {
                self.fetch_asleep(lease, poll_timeout, filter.as_ref())
                    .await?
            }
            _ => {
                self.inner
                    .fetch_orchestration_item(lease, poll_timeout, filter.as_ref())
                    .await?
            }
        };
        if let Some((_, token, _)) = &found {
            self.note_length(token, lock_timeout);
        }
        if self.has(Flaw::LeaseIsLimitedTooLate)
            && let Some((_, token, _)) = &found
        {
            tokio::task::yield_now().await;
            self.inner
                .renew_orchestration_item_lock(token, lock_timeout)
                .await?;
        }
        if self.has(Flaw::LeaseIsNoLease)
            && let Some((_, token, _)) = &found
        {
            let at_once = Duration::ZERO;
            self.inner
                .renew_orchestration_item_lock(token, at_once)
                .await?;
        }
        self.as_fetched(found).await
    }

    async fn fetch_or_give_up(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched> {
        if self.notes.busy.swap(true, Ordering::SeqCst) {
            return Ok(None);
        }
        let _busy = Busy(&self.notes.busy);
        tokio::task::yield_now().await;
        self.inner
            .fetch_orchestration_item(lock_timeout, poll_timeout, filter)
            .await
    }

    async fn fetch_asleep(
        &self,
        lease: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched> {
        let now = Duration::ZERO;
        let found = self
            .inner
            .fetch_orchestration_item(lease, now, filter)
            .await?;
        if found.is_some() || poll_timeout.is_zero() {
            return Ok(found);
        }
        tokio::time::sleep(poll_timeout).await;
        self.inner
            .fetch_orchestration_item(lease, now, filter)
            .await
    }

    fn as_lease(&self, lock_timeout: Duration) -> Duration {
        match self.flaw {
            Flaw::LeaseLastsForEver | Flaw::LeaseIsLimitedTooLate => FOR_EVER,
            _ => lock_timeout,
        }
    }

    fn as_filter(
        &self,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Option<DispatcherCapabilityFilter> {
        let mut filter = filter.cloned()?;
        let ranges = &mut filter.supported_duroxide_versions;
        match self.flaw {
            Flaw::IgnoresFilter => return None,
            Flaw::EmptyFilterAdmitsAll if ranges.is_empty() => return None,
            Flaw::FirstRangeOnly => ranges.truncate(1),
            Flaw::RangesAreOne => *ranges = hull(ranges),
            _ => {}
        }
        Some(filter)
    }

    async fn as_fetched(&self, found: Fetched) -> Result<Fetched> {
        let Some((mut item, mut token, mut attempt)) = found else {
            return Ok(None);
        };
        if self.has(Flaw::HistoryErrorIsError)
            && let Some(text) = item.history_error
        {
            return Err(ProviderError::permanent("fetch_orchestration_item", text));
        }
        {
            let mut notes = self.notes.lock();
            notes.turns.insert(token.clone(), item.instance.clone());
            notes.open_turns.insert(token.clone());
            notes.last_token = Some(token.clone());
            notes.real_token = self.has(Flaw::OneTokenForAll).then(|| token.clone());
        }
        self.strip(&item.instance, &mut item.messages);
        match self.flaw {
            Flaw::OneTokenForAll => SHARED_TOKEN.clone_into(&mut token),
            Flaw::ReversesMessages => item.messages.reverse(),
            Flaw::LosesLastMessage if item.messages.len() > 1 => drop(item.messages.pop()),
            Flaw::ReversesHistory => item.history.reverse(),
            Flaw::ExecutionStuck => item.execution_id = 1,
            Flaw::AttemptsFromZero => attempt -= 1,
            Flaw::AttemptsNotKept => attempt = 1,
            Flaw::StrangersForgive => attempt = self.forgiven(&item.instance, attempt),
            Flaw::KvClearsForgotten => self.unclear(&mut item),
            Flaw::KvSnapshotEmpty => item.kv_snapshot.clear(),
            Flaw::KvSnapshotTooNew => self.refresh_snapshot(&mut item).await?,
            Flaw::FailedChangesAreBuiltOn => {
                let last = item.history.last().map(|event| &event.kind);
                if matches!(last, Some(EventKind::OrchestrationFailed { .. })) {
                    self.refresh_snapshot(&mut item).await?;
                }
            }
            _ => {}
        }
        Ok(Some((item, token, attempt)))
    }

    async fn refresh_snapshot(&self, item: &mut OrchestrationItem) -> Result<()> {
        let current = self.inner.get_kv_all_values(&item.instance).await?;
        for (key, value) in current {
            let entry = KvEntry {
                value,
                last_updated_at_ms: 0,
            };
            item.kv_snapshot.insert(key, entry);
        }
        Ok(())
    }

    pub(super) async fn claim_batch(&self, claim: TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let claim = self.as_turn_claim(claim);
        match self.flaw {
            Flaw::PassedOverIsAnAttempt | Flaw::OnlyTheFirstIsLookedAt => {
                return self.claim_looking(claim).await;
            }
            Flaw::TerminationWaits => return self.claim_unhurried(claim).await,
            Flaw::TrustsCache => return self.claim_trusting(claim, |_, _| true).await,
            Flaw::ConfirmsAnyLife => {
                let right_length = |held: CachedHistory, turn: &ClaimedTurn| {
                    held.execution_id == turn.item.execution_id
                        && held.last_event_id == turn.item.history.len() as u64
                };
                return self.claim_trusting(claim, right_length).await;
            }
            Flaw::ConfirmsByCount => {
                let same_length = |held: CachedHistory, turn: &ClaimedTurn| {
                    Some(held.incarnation) == turn.incarnation
                        && held.execution_id == turn.item.execution_id
                        && held.last_event_id == turn.item.history.len() as u64
                };
                return self.claim_trusting(claim, same_length).await;
            }
            Flaw::LifePerClaim => return self.claim_renamed(claim, |_| rand_bits()).await,
            Flaw::LifePerId => return self.claim_renamed(claim, |id| 2 * id.len() as u64).await,
            Flaw::EarlyUnleased if claim.hand_out == HandOut::BeforeCommit => {
                return self.claim_unleased(claim).await;
            }
            _ => {}
        }
        if self.is_blind() {
            return Ok(Vec::new());
        }
        let mut turns = self.inner.claim_turns(claim).await?;
        for turn in &mut turns {
            self.strip(&turn.item.instance, &mut turn.item.messages);
        }
        Ok(turns)
    }

    async fn claim_unleased(&self, claim: TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let turns = self.inner.claim_turns(claim).await?;
        for turn in &turns {
            self.inner
                .abandon_orchestration_item(&turn.lock_token, None, true)
                .await?;
        }
        Ok(turns)
    }

    async fn claim_renamed(
        &self,
        claim: TurnClaim,
        bits: impl Fn(&str) -> u64,
    ) -> Result<Vec<ClaimedTurn>> {
        let mut turns = self.inner.claim_turns(claim).await?;
        for turn in &mut turns {
            turn.incarnation = Some(Incarnation::from_random(bits(&turn.item.instance)));
        }
        Ok(turns)
    }

    async fn claim_trusting(
        &self,
        mut claim: TurnClaim,
        trusts: impl Fn(CachedHistory, &ClaimedTurn) -> bool,
    ) -> Result<Vec<ClaimedTurn>> {
        let cached = claim.cached.take();
        let mut turns = self.inner.claim_turns(claim).await?;
        for turn in &mut turns {
            let held = cached.as_ref().and_then(|c| c.cached(&turn.item.instance));
            if let Some(held) = held.filter(|held| trusts(*held, turn)) {
                turn.history = TurnHistory::Unchanged(held);
                turn.item.history.clear();
                turn.item.kv_snapshot.clear();
            }
        }
        Ok(turns)
    }

    pub(super) async fn commit_turn(&self, mut turn: Turn) -> Result<()> {
        let token = turn.token.clone();
        if self.has(Flaw::CommitsTwice) && self.notes.lock().committed.contains(&token) {
            return Ok(());
        }
        if self.has(Flaw::SecondCommitEnqueues) && self.notes.lock().committed.contains(&token) {
            return self.schedule_anyway(turn).await;
        }
        self.slip(&mut turn);
        let after = self.before_commit(&mut turn).await?;
        let (execution, events) = (turn.execution_id, turn.events.clone());
        let answer = self.commit_inner(turn).await;
        if answer.is_err() && self.has(Flaw::CommitsWithoutFencing) {
            return self.append_anyway(&token, execution, events).await;
        }
        answer?;
        self.notes.lock().open_turns.remove(&token);
        self.notes.lock().committed.insert(token);
        after.send(self).await
    }

    /// Whether a commit goes on with an instance that has failed.
    async fn follows_a_failure(&self, turn: &Turn) -> Result<bool> {
        let Some(first) = turn.events.first() else {
            return Ok(false);
        };
        let before = self.inner.read_outcome(&first.instance_id).await?;
        let status = before.map(|it| it.status);
        Ok(matches!(status, Some(OutcomeStatus::Failed { .. })))
    }

    /// Begins no execution after one that failed, but for a failed one.
    async fn fail_again(&self, turn: &mut Turn) -> Result<()> {
        if self.follows_a_failure(turn).await? {
            turn.metadata
                .status
                .get_or_insert_with(|| "Failed".to_owned());
        }
        Ok(())
    }

    /// Spoils the commit; what it returns is done after the real one.
    async fn before_commit(&self, turn: &mut Turn) -> Result<After> {
        let mut after = After::default();
        turn.messages
            .iter()
            .for_each(|item| self.seen.note_sent(item));
        turn.work = turn
            .work
            .drain(..)
            .map(|item| self.as_scheduled(item))
            .collect();
        match self.flaw {
            Flaw::RewoundStaysAsItFailed => forget_rewind(&mut turn.events),
            Flaw::FailureIsFinal => self.fail_again(turn).await?,
            Flaw::RewoundIsAnybodys if self.follows_a_failure(turn).await? => {
                turn.metadata.pinned_duroxide_version = None;
            }
            Flaw::CommitInTwoSteps => after.work = std::mem::take(&mut turn.work),
            Flaw::CancelBeforeInsert => {
                let work = &turn.work;
                turn.cancelled.retain(|wanted| !schedules(work, wanted));
            }
            Flaw::TimersIgnoreStepBack => after.take(turn, |item| self.fires_early(item)),
            Flaw::CommitLeavesHalf => {
                for item in turn.work.drain(..) {
                    self.inner.enqueue_for_worker(item).await?;
                }
            }
            Flaw::OverwritesEvents => self.drop_known_events(turn).await?,
            Flaw::AcceptsEventZero => turn.events.retain(|e| e.event_id != 0),
            Flaw::IgnoresStatusOfEmptyTurn if turn.events.is_empty() => turn.metadata.status = None,
            Flaw::LosesParent => turn.metadata.parent_instance_id = None,
            Flaw::ForgetsPinnedVersion => turn.metadata.pinned_duroxide_version = None,
            Flaw::CancelIgnored => turn.cancelled.clear(),
            Flaw::CancelSparesClaimed => {
                turn.cancelled
                    .retain(|wanted| !self.notes.was_claimed(wanted));
            }
            Flaw::TimersAtOnce => {
                after.take(turn, |item| matches!(item, WorkItem::TimerFired { .. }));
            }
            Flaw::StartsScheduleNothing => {
                let is_of_start =
                    |item: &WorkItem| matches!(item, WorkItem::TimerFired { id: 1, .. });
                turn.messages.retain(|item| !is_of_start(item));
            }
            Flaw::LaterRefusalIsLost => {
                let mut answered = 0;
                turn.messages.retain(|item| {
                    let answers = matches!(item, WorkItem::SubOrchFailed { .. });
                    answered += u32::from(answers);
                    !answers || answered == 1
                });
            }
            Flaw::RefusalEndsWithItsSender => {
                if turn.metadata.status.as_deref() == Some("ContinuedAsNew") {
                    turn.messages.retain(|item| refused(item).is_none());
                }
            }
            Flaw::RefusalEndsWithItsAsker => self.drop_late_refusals(turn).await?,
            Flaw::ResultsReachAnyLife => after.take(turn, |item| {
                matches!(
                    item,
                    WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. }
                )
            }),
            _ => {}
        }
        Ok(after)
    }

    /// Drops the refusal of a start that an earlier execution asked for.
    async fn drop_late_refusals(&self, turn: &mut Turn) -> Result<()> {
        let mut kept = Vec::new();
        for item in turn.messages.drain(..) {
            let is_late = match refused(&item) {
                Some((asker, execution)) => {
                    self.reference().latest_execution_id(asker).await? > execution
                }
                None => false,
            };
            if !is_late {
                kept.push(item);
            }
        }
        turn.messages = kept;
        Ok(())
    }

    async fn drop_known_events(&self, turn: &mut Turn) -> Result<()> {
        let Some(instance) = self.notes.instance_of(&turn.token) else {
            return Ok(());
        };
        let known = self
            .inner
            .read_with_execution(&instance, turn.execution_id)
            .await?;
        turn.events
            .retain(|e| known.iter().all(|k| k.event_id != e.event_id));
        Ok(())
    }

    async fn commit_inner(&self, turn: Turn) -> Result<()> {
        self.inner
            .ack_orchestration_item(
                &turn.token,
                turn.execution_id,
                turn.events,
                turn.work,
                turn.messages,
                turn.metadata,
                turn.cancelled,
            )
            .await
            .map_err(|error| match self.flaw {
                Flaw::LostLeaseUnnamed => {
                    ProviderError::permanent(error.operation, "cannot commit")
                }
                _ => error,
            })
    }

    async fn append_anyway(&self, token: &str, execution: u64, events: Vec<Event>) -> Result<()> {
        let unknown = || ProviderError::permanent("ack_orchestration_item", "Invalid lock token");
        let instance = self.notes.instance_of(token).ok_or_else(unknown)?;
        self.inner
            .append_with_execution(&instance, execution, events)
            .await
    }

    pub(super) async fn abandon_turn(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        let (delay, ignore_attempt) = match self.flaw {
            Flaw::AbandonKeepsLease if self.notes.instance_of(token).is_some() => return Ok(()),
            Flaw::AbandonIgnoresDelay => (None, ignore_attempt),
            Flaw::AbandonAlwaysCounts => (delay, false),
            Flaw::AbandonNeverCounts => (delay, true),
            _ => (delay, ignore_attempt),
        };
        let answer = self
            .inner
            .abandon_orchestration_item(token, delay, ignore_attempt)
            .await;
        if self.has(Flaw::AbandonForgivesStrangers) {
            return Ok(());
        }
        if answer.is_err() && ignore_attempt && self.has(Flaw::StrangersForgive) {
            self.forgive(token);
        }
        answer?;
        self.notes.lock().open_turns.remove(token);
        if self.has(Flaw::AbandonDelaysAll) && delay.is_some() {
            return self.hide_newcomers(delay).await;
        }
        Ok(())
    }

    /// Claims what arrived during the lease and delays it like the rest.
    async fn hide_newcomers(&self, delay: Option<Duration>) -> Result<()> {
        let (lease, now) = (Duration::from_secs(1), Duration::ZERO);
        match self
            .inner
            .fetch_orchestration_item(lease, now, None)
            .await?
        {
            Some((_, token, _)) => {
                self.inner
                    .abandon_orchestration_item(&token, delay, true)
                    .await
            }
            None => Ok(()),
        }
    }

    pub(super) async fn renew_turn(&self, token: &str, extend_for: Duration) -> Result<()> {
        if self.has(Flaw::RenewalIsLostOnTurns) {
            let open = self.notes.lock().open_turns.contains(token);
            return match open {
                true => Ok(()),
                false => {
                    self.inner
                        .renew_orchestration_item_lock(token, extend_for)
                        .await
                }
            };
        }
        let extend_for = self.as_renewal(token, extend_for);
        let answer = self
            .inner
            .renew_orchestration_item_lock(token, extend_for)
            .await;
        if self.has(Flaw::RenewalRevives) && self.notes.instance_of(token).is_some() {
            return Ok(());
        }
        answer
    }

    pub(super) async fn enqueue(&self, item: WorkItem, delay: Option<Duration>) -> Result<()> {
        let delay = if self.has(Flaw::IgnoresDelays) {
            None
        } else {
            delay
        };
        self.seen.note_sent(&item);
        let instance = item.target_instance().to_owned();
        let early = !item.is_start() && self.inner.read_outcome(&instance).await?.is_none();
        let is_queued = matches!(item, WorkItem::QueueMessage { .. });
        let drops = self.has(Flaw::DropsEarlyMessages)
            || (is_queued && self.has(Flaw::DropsEarlyQueueMessages));
        if early && drops {
            return Ok(());
        }
        if early && !is_queued {
            self.notes.lock().orphans.insert(instance);
        }
        self.inner.enqueue_for_orchestrator(item, delay).await
    }

    async fn has_orphan(&self) -> Result<bool> {
        let orphans: Vec<String> = self.notes.lock().orphans.iter().cloned().collect();
        for instance in orphans {
            if self.inner.read_outcome(&instance).await?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A fetch under way; over when it is dropped.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// What a spoiled commit does in a second step.
#[derive(Default)]
struct After {
    work: Vec<WorkItem>,
    messages: Vec<WorkItem>,
}

impl After {
    /// Keeps these messages of the turn back.
    fn take(&mut self, turn: &mut Turn, chosen: impl FnMut(&WorkItem) -> bool) {
        (self.messages, turn.messages) = turn.messages.drain(..).partition(chosen);
    }

    async fn send(self, mutant: &Mutant) -> Result<()> {
        tokio::task::yield_now().await;
        for item in self.work {
            mutant.inner.enqueue_for_worker(item).await?;
        }
        for item in self.messages {
            mutant.inner.enqueue_for_orchestrator(item, None).await?;
        }
        Ok(())
    }
}

/// Who asked for a child that it does not get, and which execution of it.
fn refused(item: &WorkItem) -> Option<(&str, u64)> {
    match item {
        WorkItem::SubOrchFailed {
            parent_instance,
            parent_execution_id,
            ..
        } => Some((parent_instance, *parent_execution_id)),
        _ => None,
    }
}

/// Takes from the beginning of a rewound execution what says that it is one.
fn forget_rewind(events: &mut [Event]) {
    if let Some(first) = events.first_mut()
        && let EventKind::OrchestrationStarted {
            carry_forward_events: Some(carried),
            ..
        } = &mut first.kind
    {
        carried.retain(|(queue, _)| queue != REWIND_QUEUE);
    }
}
