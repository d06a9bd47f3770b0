//! A running engine on a store in memory, for tests.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityRegistry, Client, OrchestrationRegistry, OrchestrationStatus, Runtime, RuntimeOptions,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) store: Arc<dyn Provider>,
    pub(crate) client: Client,
    pub(crate) runtime: Arc<Runtime>,
}

impl World {
    pub(crate) async fn start(
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
    ) -> Self {
        Self::with_options(activities, orchestrations, RuntimeOptions::default()).await
    }

    pub(crate) async fn with_options(
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) -> Self {
        let store: Arc<dyn Provider> = Arc::new(SqliteProvider::new_in_memory().await.unwrap());
        Self::on(store, activities, orchestrations, options).await
    }

    pub(crate) async fn on(
        store: Arc<dyn Provider>,
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        options: RuntimeOptions,
    ) -> Self {
        let runtime =
            Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
        Self {
            client: Client::new(store.clone()),
            store,
            runtime,
        }
    }

    pub(crate) async fn run(
        &self,
        instance: &str,
        orchestration: &str,
        input: &str,
    ) -> OrchestrationStatus {
        self.client
            .start_orchestration(instance, orchestration, input)
            .await
            .unwrap();
        self.outcome(instance).await
    }

    pub(crate) async fn outcome(&self, instance: &str) -> OrchestrationStatus {
        self.client
            .wait_for_orchestration(instance, PATIENCE)
            .await
            .unwrap_or_else(|e| panic!("{instance}: {e}"))
    }

    pub(crate) async fn stop(self) {
        self.runtime.shutdown(None).await;
    }
}

pub(crate) fn output(status: &OrchestrationStatus) -> &str {
    match status {
        OrchestrationStatus::Completed { output, .. } => output,
        other => panic!("not completed: {other:?}"),
    }
}

pub(crate) fn failure(status: &OrchestrationStatus) -> String {
    match status {
        OrchestrationStatus::Failed { details, .. } => details.display_message(),
        other => panic!("not failed: {other:?}"),
    }
}
