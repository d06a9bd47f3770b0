//! The two doors of a store: one item per `fetch_*`, as the published engine asks, and `claim_turns` and `claim_work`,
//! as this engine does. In: a factory. Out: one whose stores take every fetch through the claims.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::{
    ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, HandOut, OrchestrationItem, Provider,
    ProviderError, SessionFetchConfig, TagFilter, TurnClaim, WorkClaim,
};
use duroxide_runtime::observability::{Layer, Layered};

use crate::{ClockSkew, ProviderFactory};

/// What an early hand-out may do otherwise ([`HandOut`], rules 2 and 4): count the attempt later, and lose the lease
/// together with a commit that the store refused.
const OF_WRITTEN_CLAIMS: [&str; 2] = [
    "attempts_are_on_record_at_claim_time",
    "a_failed_commit_has_no_side_effect",
];

/// Turns each fetch into a claim of one.
#[derive(Debug)]
struct ThroughClaims(HandOut);

impl Layer for ThroughClaims {
    async fn fetch_orchestration_item(
        &self,
        next: &dyn Provider,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        let claim = TurnClaim {
            hand_out: self.0,
            ..TurnClaim::one(lock_timeout, poll_timeout, filter)
        };
        let mut claimed = next.claim_turns(claim).await?;
        assert!(
            claimed.len() <= 1,
            "a claim of one brings {}",
            claimed.len()
        );
        Ok(claimed.pop().map(ClaimedTurn::into_parts))
    }

    async fn fetch_work_item(
        &self,
        next: &dyn Provider,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let claim = WorkClaim::one(lock_timeout, poll_timeout, session, tag_filter);
        let mut claimed = next.claim_work(claim).await?;
        assert!(
            claimed.len() <= 1,
            "a claim of one brings {}",
            claimed.len()
        );
        Ok(claimed.pop().map(ClaimedWork::into_parts))
    }
}

/// A factory whose stores take every fetch through the claims.
pub(crate) struct ByClaims {
    factory: Arc<dyn ProviderFactory>,
    hand_out: HandOut,
}

impl ByClaims {
    /// For this case: as the engine claims, where the case allows it.
    pub(crate) fn of(factory: Arc<dyn ProviderFactory>, case: &str) -> Self {
        let hand_out = if OF_WRITTEN_CLAIMS.contains(&case) {
            HandOut::AfterCommit
        } else {
            HandOut::BeforeCommit
        };
        Self { factory, hand_out }
    }

    fn by_claims(&self, store: Arc<dyn Provider>) -> Arc<dyn Provider> {
        Arc::new(Layered::around(store, ThroughClaims(self.hand_out)))
    }
}

crate::__forwarding_factory!(ByClaims => factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        self.by_claims(self.factory.create_provider().await)
    }

    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        Some(Arc::new(Self {
            factory: self.factory.fork()?,
            hand_out: self.hand_out,
        }))
    }

    async fn second_handle(&self) -> Arc<dyn Provider> {
        self.by_claims(self.factory.second_handle().await)
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        self.by_claims(self.factory.reopen().await)
    }

    async fn skewed_handle(&self, skew: ClockSkew) -> Arc<dyn Provider> {
        self.by_claims(self.factory.skewed_handle(skew).await)
    }
});
