//! Flaws of claims by handler, of bounds and of what waits.

use std::time::Duration;

use duroxide_core::provider::{
    CLAIM_MESSAGES_MAX, ClaimedTurn, DeleteInstanceResult, InstanceFilter, OrchestrationHandlers,
    Provider, ProviderAdmin, ProviderError, ReadyWork, TurnClaim, WorkClaim,
};
use duroxide_core::{ErrorDetails, WorkItem};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

/// Whether a node can run what a start among these messages names.
fn runs(handlers: &OrchestrationHandlers, messages: &[WorkItem]) -> bool {
    messages.iter().all(|item| match item {
        WorkItem::StartOrchestration {
            orchestration,
            version,
            ..
        } => handlers.starts(orchestration, version.as_deref()),
        _ => true,
    })
}

fn is_failure_of_reading(item: &WorkItem) -> bool {
    let (WorkItem::ActivityFailed { details, .. } | WorkItem::SubOrchFailed { details, .. }) = item
    else {
        return false;
    };
    matches!(details, ErrorDetails::Infrastructure { .. })
}

impl Mutant {
    /// Spoils what a claim of turns asks for.
    pub(super) fn as_turn_claim(&self, mut claim: TurnClaim) -> TurnClaim {
        match self.flaw {
            Flaw::BatchTooLarge => claim.max += 1,
            Flaw::IgnoresHandlers => claim.handlers = None,
            Flaw::CancelOpensNothing => claim.cancel_without_code_after = Duration::MAX,
            Flaw::CancelOpensAtOnce => claim.cancel_without_code_after = Duration::ZERO,
            Flaw::IgnoresMessageBound => claim.messages_max = CLAIM_MESSAGES_MAX,
            _ => {}
        }
        claim
    }

    /// Spoils what a claim of activities asks for.
    pub(super) fn as_work_claim(&self, mut claim: WorkClaim) -> WorkClaim {
        match self.flaw {
            Flaw::BatchTooLarge => claim.max += 1,
            Flaw::IgnoresActivityNames => claim.activities = None,
            Flaw::IgnoresSessionBound => claim.new_sessions_max = usize::MAX,
            _ => {}
        }
        claim
    }

    /// Looks at whatever is first, and gives back what the caller cannot run.
    pub(super) async fn claim_looking(&self, mut claim: TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let Some(handlers) = claim.handlers.take() else {
            return self.inner.claim_turns(claim).await;
        };
        if self.has(Flaw::PassedOverIsAnAttempt) {
            claim.max = usize::MAX;
        }
        let mut kept = Vec::new();
        for turn in self.inner.claim_turns(claim).await? {
            if runs(&handlers, &turn.item.messages) {
                kept.push(turn);
                continue;
            }
            let uncounted = self.has(Flaw::OnlyTheFirstIsLookedAt);
            self.inner
                .abandon_orchestration_item(&turn.lock_token, None, uncounted)
                .await?;
        }
        Ok(kept)
    }

    /// Takes as many instances as asked for, whatever the first of them brought.
    pub(super) async fn claim_without_end(&self, claim: TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let mut turns = self.inner.claim_turns(claim.clone()).await?;
        while !turns.is_empty() && turns.len() < claim.max {
            let rest = TurnClaim {
                max: claim.max - turns.len(),
                poll_timeout: Duration::ZERO,
                ..claim.clone()
            };
            let more = self.inner.claim_turns(rest).await?;
            if more.is_empty() {
                break;
            }
            turns.extend(more);
        }
        Ok(turns)
    }

    /// Takes a request to terminate for one that a node without the code has to wait with.
    pub(super) async fn claim_unhurried(&self, claim: TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let waits = claim.handlers.is_some() && claim.cancel_without_code_after > Duration::ZERO;
        let mut kept = Vec::new();
        for turn in self.inner.claim_turns(claim).await? {
            if !waits || !turn.item.messages.iter().any(WorkItem::terminates) {
                kept.push(turn);
                continue;
            }
            self.inner
                .abandon_orchestration_item(&turn.lock_token, None, true)
                .await?;
        }
        Ok(kept)
    }

    /// What a claim hands out of an instance's messages.
    pub(super) fn strip(&self, instance: &str, messages: &mut Vec<WorkItem>) {
        self.spoil(instance, messages);
        if self.has(Flaw::UnreadableResultIsLost) {
            messages.retain(|item| !is_failure_of_reading(item));
        }
    }

    pub(super) async fn delete_newest(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult> {
        let newest = self.inner.list_instances().await?;
        let limit = filter.limit.map_or(usize::MAX, |limit| limit as usize);
        let some = InstanceFilter {
            instance_ids: Some(newest.into_iter().take(limit).collect()),
            ..filter
        };
        self.inner.delete_instance_bulk(some).await
    }

    pub(super) async fn ready_work(&self, limit: u32) -> Result<Option<Vec<ReadyWork>>> {
        let mut ready = self.inner.list_ready_work(limit).await?;
        if let (Some(ready), Flaw::ReadyWorkNewestFirst) = (&mut ready, self.flaw) {
            ready.reverse();
        }
        if let (Some(ready), Flaw::ReadyWorkUncounted) = (&mut ready, self.flaw) {
            ready.iter_mut().for_each(|work| work.count = 1);
        }
        Ok(ready)
    }
}
