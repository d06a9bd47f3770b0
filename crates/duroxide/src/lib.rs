#![doc = include_str!("lib.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod __private;
mod open;
pub mod prelude;

pub use duroxide_core::codec;
pub use duroxide_core::provider::{
    DeleteInstanceResult, DispatcherCapabilityFilter, ExecutionInfo, InstanceFilter, InstanceInfo,
    InstanceTree, ProviderAdmin, PruneOptions, PruneResult, QueueDepths,
    ScheduledActivityIdentifier, SemverRange, SessionFetchConfig, SystemMetrics, SystemStats,
    TagFilter, current_build_version,
};
pub use duroxide_core::{
    Action, ActivityOptions, AppErrorKind, BackoffStrategy, ConfigErrorKind, DurableFuture,
    Either2, Either3, ErrorDetails, Event, EventKind, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID,
    OrchestrationContext, PoisonMessageType, RetryPolicy, SUB_ORCH_AUTO_PREFIX, ScheduleKind,
    build_child_instance_id, is_auto_generated_sub_orch_id,
};
pub use duroxide_core::{
    Activity, ActivityError, ActivityRef, Arguments, CONTINUE_AS_NEW_EVENTS, Call, Cancelled,
    Child, Elapsed, LABELS_MAX, LabelChange, Labels, MEMO_BYTES_MAX, MESSAGE_KEYS_MAX,
    Orchestration, OrchestrationBody, OrchestrationError, OrchestrationRef, ParentClose, Payload,
    REPLIES_MAX, REQUEST_ID_BYTES_MAX, Request, Requests, Retry, Retryable, Run, Saga, SagaError,
    Spawned, StartExtras, Timeout, ToActivity, ToOrchestration, TraceContext, Undecodable,
    Undelivered, join, select,
};
#[cfg(feature = "macros")]
pub use duroxide_macros::{activity, handlers, orchestration};
pub use duroxide_runtime as runtime;
pub use duroxide_runtime::client;
pub use duroxide_runtime::registry::{ActivityRegistry, ActivityRegistryBuilder};
pub use duroxide_runtime::{
    ActivityBody, App, AppBuilder, AppError, Ask, AskError, Changes, Declared, Handle, Handlers,
    IfExists, Needed, Register, ResultError, Retention, RetentionPolicy, RetentionReport,
    RetentionRule, SendError, Sending, Start, State, States, activity_fn, orchestration_fn,
};
pub use duroxide_runtime::{
    ActivityContext, Client, ClientError, OnDivergence, OnUnregistered, OrchestrationDescriptor,
    OrchestrationHandler, OrchestrationRegistry, OrchestrationRegistryBuilder, OrchestrationStatus,
    Runtime, Runtime as DuroxideRuntime, RuntimeOptions,
};
#[cfg(feature = "testing")]
pub use duroxide_testing as testing;
#[cfg(feature = "provider-test")]
pub use duroxide_validation::{
    provider_stress_test, provider_stress_tests, provider_validation, provider_validations,
};
pub use open::{Duroxide, UnknownStore};

/// A shared store.
pub type ProviderRef = std::sync::Arc<dyn providers::Provider>;
/// A shared orchestration.
pub type OrchestrationHandlerRef = std::sync::Arc<dyn OrchestrationHandler>;

/// Level of a log line. Nothing uses it; it stays so that code naming it compiles.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogLevel {
    Info,
    Warn,
    Error,
}

/// Stores, and what a store must do.
pub mod providers {
    pub use duroxide_core::provider::*;

    /// A store that is measured.
    pub mod instrumented {
        pub use duroxide_runtime::observability::InstrumentedProvider;
    }

    /// A store in memory: the reference, for tests and for work that may be lost.
    pub mod memory {
        pub use duroxide_store::{ManualClock, MemoryProvider, TokioClock};
    }

    /// A store in a PostgreSQL database, for many machines.
    #[cfg(feature = "postgres")]
    pub use duroxide_pg as postgres;

    /// A store in one file, in pure Rust.
    #[cfg(feature = "redb")]
    pub use duroxide_store::redb;

    /// A store in one SQLite file: the default.
    #[cfg(feature = "sqlite")]
    pub use duroxide_sqlite as sqlite;
}

/// The programs of the repository's front page, compiled.
#[cfg(all(doctest, feature = "sqlite", feature = "macros"))]
#[doc = include_str!("../../../README.md")]
pub mod readme {}

/// The programs of the guide, compiled when every feature they use is on.
#[cfg(all(doctest, feature = "sqlite", feature = "testing", feature = "macros"))]
#[doc = include_str!("../../../docs/guide.md")]
pub mod guide {}

/// The programs of the page about the published interface.
#[cfg(all(doctest, feature = "sqlite", feature = "testing"))]
#[doc = include_str!("../../../docs/published-api.md")]
pub mod published_api {}
