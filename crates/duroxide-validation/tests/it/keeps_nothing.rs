//! No case is content with a store that takes everything and keeps nothing.
//!
//! A case that asserts nothing, or only what is absent, would pass here. The few that rightly do are named.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::{
    ExecutionMetadata, Provider, ProviderError, ScheduledActivityIdentifier, Submission, Submitted,
};
use duroxide_core::{Event, WorkItem};
use duroxide_runtime::observability::{Layer, Layered};
use duroxide_validation::{Capability, Case, ProviderFactory, TestClock, cases, run_cases};

use crate::reference::Memory;

type Result<T> = std::result::Result<T, ProviderError>;

/// Cases about what is not there, which an empty store cannot get wrong. Each promise has a twin that can fail.
const ABOUT_NOTHING: &[&str] = &[
    "error_handling::test_missing_instance_metadata",
    "management::test_get_instance_stats_nonexistent",
    "long_polling::test_fetch_respects_timeout_upper_bound",
    "deletion::test_delete_nonexistent_instance",
    "custom_status::test_custom_status_nonexistent_instance",
    "sessions::test_renew_session_lock_no_sessions",
    "kv_store::test_kv_get_unknown_instance",
    "claims::an_empty_store_makes_an_empty_batch",
    "outcome::a_stranger_has_no_outcome",
    "pending_work::nothing_lies_in_the_queues_for_a_stranger",
];

/// Answers every write with yes, before it reaches the store behind: that one stays empty, and answers every question.
struct KeepsNothing;

impl Layer for KeepsNothing {
    async fn ack_orchestration_item(
        &self,
        _next: &dyn Provider,
        _lock_token: &str,
        _execution_id: u64,
        _history_delta: Vec<Event>,
        _worker_items: Vec<WorkItem>,
        _orchestrator_items: Vec<WorkItem>,
        _metadata: ExecutionMetadata,
        _cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<()> {
        Ok(())
    }

    async fn abandon_orchestration_item(
        &self,
        _next: &dyn Provider,
        _lock_token: &str,
        _delay: Option<Duration>,
        _ignore_attempt: bool,
    ) -> Result<()> {
        Ok(())
    }

    async fn append_with_execution(
        &self,
        _next: &dyn Provider,
        _instance: &str,
        _execution_id: u64,
        _new_events: Vec<Event>,
    ) -> Result<()> {
        Ok(())
    }

    async fn enqueue_for_worker(&self, _next: &dyn Provider, _item: WorkItem) -> Result<()> {
        Ok(())
    }

    async fn ack_work_item(
        &self,
        _next: &dyn Provider,
        _token: &str,
        _completion: Option<WorkItem>,
    ) -> Result<()> {
        Ok(())
    }

    async fn renew_work_item_lock(
        &self,
        _next: &dyn Provider,
        _token: &str,
        _extend_for: Duration,
    ) -> Result<()> {
        Ok(())
    }

    async fn abandon_work_item(
        &self,
        _next: &dyn Provider,
        _token: &str,
        _delay: Option<Duration>,
        _ignore_attempt: bool,
    ) -> Result<()> {
        Ok(())
    }

    async fn renew_orchestration_item_lock(
        &self,
        _next: &dyn Provider,
        _token: &str,
        _extend_for: Duration,
    ) -> Result<()> {
        Ok(())
    }

    async fn submit(&self, _next: &dyn Provider, _submission: Submission) -> Result<Submitted> {
        Ok(Submitted::Started)
    }

    async fn enqueue_for_orchestrator(
        &self,
        _next: &dyn Provider,
        _item: WorkItem,
        _delay: Option<Duration>,
    ) -> Result<()> {
        Ok(())
    }
}

/// Claims to damage and reopen, so that those cases run too.
#[derive(Default)]
struct Factory {
    reference: Memory,
}

#[async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(Layered::around(
            Arc::new(self.reference.create()),
            KeepsNothing,
        ))
    }

    async fn corrupt_instance_history(&self, _instance: &str) {}

    async fn get_max_attempt_count(&self, _instance: &str) -> u32 {
        0
    }

    async fn corrupt_orchestrator_messages(&self, _instance: &str) {}

    async fn corrupt_worker_items(&self, _instance: &str) {}

    async fn second_handle(&self) -> Arc<dyn Provider> {
        self.create_provider().await
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        self.create_provider().await
    }

    fn supports(&self, capability: Capability) -> bool {
        capability != Capability::SkewedHandle
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        self.reference.clock()
    }

    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        Some(Arc::new(Self::default()))
    }
}

/// Cases that talk to the store alone; an engine on such a store would only run out of patience. Nodes and duties are
/// kept by the administrative half, which is that of the reference.
fn store_cases() -> Vec<Case> {
    let others = ["race_replay", "nodes", "duties"];
    let on_store = |case: &Case| !others.contains(&case.module);
    cases().into_iter().filter(on_store).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_keeps_nothing_fails_every_case_but_those_about_nothing() {
    std::panic::set_hook(Box::new(|_| {}));
    let report = run_cases(Arc::new(Factory::default()), store_cases(), |_| {}).await;
    let _ = std::panic::take_hook();
    let passed: Vec<_> = report.passed().map(|outcome| outcome.case.path()).collect();
    assert_eq!(passed, ABOUT_NOTHING);
}
