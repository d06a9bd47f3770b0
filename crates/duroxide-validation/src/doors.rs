//! The two doors of a store: one item per `fetch_*`, as the published engine asks, and `claim_turns` and `claim_work`, as
//! this engine does. In: a factory. Out: one whose stores take every fetch through the claims.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::WorkItem;
use duroxide_core::provider::{
    ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, HandOut, OrchestrationItem, Provider,
    ProviderError, SessionFetchConfig, TagFilter, TurnClaim, WorkClaim,
};
use duroxide_runtime::observability::{Layer, Layered};

use crate::{Capability, ClockSkew, ProviderFactory, TestClock};

/// Turns each fetch into a claim of one, as the engine claims: turns may be handed out before the claim is committed.
#[derive(Debug)]
struct ThroughClaims;

impl Layer for ThroughClaims {
    async fn fetch_orchestration_item(
        &self,
        next: &dyn Provider,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        let claim = TurnClaim {
            hand_out: HandOut::BeforeCommit,
            ..TurnClaim::one(lock_timeout, poll_timeout, filter)
        };
        let mut claimed = next.claim_turns(claim).await?;
        assert!(claimed.len() <= 1, "a claim of one brings {}", claimed.len());
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
        assert!(claimed.len() <= 1, "a claim of one brings {}", claimed.len());
        Ok(claimed.pop().map(ClaimedWork::into_parts))
    }
}

/// A factory whose stores take every fetch through the claims.
pub(crate) struct ByClaims(pub(crate) Arc<dyn ProviderFactory>);

fn by_claims(store: Arc<dyn Provider>) -> Arc<dyn Provider> {
    Arc::new(Layered::around(store, ThroughClaims))
}

#[async_trait]
impl ProviderFactory for ByClaims {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        by_claims(self.0.create_provider().await)
    }

    fn lock_timeout(&self) -> Duration {
        self.0.lock_timeout()
    }

    fn short_poll_threshold(&self) -> Duration {
        self.0.short_poll_threshold()
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.0.corrupt_instance_history(instance).await;
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.0.get_max_attempt_count(instance).await
    }

    fn supports(&self, capability: Capability) -> bool {
        self.0.supports(capability)
    }

    fn must_offer(&self) -> &'static [Capability] {
        self.0.must_offer()
    }

    fn long_polls(&self) -> bool {
        self.0.long_polls()
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        self.0.clock()
    }

    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        Some(Arc::new(Self(self.0.fork()?)))
    }

    fn unknown_instance_grace(&self) -> Option<Duration> {
        self.0.unknown_instance_grace()
    }

    async fn corrupt_orchestrator_messages(&self, instance: &str) {
        self.0.corrupt_orchestrator_messages(instance).await;
    }

    async fn corrupt_worker_items(&self, instance: &str) {
        self.0.corrupt_worker_items(instance).await;
    }

    async fn second_handle(&self) -> Arc<dyn Provider> {
        by_claims(self.0.second_handle().await)
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        by_claims(self.0.reopen().await)
    }

    async fn skewed_handle(&self, skew: ClockSkew) -> Arc<dyn Provider> {
        by_claims(self.0.skewed_handle(skew).await)
    }
}
