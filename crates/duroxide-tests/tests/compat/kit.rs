//! The conformance kit and the hooks, under their published paths.

#![allow(unused_imports, reason = "naming them is the test")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::provider_stress_test as _;
use duroxide::provider_stress_tests::{StressTestConfig, StressTestResult, run_stress_test as _};
use duroxide::provider_validation::ProviderFactory as _;
use duroxide::provider_validations::{
    ProviderFactory, bulk_deletion, capability_filtering, custom_status, deletion, kv_store,
    long_polling, poison_message, prune, race_replay, sessions, tag_filtering,
};
use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::test_hooks;

struct Factory;

#[async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(
            SqliteProvider::new_in_memory()
                .await
                .expect("memory is enough"),
        )
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn short_poll_threshold(&self) -> Duration {
        Duration::from_millis(100)
    }

    async fn corrupt_instance_history(&self, _instance: &str) {
        panic!("not used here");
    }

    async fn get_max_attempt_count(&self, _instance: &str) -> u32 {
        panic!("not used here");
    }
}

/// One of each module, in its published call shape. Never runs.
#[allow(dead_code, reason = "compiling it is the test")]
async fn calls_the_kit(factory: &Factory, dynamic: &dyn ProviderFactory) {
    duroxide::provider_validations::test_atomicity_failure_rollback(factory).await;
    duroxide::provider_validations::test_exclusive_instance_lock(factory).await;
    let _ = (dynamic.lock_timeout(), dynamic.short_poll_threshold());
}

#[test]
fn the_hooks_slow_down_instances_by_prefix() {
    test_hooks::set_orch_processing_delay(Duration::from_millis(5), Some("slow-"));
    assert_eq!(
        test_hooks::get_orch_processing_delay("slow-1"),
        Some(Duration::from_millis(5))
    );
    assert_eq!(test_hooks::get_orch_processing_delay("fast"), None);
    test_hooks::clear_orch_processing_delay();
    assert_eq!(test_hooks::get_orch_processing_delay("slow-1"), None);
}
