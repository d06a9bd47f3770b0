//! Parents that wait for many children at once.

use std::error::Error;

use async_trait::async_trait;
use duroxide_core::OrchestrationContext;
use duroxide_runtime::OrchestrationRegistry;

use super::{
    ProviderStressFactory, StressReport, StressTestConfig, Workload, create_default_activities,
    drive,
};

struct FanIn {
    children: usize,
}

#[async_trait]
impl Workload for FanIn {
    fn orchestration(&self) -> &'static str {
        "FanIn"
    }

    fn input(&self) -> String {
        self.children.to_string()
    }

    fn expected(&self) -> Option<String> {
        Some(format!("{} children", self.children))
    }
}

async fn parent(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let count: usize = input
        .parse()
        .map_err(|_| "the input is a number".to_owned())?;
    let children = (0..count)
        .map(|n| ctx.schedule_sub_orchestration("FanInChild", n.to_string()))
        .collect();
    let answers = ctx.join(children).await;
    let answers = answers
        .into_iter()
        .collect::<Result<Vec<String>, String>>()?;
    Ok(format!("{} children", answers.len()))
}

async fn child(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("ProcessTask", input).await
}

/// Each instance starts `tasks_per_instance` children, each with one activity, and waits for all.
///
/// # Errors
///
/// If anything was lost or doubled.
pub async fn run_fan_in_test(
    factory: &dyn ProviderStressFactory,
    config: &StressTestConfig,
) -> Result<StressReport, Box<dyn Error>> {
    let orchestrations = OrchestrationRegistry::builder()
        .register("FanIn", parent)
        .register("FanInChild", child)
        .build();
    let workload = FanIn {
        children: config.tasks_per_instance,
    };
    let activities = create_default_activities(config.activity_delay_ms);
    let store = factory.create_provider().await;
    drive(config, store, activities, orchestrations, workload).await
}
