//! Flaws of claims of instances.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duroxide_core::EventKind;
use duroxide_core::provider::{
    CachedHistory, ClaimedTurn, DispatcherCapabilityFilter, HandOut, Incarnation, KvEntry,
    OrchestrationItem, Provider, ProviderError, SemverRange, TurnClaim, TurnHistory,
};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;
type Fetched = Option<(OrchestrationItem, String, u32)>;

const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);
const SHARED_TOKEN: &str = "the-token";

/// One range from the lowest to the highest version of all ranges.
fn hull(ranges: &[SemverRange]) -> Vec<SemverRange> {
    let min = ranges.iter().map(|range| &range.min).min();
    let max = ranges.iter().map(|range| &range.max).max();
    let ends = min.cloned().zip(max.cloned());
    ends.map(|(min, max)| SemverRange::new(min, max))
        .into_iter()
        .collect()
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
            Flaw::FirstTurnHasValues => Self::invent_value(&mut item),
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
            Flaw::ClaimsWithoutEnd => return self.claim_without_end(claim).await,
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
