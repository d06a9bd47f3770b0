//! Paths and plain types.

#![allow(unused_imports, reason = "naming them is the test")]

use std::sync::Arc;

use duroxide::client::{Client as _, ClientError as _};
use duroxide::providers::error::ProviderError as _;
use duroxide::providers::instrumented::InstrumentedProvider;
use duroxide::providers::management::{
    DeleteInstanceResult as _, ExecutionInfo as _, InstanceFilter as _, InstanceInfo as _,
    InstanceTree as _, ManagementProvider as _, PruneOptions as _, PruneResult as _,
    QueueDepths as _, SystemMetrics as _,
};
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, KvEntry, MAX_WORKER_TAGS, ManagementProvider,
    OrchestrationItem, Provider, ProviderAdmin as _, ProviderError, ScheduledActivityIdentifier,
    SemverRange, SessionFetchConfig, TagFilter, WorkItem, current_build_version,
};
use duroxide::runtime::observability::{
    LogFormat as _, MetricsProvider, MetricsSnapshot, ObservabilityConfig as _,
    ObservabilityHandle, init_logging,
};
use duroxide::runtime::registry::{
    ActivityRegistry as _, ActivityRegistryBuilder as _, OrchestrationRegistry as _,
    OrchestrationRegistryBuilder as _, Registry, RegistryBuilder, VersionPolicy as _,
};
use duroxide::runtime::{
    ActivityHandler, FnActivity, FnOrchestration, LogFormat, ObservabilityConfig,
    OrchestrationDescriptor as _, OrchestrationHandler as _, OrchestrationRegistry as _,
    OrchestrationRegistryBuilder as _, OrchestrationStatus as _, Runtime as _, RuntimeOptions as _,
    UnregisteredBackoffConfig, VersionPolicy, kind_of,
};
use duroxide::{
    Action, ActivityContext, AppErrorKind, BackoffStrategy, Client, ClientError, ConfigErrorKind,
    DeleteInstanceResult, DurableFuture, Either2, Either3, ErrorDetails, Event, EventKind,
    ExecutionInfo, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, InstanceFilter, InstanceInfo,
    InstanceTree, LogLevel, OrchestrationContext, OrchestrationDescriptor, OrchestrationHandler,
    OrchestrationHandlerRef, OrchestrationRegistry, OrchestrationRegistryBuilder,
    OrchestrationStatus, PoisonMessageType, ProviderAdmin, ProviderRef, PruneOptions, PruneResult,
    QueueDepths, RetryPolicy, RuntimeOptions, SUB_ORCH_AUTO_PREFIX, ScheduleKind, SystemMetrics,
    SystemStats, build_child_instance_id, is_auto_generated_sub_orch_id,
};
use duroxide::{
    DispatcherCapabilityFilter as _, ScheduledActivityIdentifier as _, SemverRange as _,
    SessionFetchConfig as _, TagFilter as _, current_build_version as _,
};

fn is_send_sync<T: Send + Sync>() {}
fn is_status<T: Clone + PartialEq + Eq + std::fmt::Debug>() {}
fn is_send_unpin<T: Send + Unpin>() {}
fn is_serde<
    T: serde::Serialize + serde::de::DeserializeOwned + Clone + PartialEq + std::fmt::Debug,
>() {
}

#[test]
fn constants_and_helpers_have_their_published_values() {
    assert_eq!((INITIAL_EXECUTION_ID, INITIAL_EVENT_ID), (1_u64, 1_u64));
    assert_eq!(SUB_ORCH_AUTO_PREFIX, "sub::");
    assert!(is_auto_generated_sub_orch_id("sub::2") && !is_auto_generated_sub_orch_id("a::sub::2"));
    assert_eq!(build_child_instance_id("p", "sub::2"), "p::sub::2");
    assert_eq!(build_child_instance_id("p", "chosen"), "chosen");
    assert_eq!(MAX_WORKER_TAGS, 5);
    use duroxide::runtime::limits;
    assert_eq!(limits::MAX_CARRY_FORWARD_EVENTS, 100);
    assert_eq!(limits::MAX_CUSTOM_STATUS_BYTES, 262_144);
    assert_eq!(limits::MAX_TAG_NAME_BYTES, 256);
    assert_eq!(limits::MAX_KV_VALUE_BYTES, 65_536);
    assert_eq!(limits::MAX_KV_KEYS, 150);
    assert_eq!(limits::MAX_WORKER_TAGS, 5);
}

#[test]
fn types_have_the_published_traits() {
    is_send_sync::<OrchestrationContext>();
    is_send_sync::<ActivityContext>();
    is_send_sync::<Client>();
    is_send_sync::<duroxide::runtime::Runtime>();
    is_send_sync::<OrchestrationRegistry>();
    is_send_unpin::<DurableFuture<Result<String, String>>>();
    is_serde::<Event>();
    is_serde::<EventKind>();
    is_serde::<ErrorDetails>();
    is_serde::<WorkItem>();
    is_serde::<SystemStats>();
    let _: (ProviderRef, OrchestrationHandlerRef);
    is_status::<OrchestrationStatus>();
}

#[test]
fn either_types_keep_their_methods() {
    let two: Either2<u32, u32> = Either2::Second(7);
    assert!(two.is_second() && !two.is_first());
    assert_eq!((two.index(), two.into_tuple()), (1, (1, 7)));
    let three: Either3<u32, u32, u32> = Either3::Third(7);
    assert_eq!((three.index(), three.into_tuple()), (2, (2, 7)));
}

#[test]
fn errors_keep_their_words() {
    let error = ProviderError::permanent("op", "words");
    let literal = ProviderError {
        operation: "op".to_owned(),
        message: "words".to_owned(),
        retryable: false,
    };
    assert_eq!(error, literal);
    assert_eq!(error.to_string(), "op: words");
    assert!(
        ProviderError::from("x").is_retryable()
            && ProviderError::from("x".to_owned()).is_retryable()
    );
    let details: ErrorDetails = error.to_infrastructure_error();
    assert_eq!(
        (details.category(), details.is_retryable()),
        ("infrastructure", false)
    );
    assert_eq!(details.display_message(), "infrastructure:op: words");
    let client: ClientError = error.into();
    assert_eq!(client.to_string(), "op: words");
    let texts = [
        ClientError::ManagementNotAvailable.to_string(),
        ClientError::InvalidInput {
            message: "m".into(),
        }
        .to_string(),
        ClientError::Timeout.to_string(),
        ClientError::InstanceStillRunning {
            instance_id: "i".into(),
        }
        .to_string(),
        ClientError::CannotDeleteSubOrchestration {
            instance_id: "i".into(),
        }
        .to_string(),
        ClientError::InstanceNotFound {
            instance_id: "i".into(),
        }
        .to_string(),
    ];
    assert_eq!(
        texts,
        [
            "Management features not available - provider doesn't implement ProviderAdmin",
            "Invalid input: m",
            "Operation timed out",
            "Instance i is still running. Use force=true or cancel first.",
            "Cannot delete sub-orchestration i directly. Delete the root orchestration instead.",
            "Instance i not found",
        ]
    );
    assert!(ClientError::Timeout.is_retryable());
    let poison = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::FailedDeserialization {
            instance: "i".into(),
            execution_id: 1,
            error: "e".into(),
        },
        message: "e".into(),
    };
    assert_eq!(
        poison.display_message(),
        "poison: orchestration i history deserialization failed after 11 attempts (max 10): e"
    );
    let config = ErrorDetails::Configuration {
        kind: ConfigErrorKind::Nondeterminism,
        resource: "r".into(),
        message: None,
    };
    assert_eq!(config.display_message(), "nondeterministic in r");
    for kind in [
        AppErrorKind::ActivityFailed,
        AppErrorKind::OrchestrationFailed,
    ] {
        let app = ErrorDetails::Application {
            kind,
            message: "m".into(),
            retryable: false,
        };
        assert_eq!(
            (app.display_message().as_str(), app.category()),
            ("m", "application")
        );
    }
}

#[test]
fn events_and_actions_keep_their_constructors_and_fields() {
    let event = Event::with_event_id(7, "i", 2, Some(3), EventKind::TimerFired { fire_at_ms: 1 });
    assert_eq!(
        (
            event.event_id(),
            event.source_event_id(),
            event.is_terminal()
        ),
        (7, Some(3), false)
    );
    let Event {
        event_id: _,
        source_event_id: _,
        instance_id,
        execution_id,
        timestamp_ms: _,
        duroxide_version,
        kind: _,
    } = event;
    assert_eq!((instance_id.as_str(), execution_id), ("i", 2));
    assert_eq!(duroxide_version, current_build_version().to_string());
    let done = EventKind::OrchestrationCompleted { output: "x".into() };
    let new = Event::new("i", 1, None, done);
    assert!(new.event_id == 0 && new.is_terminal());
    let text = String::new;
    let _actions = [
        Action::CallActivity {
            scheduling_event_id: 1,
            name: text(),
            input: text(),
            session_id: None,
            tag: None,
        },
        Action::CreateTimer {
            scheduling_event_id: 1,
            fire_at_ms: 1,
        },
        Action::WaitExternal {
            scheduling_event_id: 1,
            name: text(),
        },
        Action::StartOrchestrationDetached {
            scheduling_event_id: 1,
            name: text(),
            version: None,
            instance: text(),
            input: text(),
        },
        Action::StartSubOrchestration {
            scheduling_event_id: 1,
            name: text(),
            version: None,
            instance: text(),
            input: text(),
        },
        Action::ContinueAsNew {
            input: text(),
            version: None,
        },
        Action::UpdateCustomStatus { status: None },
        Action::DequeueEvent {
            scheduling_event_id: 1,
            name: text(),
        },
        Action::SetKeyValue {
            key: text(),
            value: text(),
            last_updated_at_ms: 1,
        },
        Action::ClearKeyValue { key: text() },
        Action::ClearKeyValues,
    ];
    let _kinds = [
        ScheduleKind::Activity { name: text() },
        ScheduleKind::Timer,
        ScheduleKind::ExternalWait { event_name: text() },
        ScheduleKind::QueueDequeue { event_name: text() },
        ScheduleKind::SubOrchestration { token: 1 },
    ];
    let _levels = [LogLevel::Info, LogLevel::Warn, LogLevel::Error];
}

#[test]
fn every_event_kind_and_work_item_keeps_its_fields() {
    let text = String::new;
    let details = || ErrorDetails::Application {
        kind: AppErrorKind::Panicked,
        message: text(),
        retryable: false,
    };
    let kinds = [
        EventKind::OrchestrationStarted {
            name: text(),
            version: text(),
            input: text(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Some(vec![(text(), text())]),
            initial_custom_status: None,
        },
        EventKind::OrchestrationCompleted { output: text() },
        EventKind::OrchestrationFailed { details: details() },
        EventKind::OrchestrationContinuedAsNew { input: text() },
        EventKind::OrchestrationCancelRequested { reason: text() },
        EventKind::ActivityScheduled {
            name: text(),
            input: text(),
            session_id: None,
            tag: None,
        },
        EventKind::ActivityCompleted { result: text() },
        EventKind::ActivityFailed { details: details() },
        EventKind::ActivityCancelRequested { reason: text() },
        EventKind::TimerCreated { fire_at_ms: 1 },
        EventKind::TimerFired { fire_at_ms: 1 },
        EventKind::ExternalSubscribed { name: text() },
        EventKind::ExternalEvent {
            name: text(),
            data: text(),
        },
        EventKind::ExternalSubscribedCancelled { reason: text() },
        EventKind::QueueSubscribed { name: text() },
        EventKind::QueueEventDelivered {
            name: text(),
            data: text(),
        },
        EventKind::QueueSubscriptionCancelled { reason: text() },
        EventKind::SubOrchestrationScheduled {
            name: text(),
            instance: text(),
            input: text(),
        },
        EventKind::SubOrchestrationCompleted { result: text() },
        EventKind::SubOrchestrationFailed { details: details() },
        EventKind::SubOrchestrationCancelRequested { reason: text() },
        EventKind::OrchestrationChained {
            name: text(),
            instance: text(),
            input: text(),
        },
        EventKind::CustomStatusUpdated { status: None },
        EventKind::KeyValueSet {
            key: text(),
            value: text(),
            last_updated_at_ms: 1,
        },
        EventKind::KeyValueCleared { key: text() },
        EventKind::KeyValuesCleared,
    ];
    assert_eq!(kinds.len(), 26);
    let items = [
        WorkItem::StartOrchestration {
            instance: text(),
            orchestration: text(),
            input: text(),
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        },
        WorkItem::ActivityExecute {
            instance: text(),
            execution_id: 1,
            id: 1,
            name: text(),
            input: text(),
            session_id: None,
            tag: None,
        },
        WorkItem::ActivityCompleted {
            instance: text(),
            execution_id: 1,
            id: 1,
            result: text(),
        },
        WorkItem::ActivityFailed {
            instance: text(),
            execution_id: 1,
            id: 1,
            details: details(),
        },
        WorkItem::TimerFired {
            instance: text(),
            execution_id: 1,
            id: 1,
            fire_at_ms: 1,
        },
        WorkItem::ExternalRaised {
            instance: text(),
            name: text(),
            data: text(),
        },
        WorkItem::SubOrchCompleted {
            parent_instance: text(),
            parent_execution_id: 1,
            parent_id: 1,
            result: text(),
        },
        WorkItem::SubOrchFailed {
            parent_instance: text(),
            parent_execution_id: 1,
            parent_id: 1,
            details: details(),
        },
        WorkItem::CancelInstance {
            instance: text(),
            reason: text(),
        },
        WorkItem::ContinueAsNew {
            instance: text(),
            orchestration: text(),
            input: text(),
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        },
        WorkItem::QueueMessage {
            instance: text(),
            name: text(),
            data: text(),
        },
    ];
    let names: Vec<&'static str> = items.iter().map(kind_of).collect();
    assert_eq!(names[10], "ExternalRaisedPersistent");
    assert_eq!(names[4], "TimerFired");
}

#[test]
fn store_types_keep_their_fields_and_helpers() {
    let text = String::new;
    let _item = OrchestrationItem {
        instance: text(),
        orchestration_name: text(),
        execution_id: 1,
        version: text(),
        history: Vec::new(),
        messages: Vec::new(),
        history_error: None,
        kv_snapshot: [(
            text(),
            KvEntry {
                value: text(),
                last_updated_at_ms: 1,
            },
        )]
        .into(),
    };
    let _metadata = ExecutionMetadata {
        status: None,
        output: None,
        orchestration_name: None,
        orchestration_version: None,
        parent_instance_id: None,
        pinned_duroxide_version: Some(semver::Version::new(0, 1, 32)),
    };
    let _session = SessionFetchConfig {
        owner_id: text(),
        lock_timeout: std::time::Duration::ZERO,
    };
    let _activity = ScheduledActivityIdentifier {
        instance: text(),
        execution_id: 1,
        activity_id: 1,
    };
    let range = SemverRange::new(semver::Version::new(1, 0, 0), semver::Version::new(1, 5, 0));
    assert!(range.contains(&range.max) && range.contains(&range.min));
    let filter = DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![range],
    };
    assert!(!filter.is_compatible(&semver::Version::parse("1.0.0-alpha").unwrap()));
    assert!(
        DispatcherCapabilityFilter::default_for_current_build()
            .is_compatible(&current_build_version())
    );
    assert!(SemverRange::default_for_current_build().contains(&current_build_version()));
    assert!(TagFilter::default() == TagFilter::default_only());
    assert!(
        TagFilter::tags(["a"]).matches(Some("a")) && TagFilter::default_and(["a"]).matches(None)
    );
    assert!(TagFilter::any().matches(None) && !TagFilter::none().matches(None));
    let tree = InstanceTree {
        root_id: "r".into(),
        all_ids: vec!["r".into()],
    };
    assert!(tree.is_root_only() && tree.size() == 1);
    let _ = InstanceFilter {
        instance_ids: None,
        completed_before: None,
        limit: Some(1),
    };
    let _ = PruneOptions {
        keep_last: Some(1),
        completed_before: None,
    };
    let stats = SystemStats {
        history_event_count: 1,
        history_size_bytes: 2,
        queue_pending_count: 3,
        kv_user_key_count: 4,
        kv_total_value_bytes: 5,
    };
    assert_eq!(serde_json::to_value(stats).unwrap()["kv_user_key_count"], 4);
}

#[test]
fn retry_policies_keep_their_arithmetic() {
    let ms = std::time::Duration::from_millis;
    let backoff = BackoffStrategy::default();
    assert_eq!(backoff.delay_for_attempt(3), ms(400));
    let linear = BackoffStrategy::Linear {
        base: ms(10),
        max: ms(25),
    };
    assert_eq!(linear.delay_for_attempt(3), ms(25));
    assert_eq!(BackoffStrategy::None.delay_for_attempt(9), ms(0));
    let policy = RetryPolicy {
        max_attempts: 3,
        backoff: BackoffStrategy::Fixed { delay: ms(5) },
        timeout: None,
    };
    assert_eq!(policy.delay_for_attempt(2), ms(5));
    let policy = RetryPolicy::new(2)
        .with_timeout(ms(7))
        .with_total_timeout(ms(9))
        .with_backoff(BackoffStrategy::Exponential {
            base: ms(1),
            multiplier: 2.0,
            max: ms(4),
        });
    assert_eq!((policy.max_attempts, policy.timeout), (2, Some(ms(9))));
}

#[tokio::test]
async fn the_sqlite_store_keeps_its_constructors() {
    let memory = SqliteProvider::new_in_memory().await.unwrap();
    assert_eq!(memory.name(), "sqlite");
    let options: Option<SqliteOptions> = Some(SqliteOptions::default());
    let other = SqliteProvider::new_in_memory_with_options(options.clone())
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("x.db").display());
    let file = SqliteProvider::new(&url, options).await.unwrap();
    file.checkpoint().await.unwrap();
    let _: String = file.debug_dump().await;
    assert!(other.as_management_capability().is_some());
    let measured = InstrumentedProvider::new(Arc::new(other), None);
    assert_eq!(measured.name(), "sqlite");
}
