//! What nobody should send, and what handlers should not do. Each gets a clear answer; nobody else is affected.

mod blocking;
mod ids;
mod names;
mod panics;
mod sizes;

use duroxide::{OrchestrationContext, OrchestrationRegistry};

use crate::support::orchestrations;

fn echo() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "echo",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.set_kv_value(input.clone(), input.clone());
                let back = ctx.schedule_activity("echo", input.clone()).await?;
                let child = ctx.schedule_sub_orchestration("leaf", input).await?;
                assert_eq!(back, child);
                ctx.schedule_wait("go").await;
                Ok(back)
            },
        )
        .register(
            "leaf",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .build()
}
