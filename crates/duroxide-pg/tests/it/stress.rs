//! The load scenarios with a running engine, on the server and through a real PgBouncer.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::Provider;
use duroxide_pg::{PostgresOptions, PostgresProvider, ProviderConfig};
use duroxide_validation::provider_stress_tests::{
    ProviderStressFactory, StressReport, StressTestConfig, continue_as_new,
    create_default_activities, create_default_orchestrations, fan_in, large_payload,
    measure_stress_test, timers,
};

use crate::pooler::Pooler;
use crate::support::{Schema, url};

/// Makes stores; each in a schema of its own, which lives as long as this.
struct Stores {
    schemas: Mutex<Vec<Schema>>,
    url: String,
    options: PostgresOptions,
}

impl Stores {
    fn on_the_server() -> Self {
        Self {
            schemas: Mutex::default(),
            url: url(),
            options: PostgresOptions::default(),
        }
    }

    fn behind(pooler: &Pooler) -> Self {
        Self {
            url: pooler.url(),
            // Debian's PgBouncer does not track prepared statements.
            options: PostgresOptions {
                prepared_statements: false,
                ..PostgresOptions::default()
            },
            ..Self::on_the_server()
        }
    }
}

#[async_trait]
impl ProviderStressFactory for Stores {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let schema = Schema::new();
        let config = ProviderConfig {
            schema_name: Some(schema.0.clone()),
            options: self.options.clone(),
            ..ProviderConfig::url(&self.url)
        };
        self.schemas.lock().unwrap().push(schema);
        Arc::new(PostgresProvider::new_with_config(config).await.unwrap())
    }

    fn stress_test_config(&self) -> StressTestConfig {
        StressTestConfig {
            max_concurrent: 16,
            duration_secs: 2,
            tasks_per_instance: 10,
            activity_delay_ms: 1,
            ..StressTestConfig::default()
        }
    }
}

fn everything_completed(report: Result<StressReport, Box<dyn Error>>) {
    let report = report.expect("nothing was lost or doubled");
    assert!(report.result.launched > 0, "something was started");
    assert_eq!(
        report.result.completed, report.result.launched,
        "{report:?}"
    );
}

async fn parallel(stores: &Stores) {
    let config = stores.stress_test_config();
    let activities = create_default_activities(config.activity_delay_ms);
    let store = stores.create_provider().await;
    let orchestrations = create_default_orchestrations();
    everything_completed(measure_stress_test(config, store, activities, orchestrations).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_orchestrations_all_complete() {
    parallel(&Stores::on_the_server()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_all_arrive() {
    let mut config = large_payload::LargePayloadConfig::default();
    config.base.duration_secs = 2;
    let stores = Stores::on_the_server();
    let result = large_payload::run_large_payload_test_with_config(&stores, config).await;
    let result = result.expect("nothing was lost or doubled");
    assert_eq!(result.completed, result.launched);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_in_waits_for_every_child() {
    let stores = Stores::on_the_server();
    let config = stores.stress_test_config();
    everything_completed(fan_in::run_fan_in_test(&stores, &config).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_due_at_once_all_fire() {
    let stores = Stores::on_the_server();
    let config = StressTestConfig {
        tasks_per_instance: 50,
        ..stores.stress_test_config()
    };
    everything_completed(timers::run_timers_test(&stores, &config).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_across_executions_are_read_in_order() {
    let stores = Stores::on_the_server();
    let config = stores.stress_test_config();
    everything_completed(continue_as_new::run_continue_as_new_test(&stores, &config).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_by_transaction_everything_completes() {
    let pooler = Pooler::start();
    let stores = Stores::behind(&pooler);
    parallel(&stores).await;
    let config = stores.stress_test_config();
    everything_completed(fan_in::run_fan_in_test(&stores, &config).await);
}

/// A pooler takes the LISTEN and delivers nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_work_of_others_is_found_by_polling() {
    let pooler = Pooler::start();
    let schema = Schema::new();
    let behind = ProviderConfig {
        schema_name: Some(schema.0.clone()),
        options: PostgresOptions {
            prepared_statements: false,
            ..PostgresOptions::default()
        },
        ..ProviderConfig::url(pooler.url())
    };
    let here = PostgresProvider::new_with_config(behind).await.unwrap();
    let there = schema.open().await;
    assert!(!here.is_listening() && there.is_listening());
    let waiting =
        here.fetch_orchestration_item(Duration::from_secs(30), Duration::from_secs(20), None);
    let sending = async {
        let start = crate::meetings::start("a");
        there.enqueue_for_orchestrator(start, None).await.unwrap();
        std::time::Instant::now()
    };
    let (found, sent) = tokio::join!(waiting, sending);
    assert!(found.unwrap().is_some());
    let took = sent.elapsed();
    assert!(took < Duration::from_millis(1_500), "{took:?}");
}
