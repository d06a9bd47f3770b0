//! Fewer instances with large inputs, results and long histories.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::OrchestrationContext;
use duroxide_runtime::registry::ActivityRegistry;
use duroxide_runtime::{ActivityContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};

pub use super::{ProviderStressFactory, StressTestConfig, StressTestResult};
use super::{Workload, drive};

/// How large, how many.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LargePayloadConfig {
    /// Number of instances, and how they are run.
    pub base: StressTestConfig,
    /// Small payloads, in KiB.
    pub small_payload_kb: usize,
    /// Middling payloads, in KiB.
    pub medium_payload_kb: usize,
    /// Large payloads, in KiB.
    pub large_payload_kb: usize,
    /// Activities per instance.
    pub activity_count: usize,
    /// Children per instance.
    pub sub_orch_count: usize,
}

impl Default for LargePayloadConfig {
    fn default() -> Self {
        Self {
            base: StressTestConfig {
                max_concurrent: 5,
                duration_secs: 10,
                tasks_per_instance: 1,
                activity_delay_ms: 5,
                orch_concurrency: 1,
                worker_concurrency: 1,
                wait_timeout_secs: 120,
            },
            small_payload_kb: 10,
            medium_payload_kb: 50,
            large_payload_kb: 100,
            activity_count: 20,
            sub_orch_count: 5,
        }
    }
}

/// What an instance is told: sizes in bytes and counts.
#[derive(Clone, Serialize, Deserialize)]
struct Plan {
    sizes: [usize; 3],
    activities: usize,
    children: usize,
}

impl Plan {
    fn size(&self, n: usize) -> usize {
        self.sizes[n % self.sizes.len()]
    }

    /// Bytes that all activities and children together return.
    fn total(&self) -> usize {
        let activities: usize = (0..self.activities).map(|n| self.size(n)).sum();
        activities + self.children * self.sizes[1]
    }
}

#[async_trait]
impl Workload for Plan {
    fn orchestration(&self) -> &'static str {
        "LargePayload"
    }

    fn input(&self) -> String {
        serde_json::to_string(self).expect("numbers serialise")
    }

    fn expected(&self) -> Option<String> {
        Some(self.total().to_string())
    }
}

async fn large(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let plan: Plan = serde_json::from_str(&input).map_err(|error| error.to_string())?;
    let mut received = 0;
    for n in 0..plan.activities {
        let payload = "x".repeat(plan.size(n));
        received += ctx.schedule_activity("EchoPayload", payload).await?.len();
    }
    let children = (0..plan.children)
        .map(|_| ctx.schedule_sub_orchestration("PayloadChild", "y".repeat(plan.sizes[1])))
        .collect();
    for answer in ctx.join(children).await {
        received += answer?.len();
    }
    Ok(received.to_string())
}

async fn child(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("EchoPayload", input).await
}

/// Runs large payloads with the default sizes.
///
/// # Errors
///
/// If anything was lost or doubled.
pub async fn run_large_payload_test(
    factory: &dyn ProviderStressFactory,
) -> Result<StressTestResult, Box<dyn Error>> {
    run_large_payload_test_with_config(factory, LargePayloadConfig::default()).await
}

/// Runs large payloads with these sizes.
///
/// # Errors
///
/// If anything was lost or doubled.
pub async fn run_large_payload_test_with_config(
    factory: &dyn ProviderStressFactory,
    config: LargePayloadConfig,
) -> Result<StressTestResult, Box<dyn Error>> {
    let delay = Duration::from_millis(config.base.activity_delay_ms);
    let activities = ActivityRegistry::builder()
        .register(
            "EchoPayload",
            move |_: ActivityContext, input: String| async move {
                tokio::time::sleep(delay).await;
                Ok(input)
            },
        )
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("LargePayload", large)
        .register("PayloadChild", child)
        .build();
    let plan = Plan {
        sizes: [
            config.small_payload_kb * 1024,
            config.medium_payload_kb * 1024,
            config.large_payload_kb * 1024,
        ],
        activities: config.activity_count,
        children: config.sub_orch_count,
    };
    let store = factory.create_provider().await;
    let report = drive(&config.base, store, activities, orchestrations, plan).await?;
    Ok(report.result)
}
