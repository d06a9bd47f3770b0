//! Putting a runtime together, with mistakes returned instead of panicking later.

use std::fmt;
use std::sync::Arc;

use duroxide_core::clock::ClockRef;
use duroxide_core::provider::Provider;

use super::{Host, Runtime};
use crate::executor::Poller;
use crate::observability::SpanSink;
use crate::options::{InvalidOptions, RuntimeOptions};
use crate::registry::{ActivityRegistry, OrchestrationRegistry};

/// Why a runtime could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No store was given.
    #[error("a runtime needs a provider: call with_provider")]
    NoProvider,
    /// The options cannot work.
    #[error(transparent)]
    Options(#[from] InvalidOptions),
}

impl BuildError {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoProvider => "D0401",
            Self::Options(error) => error.code(),
        }
    }
}

/// Collects what a [`Runtime`] needs.
#[derive(Default)]
#[must_use]
pub struct RuntimeBuilder {
    store: Option<Arc<dyn Provider>>,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
    options: RuntimeOptions,
    host: Host,
}

impl RuntimeBuilder {
    /// The store to work on.
    pub fn with_provider(mut self, store: Arc<dyn Provider>) -> Self {
        self.store = Some(store);
        self
    }

    /// The activities to run.
    pub fn with_activities(mut self, activities: ActivityRegistry) -> Self {
        self.activities = activities;
        self
    }

    /// The orchestrations to run.
    pub fn with_orchestrations(mut self, orchestrations: OrchestrationRegistry) -> Self {
        self.orchestrations = orchestrations;
        self
    }

    /// How to behave.
    pub fn with_options(mut self, options: RuntimeOptions) -> Self {
        self.options = options;
        self
    }

    /// The clock that events are stamped by and timers are computed from. Where the store reports its own time
    /// ([`Provider::clock_ms`]), the runtime follows that; where it does not, the two must agree.
    pub fn with_clock(mut self, clock: ClockRef) -> Self {
        self.host.clock = Some(clock);
        self
    }

    /// Who polls the runtime's futures, instead of threads of its own. For simulations; see [`Poller`].
    pub fn with_poller(mut self, poller: Arc<dyn Poller>) -> Self {
        self.host.poller = Some(poller);
        self
    }

    /// Takes the spans of turns, activities and executions, once they are committed. Instances that are started without
    /// a trace get one.
    pub fn with_spans(mut self, sink: Arc<dyn SpanSink>) -> Self {
        self.host.spans = Some(sink);
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// Without a store, or with options that cannot work.
    pub async fn build(self) -> Result<Arc<Runtime>, BuildError> {
        let store = self.store.ok_or(BuildError::NoProvider)?;
        Ok(Runtime::try_start(
            store,
            &self.activities,
            self.orchestrations,
            self.options,
            self.host,
        )?)
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("store", &self.store.as_ref().map(|s| s.name().to_owned()))
            .field("activities", &self.activities)
            .field("orchestrations", &self.orchestrations)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
