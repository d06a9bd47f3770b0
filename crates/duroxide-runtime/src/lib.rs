//! Time and work of Duroxide: dispatchers, registries and the client. The only engine crate that knows tokio.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod activity;
mod app;
pub mod client;
mod declared;
mod engine;
mod executor;
mod failures;
mod handlers;
mod leases;
pub mod observability;
mod options;
mod orchestration;
mod panics;
pub mod registry;
mod retention;
mod runtime;
mod state;
mod status;
#[cfg(feature = "test-hooks")]
pub mod test_hooks;
mod undelivered;
mod worker;

pub use activity::{ActivityContext, ActivityHandler, FnActivity};
pub use app::{App, AppBuilder, AppError};
pub use client::{
    Ask, AskError, Changes, Client, ClientError, Handle, IfExists, ResultError, SendError, Sending,
    Start,
};
pub use declared::{Declared, stored_types};
pub use duroxide_core::limits;
pub use duroxide_core::provider::BlockedInstance;
pub use duroxide_core::{FnOrchestration, OrchestrationHandler};
pub use executor::Poller;
pub use handlers::{
    ActivityBody, Code, Handlers, Register, TypedActivity, activity_fn, orchestration_fn,
};
pub use observability::{LogFormat, ObservabilityConfig};
pub use options::{
    InvalidOptions, OnDivergence, OnUnregistered, RuntimeOptions, UnregisteredBackoffConfig,
};
pub use registry::{OrchestrationRegistry, OrchestrationRegistryBuilder, VersionPolicy};
pub use retention::{Retention, RetentionPolicy, RetentionReport, RetentionRule};
pub use runtime::{BuildError, Runtime, RuntimeBuilder};
pub use state::{Needed, State, States};
pub use status::{OrchestrationDescriptor, OrchestrationStatus};

use duroxide_core::WorkItem;

/// The name of a work item's kind. Queue messages keep their historic name.
#[must_use]
pub fn kind_of(item: &WorkItem) -> &'static str {
    match item {
        WorkItem::QueueMessage { .. } => "ExternalRaisedPersistent",
        other => other.kind_name(),
    }
}
