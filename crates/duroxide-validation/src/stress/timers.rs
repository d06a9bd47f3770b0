//! Many timers due at the same moment.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::OrchestrationContext;
use duroxide_runtime::OrchestrationRegistry;
use duroxide_runtime::registry::ActivityRegistry;

use super::{ProviderStressFactory, StressReport, StressTestConfig, Workload, drive};

/// How long after its start all timers of an instance are due.
const DUE: Duration = Duration::from_millis(100);

struct Alarm {
    timers: usize,
}

#[async_trait]
impl Workload for Alarm {
    fn orchestration(&self) -> &'static str {
        "Alarm"
    }

    fn input(&self) -> String {
        self.timers.to_string()
    }

    fn expected(&self) -> Option<String> {
        Some(format!("{} timers", self.timers))
    }
}

async fn alarm(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let count: usize = input
        .parse()
        .map_err(|_| "the input is a number".to_owned())?;
    let timers = (0..count).map(|_| ctx.schedule_timer(DUE)).collect();
    let fired = ctx.join(timers).await;
    Ok(format!("{} timers", fired.len()))
}

/// Each instance sets `tasks_per_instance` timers that are due together, and waits for all.
///
/// # Errors
///
/// If anything was lost or doubled.
pub async fn run_timers_test(
    factory: &dyn ProviderStressFactory,
    config: &StressTestConfig,
) -> Result<StressReport, Box<dyn Error>> {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Alarm", alarm)
        .build();
    let workload = Alarm {
        timers: config.tasks_per_instance,
    };
    let store = factory.create_provider().await;
    let activities = ActivityRegistry::default();
    drive(config, store, activities, orchestrations, workload).await
}
