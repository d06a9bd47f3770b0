//! The default orchestration: schedule some activities at once, wait for all.

use std::time::Duration;

use duroxide_core::OrchestrationContext;
use duroxide_runtime::registry::ActivityRegistry;
use duroxide_runtime::{ActivityContext, OrchestrationRegistry};
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    task_count: usize,
}

/// Registers `ProcessTask`, which takes this long.
#[must_use]
pub fn create_default_activities(delay_ms: u64) -> ActivityRegistry {
    let delay = Duration::from_millis(delay_ms);
    ActivityRegistry::builder()
        .register(
            "ProcessTask",
            move |_: ActivityContext, input: String| async move {
                tokio::time::sleep(delay).await;
                Ok(format!("processed: {input}"))
            },
        )
        .build()
}

/// Registers `FanoutOrchestration`, which takes `{"task_count":n}` and runs that many activities at once.
#[must_use]
pub fn create_default_orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("FanoutOrchestration", fan_out)
        .build()
}

async fn fan_out(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let input: Input = serde_json::from_str(&input).map_err(|error| error.to_string())?;
    let tasks = (0..input.task_count)
        .map(|n| ctx.schedule_activity("ProcessTask", format!("task-{n}")))
        .collect();
    let results = ctx.join(tasks).await;
    let done = results
        .into_iter()
        .collect::<Result<Vec<String>, String>>()?;
    Ok(format!("{} tasks", done.len()))
}
