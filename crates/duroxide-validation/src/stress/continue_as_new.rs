//! Instances that begin anew after every message, while messages keep coming.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::OrchestrationContext;
use duroxide_runtime::registry::ActivityRegistry;
use duroxide_runtime::{Client, OrchestrationRegistry, OrchestrationStatus};

use super::{ProviderStressFactory, StressReport, StressTestConfig, Workload, drive};

struct Relay {
    messages: usize,
}

#[async_trait]
impl Workload for Relay {
    fn orchestration(&self) -> &'static str {
        "Relay"
    }

    fn input(&self) -> String {
        format!("{}|", self.messages)
    }

    /// Waits until the instance exists, since messages for an unknown instance are dropped, then sends them all.
    async fn feed(&self, client: &Client, instance: &str) {
        while let Ok(OrchestrationStatus::NotFound) =
            client.get_orchestration_status(instance).await
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for n in 0..self.messages {
            let sent = client.enqueue_event(instance, "relay", n.to_string()).await;
            sent.expect("a message can be enqueued");
        }
    }

    fn expected(&self) -> Option<String> {
        let all: Vec<String> = (0..self.messages).map(|n| n.to_string()).collect();
        Some(all.join(","))
    }
}

/// Input: how many messages are still to come, and what was read so far.
async fn relay(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let (left, read) = input.split_once('|').ok_or("the input has two parts")?;
    let left: usize = left
        .parse()
        .map_err(|_| "the first part is a number".to_owned())?;
    if left == 0 {
        return Ok(read.to_owned());
    }
    let next = ctx.dequeue_event("relay").await;
    let read = if read.is_empty() {
        next
    } else {
        format!("{read},{next}")
    };
    ctx.continue_as_new(format!("{}|{read}", left - 1)).await
}

/// Each instance is sent `tasks_per_instance` messages, reads one per execution, and must read all in order.
///
/// # Errors
///
/// If anything was lost, doubled or out of order.
pub async fn run_continue_as_new_test(
    factory: &dyn ProviderStressFactory,
    config: &StressTestConfig,
) -> Result<StressReport, Box<dyn Error>> {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Relay", relay)
        .build();
    let workload = Relay {
        messages: config.tasks_per_instance,
    };
    let store = factory.create_provider().await;
    let activities = ActivityRegistry::default();
    drive(config, store, activities, orchestrations, workload).await
}
