//! A runtime on the store under test, and patience.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::Provider;
use duroxide_core::{Event, EventKind};
use duroxide_runtime::registry::ActivityRegistry;
use duroxide_runtime::{
    Client, OrchestrationRegistry, OrchestrationStatus, Runtime, RuntimeOptions,
    UnregisteredBackoffConfig,
};

use crate::ProviderFactory;
use crate::waiting::ended;

/// Pause between two looks at a history.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(super) struct Engine {
    pub(super) store: Arc<dyn Provider>,
    pub(super) client: Client,
    /// How long anything may take that is expected to happen.
    pub(super) patience: Duration,
    runtime: Arc<Runtime>,
}

/// Options that make a short test: quick polls and quick backoff.
pub(super) fn quick() -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(10),
        dispatcher_long_poll_timeout: Duration::from_millis(500),
        orchestration_concurrency: 2,
        worker_concurrency: 2,
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(50),
            max_delay: Duration::from_millis(100),
        },
        max_attempts: 100,
        ..RuntimeOptions::default()
    }
}

impl Engine {
    pub(super) async fn start<F: ProviderFactory + ?Sized>(
        factory: &F,
        store: &Arc<dyn Provider>,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) -> Self {
        let activities = ActivityRegistry::builder()
            .register("Echo", |_, input: String| async move { Ok(input) })
            .build();
        let runtime =
            Runtime::start_with_options(Arc::clone(store), activities, orchestrations, options)
                .await;
        Self {
            store: Arc::clone(store),
            client: Client::new(Arc::clone(store)),
            patience: factory.engine_patience(),
            runtime,
        }
    }

    pub(super) async fn stop(self) {
        self.runtime.shutdown(None).await;
    }

    pub(super) async fn begin(&self, instance: &str, name: &str, input: &str) {
        let started = self.client.start_orchestration(instance, name, input).await;
        started.expect("a start can be enqueued");
    }

    pub(super) async fn signal(&self, instance: &str, name: &str, data: &str) {
        let raised = self.client.raise_event(instance, name, data).await;
        raised.expect("a signal can be enqueued");
    }

    pub(super) async fn post(&self, instance: &str, queue: &str, data: &str) {
        let posted = self.client.enqueue_event(instance, queue, data).await;
        posted.expect("a message can be enqueued");
    }

    pub(super) async fn outcome(&self, instance: &str) -> OrchestrationStatus {
        let ended = ended(&self.client, &*self.store, instance, self.patience).await;
        ended.unwrap_or_else(|| panic!("`{instance}` does not end"))
    }

    pub(super) async fn output(&self, instance: &str) -> String {
        match self.outcome(instance).await {
            OrchestrationStatus::Completed { output, .. } => output,
            other => panic!("`{instance}` did not complete: {other:?}"),
        }
    }

    /// Waits until the current history of the instance fulfils the condition; returns that history.
    pub(super) async fn until(
        &self,
        instance: &str,
        what: &str,
        fulfils: impl Fn(&[Event]) -> bool,
    ) -> Vec<Event> {
        let began = std::time::Instant::now();
        loop {
            let history = self.store.read(instance).await;
            let history = history.expect("a history can be read");
            if fulfils(&history) {
                return history;
            }
            assert!(
                began.elapsed() < self.patience,
                "`{instance}` never came to {what}: {history:?}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

pub(super) fn waits_for(name: &'static str) -> impl Fn(&[Event]) -> bool {
    move |history| {
        let open =
            |e: &Event| matches!(&e.kind, EventKind::ExternalSubscribed { name: n } if n == name);
        history.iter().any(open)
    }
}

pub(super) fn arrived(count: usize) -> impl Fn(&[Event]) -> bool {
    move |history| {
        let message = |e: &&Event| matches!(e.kind, EventKind::QueueEventDelivered { .. });
        history.iter().filter(message).count() >= count
    }
}

pub(super) fn ended_in_continue_as_new(history: &[Event]) -> bool {
    let last = history.last().map(|e| &e.kind);
    matches!(last, Some(EventKind::OrchestrationContinuedAsNew { .. }))
}
