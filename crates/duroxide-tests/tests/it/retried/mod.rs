//! Failed instances that an operator retries from the point of failure.

mod children;
mod kept;
mod messages;
mod points;
mod unstarted;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duroxide::client::{Rewind, RewindPoint};
use duroxide::providers::{Provider, WorkItem};
use duroxide::{
    ActivityContext, ActivityRegistry, Client, ClientError, Event, EventKind, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus, RetryPolicy, RuntimeOptions,
};

use duroxide_core::rewind::RewindMessage;

use crate::support::{
    Notes, PATIENCE, World, activities, failure, in_memory, orchestrations, output, quick, until,
};

/// The world outside, which is broken until somebody repairs it.
#[derive(Clone, Default)]
struct Outside {
    repaired: Arc<AtomicBool>,
    done: Notes,
}

impl Outside {
    fn repair(&self) {
        self.repaired.store(true, Ordering::SeqCst);
    }

    /// `do`: always works. `try`: works once the world is repaired.
    fn activities(&self) -> ActivityRegistry {
        let (doing, trying) = (self.clone(), self.clone());
        activities()
            .register("do", move |_: ActivityContext, what: String| {
                doing.done.add(format!("do {what}"));
                async move { Ok(what) }
            })
            .register("try", move |_: ActivityContext, what: String| {
                trying.done.add(format!("try {what}"));
                let works = trying.repaired.load(Ordering::SeqCst);
                async move { works.then_some(what).ok_or("broken".to_owned()) }
            })
            .build()
    }

    async fn with(&self, orchestrations: OrchestrationRegistry) -> World {
        World::start(self.activities(), orchestrations).await
    }
}

/// Waits until a node has taken a retry.
async fn taken(world: &World, rewind: &Rewind) {
    let taken = world.client.wait_for_retry(rewind, PATIENCE);
    taken.await.unwrap();
}

/// Retries and waits for what comes of it.
async fn retried(world: &World, id: &str) -> OrchestrationStatus {
    let rewind = world.client.retry_instance(id).await.unwrap();
    taken(world, &rewind).await;
    world.outcome(id).await
}

/// Waits until no node has anything to do for any instance.
async fn nothing_is_queued(world: &World) {
    until("every message is consumed", async || {
        let depths = world.client.get_queue_depths().await.unwrap();
        depths.orchestrator_queue == 0
    })
    .await;
}

/// Claims the next turn this often and gives it back each time, as a node does that dies of it.
async fn tried_in_vain(store: &dyn Provider, times: usize) {
    const WAIT: Duration = Duration::from_secs(5);
    for _ in 0..times {
        let claimed = store.fetch_orchestration_item(WAIT, WAIT, None).await;
        let (_, token, _) = claimed.unwrap().unwrap();
        let given_back = store.abandon_orchestration_item(&token, None, false);
        given_back.await.unwrap();
    }
}

async fn waits(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.schedule_activity("do", "prepare").await?;
    Ok(ctx.schedule_wait("go").await)
}

/// Reserves, charges, and takes the reservation back if that fails.
async fn order(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.set_kv_value("stage", "reserving");
    ctx.set_custom_status("reserving");
    ctx.set_label("stage", "reserving");
    let reserved = ctx.schedule_activity("do", "reserve").await?;
    let before = ctx.get_kv_value("stage").unwrap_or_default();
    ctx.set_kv_value("stage", "charging");
    match ctx.schedule_activity("try", "charge").await {
        Ok(charged) => Ok(format!("{reserved}, {charged} after {before}")),
        Err(error) => {
            ctx.set_kv_value("stage", "undone");
            ctx.set_kv_value("undone", "yes");
            ctx.set_custom_status("undone");
            ctx.set_label("stage", "undone");
            ctx.schedule_activity("do", "undo").await?;
            Err(error)
        }
    }
}
