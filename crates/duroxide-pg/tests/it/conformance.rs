//! The conformance kit, each case in a schema of its own.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::Provider;
use duroxide_pg::PostgresOptions;
use duroxide_validation::{Capability, ClockSkew, ProviderFactory, TestClock};

use crate::support::{Schema, ServerClock};

#[derive(Default)]
struct Postgres {
    schemas: Mutex<Vec<Arc<Schema>>>,
    clock: Arc<ServerClock>,
}

impl Postgres {
    fn last(&self) -> Arc<Schema> {
        let schemas = self.schemas.lock().unwrap();
        Arc::clone(schemas.last().expect("a store was created"))
    }

    fn damage(&self, sql: &str, instance: &str) {
        let sql = sql.replace("{id}", &instance.replace('\'', "''"));
        assert!(
            self.last().shell(&sql) > 0,
            "nothing to damage for {instance}"
        );
    }
}

#[async_trait]
impl ProviderFactory for Postgres {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let schema = Arc::new(Schema::new());
        let store = schema.open().await;
        self.clock.of(&schema.0);
        self.schemas.lock().unwrap().push(schema);
        let store = Arc::new(store);
        self.clock.seen_by(&store);
        store
    }

    /// The server keeps it; a handle is a pool of connections.
    async fn reopen(&self) -> Arc<dyn Provider> {
        self.second_handle().await
    }

    async fn second_handle(&self) -> Arc<dyn Provider> {
        Arc::new(self.last().open().await)
    }

    async fn skewed_handle(&self, _skew: ClockSkew) -> Arc<dyn Provider> {
        // A provider never asks its machine for the time.
        self.second_handle().await
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.damage(
            "UPDATE {s}.history SET event_data = '{\"torn' WHERE instance_id = '{id}'",
            instance,
        );
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let sql = "SELECT coalesce(max(q.attempt_count + CASE WHEN q.id = ANY (b.message_ids) THEN 1 ELSE 0 END), 0)
            FROM {s}.orchestrator_queue AS q LEFT JOIN {s}.inboxes AS b ON b.instance_id = q.instance_id
            WHERE q.instance_id = '{id}'";
        let found = self.last().shell(&sql.replace("{id}", instance));
        u32::try_from(found).unwrap()
    }

    async fn corrupt_orchestrator_messages(&self, instance: &str) {
        self.damage(
            "UPDATE {s}.orchestrator_queue SET work_item = '{\"FromTheFuture\":{}}' WHERE instance_id = '{id}'",
            instance,
        );
    }

    async fn corrupt_worker_items(&self, instance: &str) {
        self.damage(
            "UPDATE {s}.worker_queue SET work_item = '{\"torn' WHERE instance_id = '{id}'",
            instance,
        );
    }

    fn supports(&self, capability: Capability) -> bool {
        Capability::OF_FACTORIES.contains(&capability)
    }

    fn must_offer(&self) -> &'static [Capability] {
        static OFFERS: LazyLock<Vec<Capability>> = LazyLock::new(|| Capability::all_but(&[]));
        &OFFERS
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        Some(self.clock.clone())
    }

    fn unknown_instance_grace(&self) -> Option<Duration> {
        Some(PostgresOptions::default().unknown_instance_grace)
    }
}

mod kit {
    use super::Postgres;
    duroxide_validation::conformance!(Postgres::default());
}
