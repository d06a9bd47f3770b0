//! What to load a store with.

use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::provider::Provider;
use serde::{Deserialize, Serialize};

/// How much load, and for how long.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StressTestConfig {
    /// Instances under way at once.
    pub max_concurrent: usize,
    /// How long new instances are started.
    pub duration_secs: u64,
    /// Activities, children, timers or messages per instance.
    pub tasks_per_instance: usize,
    /// How long an activity takes.
    pub activity_delay_ms: u64,
    /// Turns at once.
    pub orch_concurrency: usize,
    /// Activities at once.
    pub worker_concurrency: usize,
    /// How long to wait for each instance to end.
    #[serde(default = "default_wait_timeout_secs")]
    pub wait_timeout_secs: u64,
}

fn default_wait_timeout_secs() -> u64 {
    60
}

impl Default for StressTestConfig {
    fn default() -> Self {
        Self {
            max_concurrent: 20,
            duration_secs: 10,
            tasks_per_instance: 5,
            activity_delay_ms: 10,
            orch_concurrency: 2,
            worker_concurrency: 2,
            wait_timeout_secs: default_wait_timeout_secs(),
        }
    }
}

/// Makes the stores under load.
#[async_trait]
pub trait ProviderStressFactory: Send + Sync {
    /// A fresh store.
    async fn create_provider(&self) -> Arc<dyn Provider>;

    /// How much load.
    fn stress_test_config(&self) -> StressTestConfig {
        StressTestConfig::default()
    }
}
