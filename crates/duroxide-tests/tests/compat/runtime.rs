//! Registries, options and the runtime, with the published names, types and defaults.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, SemverRange, TagFilter};
use duroxide::runtime::observability::{
    MetricsProvider, MetricsSnapshot, ObservabilityHandle, init_logging,
};
use duroxide::runtime::registry::{
    ActivityRegistry, ActivityRegistryBuilder, OrchestrationRegistry, OrchestrationRegistryBuilder,
    Registry, RegistryBuilder,
};
use duroxide::runtime::{
    ActivityHandler, FnActivity, FnOrchestration, LogFormat, ObservabilityConfig,
    OrchestrationDescriptor, OrchestrationHandler, Runtime, RuntimeOptions,
    UnregisteredBackoffConfig, VersionPolicy,
};
use duroxide::{ActivityContext, OrchestrationContext};
use semver::Version;

struct Custom;

#[async_trait::async_trait]
impl OrchestrationHandler for Custom {
    async fn invoke(&self, _ctx: OrchestrationContext, input: String) -> Result<String, String> {
        Ok(input)
    }
}

#[async_trait::async_trait]
impl ActivityHandler for Custom {
    async fn invoke(&self, _ctx: ActivityContext, input: String) -> Result<String, String> {
        Ok(input)
    }
}

async fn orchestration(_ctx: OrchestrationContext, input: String) -> Result<String, String> {
    Ok(input)
}

async fn typed(_ctx: OrchestrationContext, input: u32) -> Result<u32, String> {
    Ok(input)
}

async fn activity(_ctx: ActivityContext, input: String) -> Result<String, String> {
    Ok(input)
}

async fn typed_activity(_ctx: ActivityContext, input: u32) -> Result<u32, String> {
    Ok(input)
}

#[test]
fn registries_keep_their_methods() {
    let builder: OrchestrationRegistryBuilder = OrchestrationRegistry::builder();
    let one: OrchestrationRegistry = builder
        .register("a", orchestration)
        .register_typed::<u32, u32, _, _>("b", typed)
        .register_versioned("a", "1.1.0", orchestration)
        .register_versioned_typed::<u32, u32, _, _>("b", "2.0.0", typed)
        .register_all(vec![("c", orchestration), ("d", orchestration)])
        .register_all_handlers(vec![("e", orchestration)], |b, name, f| b.register(name, f))
        .set_policy("a", VersionPolicy::Exact(Version::new(1, 0, 0)))
        .build();
    assert_eq!(one.count(), 5);
    assert_eq!(one.resolve_version("a"), Some(Version::new(1, 0, 0)));
    one.set_version_policy("a", VersionPolicy::Latest);
    let (version, _handler): (Version, Arc<dyn OrchestrationHandler>) =
        one.resolve_handler("a").unwrap();
    assert_eq!(version, Version::new(1, 1, 0));
    assert!(
        one.resolve_handler_exact("a", &Version::new(9, 0, 0))
            .is_none()
    );
    assert_eq!(
        one.list_versions("a"),
        [Version::new(1, 0, 0), Version::new(1, 1, 0)]
    );
    assert!(one.has("e") && one.list_names().len() == 5);
    let merged = OrchestrationRegistry::builder()
        .merge(one.clone())
        .build_result()
        .unwrap();
    let again: Result<OrchestrationRegistry, String> = OrchestrationRegistry::builder_from(&merged)
        .merge_registry(one, "orchestration")
        .build_result();
    assert!(
        again
            .unwrap_err()
            .contains("duplicate orchestration in merge: a@1.0.0")
    );

    let builder: ActivityRegistryBuilder = ActivityRegistry::builder();
    let activities: ActivityRegistry = builder
        .register("a", activity)
        .register_typed::<u32, u32, _, _>("b", typed_activity)
        .register_all(vec![("c", activity)])
        .build();
    let copy = ActivityRegistryBuilder::from_registry(&activities).build();
    assert_eq!(copy.count(), 3);
    let reserved = ActivityRegistry::builder()
        .register("__duroxide_syscall:x", activity)
        .build_result();
    let reserved = reserved.map(|_| ()).unwrap_err();
    assert_eq!(
        reserved,
        "activity name '__duroxide_syscall:x' uses reserved prefix '__duroxide_syscall:'"
    );
    let _: Registry<dyn ActivityHandler> = activities;
    let _: RegistryBuilder<dyn OrchestrationHandler> = Registry::builder();
    let _: Arc<dyn OrchestrationHandler> = Arc::new(FnOrchestration(orchestration));
    let _: Arc<dyn ActivityHandler> = Arc::new(FnActivity(activity));
    let _: (Arc<dyn OrchestrationHandler>, Arc<dyn ActivityHandler>) =
        (Arc::new(Custom), Arc::new(Custom));
}

#[test]
fn options_keep_their_names_and_their_published_defaults() {
    let seconds = Duration::from_secs;
    let options = RuntimeOptions::default();
    assert_eq!(
        options.dispatcher_min_poll_interval,
        Duration::from_millis(100)
    );
    assert_eq!(options.dispatcher_long_poll_timeout, seconds(30));
    // Both are larger here: a slot costs nothing while it is free.
    assert!(options.orchestration_concurrency >= 2 && options.worker_concurrency >= 2);
    assert_eq!(options.orchestrator_lock_timeout, seconds(5));
    assert_eq!(options.orchestrator_lock_renewal_buffer, seconds(2));
    assert_eq!(options.worker_lock_timeout, seconds(30));
    assert_eq!(options.worker_lock_renewal_buffer, seconds(5));
    assert_eq!(options.max_attempts, 10);
    assert_eq!(options.activity_cancellation_grace_period, seconds(10));
    assert_eq!(options.supported_replay_versions, None::<SemverRange>);
    assert_eq!(options.session_lock_timeout, seconds(30));
    assert_eq!(options.session_lock_renewal_buffer, seconds(5));
    assert_eq!(options.session_idle_timeout, seconds(300));
    assert_eq!(options.session_cleanup_interval, seconds(300));
    assert_eq!(options.max_sessions_per_runtime, 10);
    assert_eq!(options.worker_node_id, None::<String>);
    assert_eq!(options.worker_tag_filter, TagFilter::DefaultOnly);
    let backoff: UnregisteredBackoffConfig = options.unregistered_backoff;
    assert_eq!(
        (backoff.base_delay, backoff.max_delay, backoff.delay(3)),
        (seconds(1), seconds(60), seconds(4))
    );
    let observability: ObservabilityConfig = options.observability;
    assert_eq!(
        observability.log_format,
        LogFormat::default(),
        "one default"
    );
    assert_eq!(observability.log_level, "info");
    assert_eq!(
        (
            observability.service_name.as_str(),
            observability.service_version.as_deref()
        ),
        ("duroxide", None)
    );
    assert_eq!(observability.gauge_poll_interval, seconds(60));
    let _formats = [LogFormat::Json, LogFormat::Pretty, LogFormat::Compact];
    let _: fn(&ObservabilityConfig) -> Result<(), String> = init_logging;
}

/// Never runs.
#[allow(dead_code, reason = "compiling it is the test")]
async fn starts(store: Arc<dyn Provider>) -> Result<(), String> {
    let (activities, orchestrations) = (
        ActivityRegistry::default(),
        OrchestrationRegistry::default(),
    );
    let _private: Arc<Runtime> = Runtime::start(activities.clone(), orchestrations.clone()).await;
    let plain =
        Runtime::start_with_store(store.clone(), activities.clone(), orchestrations.clone()).await;
    plain.shutdown(None).await;
    let options = RuntimeOptions {
        worker_concurrency: 4,
        ..Default::default()
    };
    let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
    let _: Option<OrchestrationDescriptor> = runtime.get_orchestration_descriptor("i").await;
    let _: Option<MetricsSnapshot> = runtime.metrics_snapshot();
    let handle: &ObservabilityHandle = runtime.observability_handle().ok_or("none")?;
    let metrics: &Arc<MetricsProvider> = handle.metrics_provider();
    metrics.update_queue_depths(1, 2);
    let _: (u64, u64) = metrics.get_queue_depths();
    metrics.increment_active_orchestrations();
    metrics.decrement_active_orchestrations();
    metrics.set_active_orchestrations(0);
    let _: i64 = metrics.get_active_orchestrations();
    let snapshot = metrics.snapshot();
    let _: [u64; 17] = [
        snapshot.orch_starts,
        snapshot.orch_completions,
        snapshot.orch_failures,
        snapshot.orch_application_errors,
        snapshot.orch_infrastructure_errors,
        snapshot.orch_configuration_errors,
        snapshot.orch_poison,
        snapshot.activity_success,
        snapshot.activity_app_errors,
        snapshot.activity_infra_errors,
        snapshot.activity_config_errors,
        snapshot.activity_poison,
        snapshot.orch_dispatcher_items_fetched,
        snapshot.worker_dispatcher_items_fetched,
        snapshot.orch_continue_as_new,
        snapshot.suborchestration_calls,
        snapshot.provider_errors,
    ];
    let config = ObservabilityConfig::default();
    MetricsProvider::new(&config)?.shutdown().await;
    ObservabilityHandle::init(&config)?.shutdown().await?;
    runtime.shutdown(Some(0)).await;
    Ok(())
}
