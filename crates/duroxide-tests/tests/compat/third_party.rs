//! A store written by somebody else, with nothing but the 22 published methods, and a program in the published style
//! that runs on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin,
    ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{self};
use duroxide::{
    ActivityContext, Client, Either2, Event, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus, SystemStats,
};

/// Keeps its rows in SQLite and knows nothing of batches, wake-ups or outcomes.
struct Theirs(SqliteProvider);

#[async_trait]
impl Provider for Theirs {
    fn name(&self) -> &str {
        "theirs"
    }

    fn version(&self) -> &str {
        "0.0.1"
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        _poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        // Like most stores it answers at once instead of waiting.
        self.0
            .fetch_orchestration_item(lock_timeout, Duration::ZERO, filter)
            .await
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        self.0
            .ack_orchestration_item(
                lock_token,
                execution_id,
                history_delta,
                worker_items,
                orchestrator_items,
                metadata,
                cancelled_activities,
            )
            .await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.0
            .abandon_orchestration_item(lock_token, delay, ignore_attempt)
            .await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.0.read(instance).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.0.read_with_execution(instance, execution_id).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.0
            .append_with_execution(instance, execution_id, new_events)
            .await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.0.enqueue_for_worker(item).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        _poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.0
            .fetch_work_item(lock_timeout, Duration::ZERO, session, tag_filter)
            .await
    }

    async fn ack_work_item(
        &self,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        self.0.ack_work_item(token, completion).await
    }

    async fn renew_work_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.0.renew_work_item_lock(token, extend_for).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.0
            .renew_session_lock(owner_ids, extend_for, idle_timeout)
            .await
    }

    async fn cleanup_orphaned_sessions(
        &self,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.0.cleanup_orphaned_sessions(idle_timeout).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.0.abandon_work_item(token, delay, ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.0
            .renew_orchestration_item_lock(token, extend_for)
            .await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        self.0.enqueue_for_orchestrator(item, delay).await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        None
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.0.get_custom_status(instance, last_seen_version).await
    }

    async fn get_kv_value(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        self.0.get_kv_value(instance, key).await
    }

    async fn get_kv_all_values(
        &self,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError> {
        self.0.get_kv_all_values(instance).await
    }

    async fn get_instance_stats(
        &self,
        instance: &str,
    ) -> Result<Option<SystemStats>, ProviderError> {
        self.0.get_instance_stats(instance).await
    }
}

async fn greet(ctx: ActivityContext, name: String) -> Result<String, String> {
    ctx.trace_info(format!("greeting {name}"));
    Ok(format!("Hello, {name}!"))
}

async fn slow(ctx: ActivityContext, _input: String) -> Result<String, String> {
    ctx.cancelled().await;
    Err("cancelled".to_string())
}

async fn hello(ctx: OrchestrationContext, names: String) -> Result<String, String> {
    ctx.set_custom_status("greeting");
    let greetings = names
        .split(',')
        .map(|name| ctx.schedule_activity("Greet", name))
        .collect::<Vec<_>>();
    let mut lines = Vec::new();
    for greeting in ctx.join(greetings).await {
        lines.push(greeting?);
    }
    ctx.set_kv_value("lines", lines.len().to_string());
    let loser = ctx.schedule_activity("Slow", "");
    let timer = ctx.schedule_timer(Duration::from_millis(10));
    if let Either2::First(_) = ctx.select2(loser, timer).await {
        return Err("the slow one cannot win".to_string());
    }
    let approved = ctx.schedule_wait("approved").await;
    let child = ctx.schedule_sub_orchestration("Echo", approved).await?;
    lines.push(child);
    if ctx.execution_id() == 1 {
        return ctx.continue_as_new(names).await;
    }
    Ok(lines.join(" "))
}

#[tokio::test]
async fn a_program_in_the_published_style_runs_on_a_store_with_the_published_methods() {
    let store: Arc<dyn Provider> = Arc::new(Theirs(SqliteProvider::new_in_memory().await.unwrap()));
    let activities = ActivityRegistry::builder()
        .register("Greet", greet)
        .register("Slow", slow)
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Hello", hello)
        .register(
            "Echo",
            |_ctx: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .build();
    let rt = runtime::Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store.clone());
    assert!(!client.has_management_capability());
    client
        .start_orchestration("inst-1", "Hello", "Ada,Rust")
        .await
        .unwrap();
    for execution in 1..=2 {
        let mut waits = false;
        while !waits {
            let history = store
                .read_with_execution("inst-1", execution)
                .await
                .unwrap();
            waits = history
                .iter()
                .any(|e| matches!(e.kind, duroxide::EventKind::ExternalSubscribed { .. }));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client
            .raise_event("inst-1", "approved", "yes")
            .await
            .unwrap();
    }
    let status = client
        .wait_for_orchestration("inst-1", Duration::from_secs(20))
        .await
        .unwrap();
    match status {
        OrchestrationStatus::Completed {
            output,
            custom_status,
            ..
        } => {
            assert_eq!(output, "Hello, Ada! Hello, Rust! yes");
            assert_eq!(custom_status.as_deref(), Some("greeting"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        client
            .get_kv_value("inst-1", "lines")
            .await
            .unwrap()
            .as_deref(),
        Some("2")
    );
    rt.shutdown(None).await;
}
