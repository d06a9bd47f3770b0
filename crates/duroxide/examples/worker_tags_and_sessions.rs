//! Which worker runs what: tags send an activity to workers that can, sessions keep several on one worker.
//!
//! Three runtimes share one store here, as three machines would: two in the office, one with a graphics card.
//!
//! ```text
//! cargo run --release --example worker_tags_and_sessions
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::TagFilter;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::BuildError;
use duroxide::{
    ActivityContext, ActivityOptions, ActivityRegistry, Client, OrchestrationContext,
    OrchestrationRegistry, Runtime, RuntimeOptions,
};

async fn film(ctx: OrchestrationContext, title: String) -> Result<String, String> {
    let script = ctx.schedule_activity("work", "write").await?;
    let images = ctx
        .schedule_activity("work", "render")
        .with_tag("gpu")
        .await?;

    // No worker here takes this tag. With a limit the code hears of it instead of waiting for ever.
    let limit = ActivityOptions::new()
        .with_tag("orchestra")
        .with_start_timeout(Duration::from_millis(300));
    let music = ctx
        .schedule_activity_with_options("work", "play", limit)
        .await
        .unwrap_or_else(|why| why);

    // A session belongs to the worker that took its first activity, which may keep things in memory for the next.
    let mut cuts = Vec::new();
    for step in ["load", "cut", "save"] {
        let worker = ctx
            .schedule_activity_on_session("where", step, title.as_str())
            .await?;
        cuts.push(worker);
    }
    let together = cuts.iter().all(|worker| *worker == cuts[0]);
    let cutting = if together {
        "one worker"
    } else {
        "several workers"
    };
    Ok(format!(
        "{script}\n{images}\n{music}\nload, cut and save ran on {cutting}"
    ))
}

async fn machine(
    store: Arc<SqliteProvider>,
    kind: &'static str,
    node: &'static str,
    takes: TagFilter,
) -> Result<Arc<Runtime>, BuildError> {
    let work = move |_ctx: ActivityContext, what: String| async move {
        Ok(format!("{what} ran on {kind} machine"))
    };
    let whereabouts =
        move |_ctx: ActivityContext, _step: String| async move { Ok(node.to_owned()) };
    let activities = ActivityRegistry::builder()
        .register("work", work)
        .register("where", whereabouts)
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("film", film)
        .build();
    let options = RuntimeOptions {
        worker_node_id: Some(node.to_owned()),
        worker_tag_filter: takes,
        ..RuntimeOptions::default()
    };
    Runtime::builder()
        .with_provider(store)
        .with_activities(activities)
        .with_orchestrations(orchestrations)
        .with_options(options)
        .build()
        .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let plain = TagFilter::default_only;
    let machines = [
        machine(store.clone(), "an office", "office-1", plain()).await?,
        machine(store.clone(), "an office", "office-2", plain()).await?,
        machine(
            store.clone(),
            "a render",
            "render-1",
            TagFilter::tags(["gpu"]),
        )
        .await?,
    ];
    let client = Client::new(store);

    client
        .start_orchestration("film-1", "film", "Metropolis")
        .await?;
    let report: String = client
        .wait_for_orchestration_typed("film-1", Duration::from_secs(30))
        .await??;
    println!("{report}");

    for runtime in machines {
        runtime.shutdown(None).await;
    }
    Ok(())
}
