//! Time and work of Duroxide: dispatchers, registries and the client. The only engine crate that knows tokio.

mod activity;
mod builder;
mod claiming;
pub mod client;
mod engine;
mod excuses;
mod executor;
mod gauges;
mod leases;
pub mod observability;
mod options;
mod orchestration;
pub mod registry;
mod runtime;
mod slots;
mod status;
#[cfg(feature = "test-hooks")]
pub mod test_hooks;
mod worker;

pub use activity::{ActivityContext, ActivityHandler, FnActivity};
pub use builder::{BuildError, RuntimeBuilder};
pub use client::{Client, ClientError};
pub use duroxide_core::limits;
pub use duroxide_core::{FnOrchestration, OrchestrationHandler};
pub use observability::{LogFormat, ObservabilityConfig};
pub use options::{
    InvalidOptions, OnDivergence, OnUnregistered, RuntimeOptions, UnregisteredBackoffConfig,
};
pub use registry::{OrchestrationRegistry, OrchestrationRegistryBuilder, VersionPolicy};
pub use runtime::{BlockedInstance, Runtime};
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
