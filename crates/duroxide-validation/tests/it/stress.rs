//! Every load scenario once, briefly, on the reference store.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::provider::Provider;
use duroxide_store::MemoryProvider;
use duroxide_validation::provider_stress_tests::{
    ProviderStressFactory, StressReport, StressTestConfig, continue_as_new,
    create_default_activities, create_default_orchestrations, fan_in, large_payload,
    measure_stress_test, parallel_orchestrations, timers,
};

struct InMemory;

#[async_trait]
impl ProviderStressFactory for InMemory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(MemoryProvider::new())
    }

    fn stress_test_config(&self) -> StressTestConfig {
        StressTestConfig {
            max_concurrent: 8,
            duration_secs: 1,
            tasks_per_instance: 5,
            activity_delay_ms: 1,
            ..StressTestConfig::default()
        }
    }
}

fn everything_completed(report: Result<StressReport, Box<dyn Error>>) -> StressReport {
    let report = report.expect("nothing was lost or doubled");
    assert!(report.result.launched > 0, "something was started");
    assert_eq!(
        report.result.completed, report.result.launched,
        "{report:?}"
    );
    assert!(report.latencies.p50 <= report.latencies.p99);
    assert!(report.latencies.p99 <= report.latencies.max);
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_orchestrations_all_complete() {
    let config = InMemory.stress_test_config();
    let activities = create_default_activities(config.activity_delay_ms);
    let store = InMemory.create_provider().await;
    let report =
        measure_stress_test(config, store, activities, create_default_orchestrations()).await;
    let report = everything_completed(report);
    assert_eq!(report.audit.activities, 5 * report.result.completed);

    let result = parallel_orchestrations::run_parallel_orchestrations_test(&InMemory).await;
    let result = result.expect("nothing was lost or doubled");
    assert!((result.success_rate() - 100.0).abs() < f64::EPSILON);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_all_arrive() {
    let mut config = large_payload::LargePayloadConfig::default();
    config.base.duration_secs = 1;
    let result = large_payload::run_large_payload_test_with_config(&InMemory, config).await;
    let result = result.expect("nothing was lost or doubled");
    assert_eq!(result.completed, result.launched);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_in_waits_for_every_child() {
    let config = InMemory.stress_test_config();
    everything_completed(fan_in::run_fan_in_test(&InMemory, &config).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_due_at_once_all_fire() {
    let config = StressTestConfig {
        tasks_per_instance: 50,
        ..InMemory.stress_test_config()
    };
    everything_completed(timers::run_timers_test(&InMemory, &config).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_across_executions_are_read_in_order() {
    let config = InMemory.stress_test_config();
    everything_completed(continue_as_new::run_continue_as_new_test(&InMemory, &config).await);
}
