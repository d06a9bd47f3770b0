//! Requests to cancel that meet nodes without the code: code that wants to put things right gets the time to do so.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{ClaimedTurn, Provider, ProviderError, TurnClaim, TurnHistory};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::{
    Client, OnUnregistered, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    Runtime, RuntimeOptions,
};

use crate::support::{Notes, activities, details, orchestrations, quick};

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than a request to cancel waits for a node with the code.
const LONG: Duration = Duration::from_secs(6 * 60);

/// One store in virtual time, and the nodes that come and go on it.
struct Deployment {
    clock: TokioClock,
    store: Arc<dyn Provider>,
    client: Client,
    notes: Notes,
}

impl Deployment {
    fn new(layer: impl FnOnce(Arc<dyn Provider>) -> Arc<dyn Provider>) -> Self {
        let clock = TokioClock::new();
        let store = layer(Arc::new(MemoryProvider::with_clock(clock)));
        Self {
            clock,
            client: Client::new(Arc::clone(&store)),
            store,
            notes: Notes::default(),
        }
    }

    async fn node(&self, orchestrations: OrchestrationRegistry) -> Arc<Runtime> {
        let options = RuntimeOptions {
            on_unregistered: Some(OnUnregistered::Wait),
            ..quick()
        };
        Runtime::builder()
            .with_provider(Arc::clone(&self.store))
            .with_activities(activities().build())
            .with_orchestrations(orchestrations)
            .with_options(options)
            .with_clock(Arc::new(self.clock))
            .build()
            .await
            .unwrap()
    }

    async fn node_with_the_code(&self) -> Arc<Runtime> {
        let notes = self.notes.clone();
        let order = move |ctx: OrchestrationContext, _: String| {
            let notes = notes.clone();
            async move {
                let paid = ctx.schedule_wait("paid");
                ctx.select2(paid, ctx.cancellation_requested()).await;
                notes.add("refunding");
                ctx.schedule_wait("refunded").await;
                notes.add("refunded");
                Ok(String::new())
            }
        };
        let registry = orchestrations().register("order", order).build();
        self.node(registry).await
    }

    async fn node_without_the_code(&self) -> Arc<Runtime> {
        self.node(orchestrations().build()).await
    }

    async fn passes(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn is_running(&self, instance: &str) -> bool {
        let status = self.client.get_orchestration_status(instance).await;
        matches!(status, Ok(OrchestrationStatus::Running { .. }))
    }

    /// The code takes the request up, refunds and ends.
    async fn refunds(&self, instance: &str) {
        let node = self.node_with_the_code().await;
        self.passes(MINUTE).await;
        let refunded = self.client.raise_event(instance, "refunded", "").await;
        refunded.unwrap();
        let ended = self.client.wait_for_orchestration(instance, LONG).await;
        assert!(details(ended.unwrap()).is_cancelled());
        assert_eq!(self.notes.count("refunded"), 1, "{:?}", self.notes);
        node.shutdown(None).await;
    }
}

/// A store with none but the published methods: it knows no lives and hands every instance to every node.
struct Published;

impl Layer for Published {
    async fn claim_turns(
        &self,
        next: &dyn Provider,
        claim: TurnClaim,
    ) -> Result<Vec<ClaimedTurn>, ProviderError> {
        let filter = claim.filter.as_ref();
        let fetched = next.fetch_orchestration_item(claim.lock_timeout, claim.poll_timeout, filter);
        let turn = |(item, lock_token, attempt_count)| ClaimedTurn {
            item,
            lock_token,
            attempt_count,
            message_attempts: Vec::new(),
            incarnation: None,
            history: TurnHistory::Loaded,
        };
        Ok(fetched.await?.map(turn).into_iter().collect())
    }
}

async fn started_and_left_by_its_node(deployment: &Deployment) {
    let node = deployment.node_with_the_code().await;
    let started = deployment.client.start_orchestration("i", "order", "");
    started.await.unwrap();
    deployment.passes(MINUTE).await;
    node.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_the_code_leaves_a_young_request_to_the_code() {
    let deployment = Deployment::new(|store| store);
    started_and_left_by_its_node(&deployment).await;
    let other = deployment.node_without_the_code().await;
    deployment.client.cancel_instance("i", "x").await.unwrap();
    deployment.passes(2 * MINUTE).await;
    assert!(deployment.is_running("i").await);
    deployment.refunds("i").await;
    other.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn asking_again_does_not_make_a_node_without_the_code_cut_compensation_short() {
    let deployment = Deployment::new(|store| store);
    let node = deployment.node_with_the_code().await;
    let started = deployment.client.start_orchestration("i", "order", "");
    started.await.unwrap();
    deployment.client.cancel_instance("i", "x").await.unwrap();
    deployment.notes.wait_for("refunding").await;
    deployment.passes(MINUTE).await;
    node.shutdown(None).await;
    let other = deployment.node_without_the_code().await;
    deployment.client.cancel_instance("i", "x").await.unwrap();
    deployment.passes(2 * LONG).await;
    assert!(deployment.is_running("i").await);
    deployment.refunds("i").await;
    other.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_without_lives_waits_from_the_request_and_not_from_the_first_message() {
    let deployment = Deployment::new(|store| Arc::new(Layered::around(store, Published)));
    started_and_left_by_its_node(&deployment).await;
    let other = deployment.node_without_the_code().await;
    deployment.client.raise_event("i", "any", "").await.unwrap();
    deployment.passes(LONG).await;
    deployment.client.cancel_instance("i", "x").await.unwrap();
    deployment.passes(MINUTE).await;
    assert!(deployment.is_running("i").await);
    other.shutdown(None).await;
    deployment.refunds("i").await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_no_node_with_the_code_takes_up_is_carried_out_in_the_end() {
    let deployment = Deployment::new(|store| store);
    let other = deployment.node_without_the_code().await;
    let started = deployment.client.start_orchestration("i", "order", "");
    started.await.unwrap();
    deployment.client.cancel_instance("i", "x").await.unwrap();
    let ended = deployment.client.wait_for_orchestration("i", 2 * LONG);
    assert!(details(ended.await.unwrap()).is_cancelled());
    other.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn terminating_needs_no_node_with_the_code_and_ends_at_once() {
    let deployment = Deployment::new(|store| store);
    started_and_left_by_its_node(&deployment).await;
    let other = deployment.node_without_the_code().await;
    let unborn = deployment.client.start_orchestration("u", "order", "");
    unborn.await.unwrap();
    deployment.client.cancel_instance("i", "x").await.unwrap();
    for id in ["i", "u"] {
        let asked = deployment.client.terminate_instance(id, "enough");
        asked.await.unwrap();
        let ended = deployment.client.wait_for_orchestration(id, MINUTE / 6);
        assert!(details(ended.await.unwrap()).is_cancelled());
    }
    assert_eq!(deployment.notes.count("refunding"), 0);
    other.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ended_before_any_node_had_its_code_can_be_restarted() {
    let deployment = Deployment::new(|store| store);
    let other = deployment.node_without_the_code().await;
    let client = &deployment.client;
    client.start_orchestration("i", "order", "").await.unwrap();
    client.terminate_instance("i", "enough").await.unwrap();
    let ended = client.wait_for_orchestration("i", MINUTE).await;
    assert!(details(ended.unwrap()).is_cancelled());
    let node = deployment.node_with_the_code().await;
    client.restart_as("i", "again").await.unwrap();
    deployment.passes(MINUTE).await;
    assert!(deployment.is_running("again").await);
    node.shutdown(None).await;
    other.shutdown(None).await;
}
