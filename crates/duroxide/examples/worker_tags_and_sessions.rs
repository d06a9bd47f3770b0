//! Which worker runs what: tags send an activity to workers that can, sessions keep several on one worker.
//!
//! Three programs share one store here, as on three machines: two in the office, one with a graphics card.
//!
//! ```text
//! cargo run --release --example worker_tags_and_sessions
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::TagFilter;
use duroxide::providers::memory::MemoryProvider;
use duroxide::{App, AppError, RuntimeOptions};

/// The machine that a program runs on.
struct Machine {
    kind: &'static str,
    name: &'static str,
}

#[duroxide::activity]
async fn work(machine: State<Machine>, what: String) -> Result<String, String> {
    Ok(format!("{what} ran on {} machine", machine.kind))
}

#[duroxide::activity]
async fn whereabouts(machine: State<Machine>, _step: String) -> Result<String, String> {
    Ok(machine.name.to_owned())
}

#[duroxide::orchestration]
async fn film(ctx: OrchestrationContext, title: String) -> Result<String, String> {
    let script = ctx.call(work, "write").await?;
    let images = ctx.call(work, "render").tag("gpu").await?;

    // No worker here takes this tag. With a limit the code hears of it instead of waiting for ever.
    let music = ctx.call(work, "play").tag("orchestra");
    let music = match music.queue_timeout(Duration::from_millis(300)).await {
        Err(ActivityError::TimedOut {
            which: Timeout::Queue,
        }) => "no worker took the music".to_owned(),
        other => other?,
    };

    // A session belongs to the worker that took its first activity, which may keep things in memory for the next.
    let mut cuts = Vec::new();
    for step in ["load", "cut", "save"] {
        cuts.push(ctx.call(whereabouts, step).session(&title).await?);
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

async fn start(
    store: &Arc<MemoryProvider>,
    machine: Machine,
    takes: TagFilter,
) -> Result<App, AppError> {
    let options = RuntimeOptions {
        worker_node_id: Some(machine.name.to_owned()),
        worker_tag_filter: takes,
        ..RuntimeOptions::default()
    };
    Duroxide::on(store.clone())
        .options(options)
        .state(machine)
        .register(work)
        .register(whereabouts)
        .register(film)
        .start()
        .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(MemoryProvider::new());
    let mut machines = Vec::new();
    for (kind, name, takes) in [
        ("an office", "office-1", TagFilter::default_only()),
        ("an office", "office-2", TagFilter::default_only()),
        ("a render", "render-1", TagFilter::tags(["gpu"])),
    ] {
        machines.push(start(&store, Machine { kind, name }, takes).await?);
    }

    let client = Client::new(store);
    let film = client.start(film, "Metropolis").id("film-1").await?;
    println!("{}", film.result().await?);

    for machine in machines {
        machine.shutdown().await;
    }
    Ok(())
}
