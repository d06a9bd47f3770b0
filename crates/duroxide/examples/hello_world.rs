//! The first program: one orchestration, two activities, a store in one file, and the record of what happened.
//!
//! ```text
//! cargo run --release --example hello_world              # a store that is removed at the end
//! cargo run --release --example hello_world hello.db     # a store that stays: run it twice
//! ```

use std::path::PathBuf;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::{Event, EventKind, OrchestrationStatus};

/// An activity does real work. It may read files, call servers, take its time, and fail.
#[duroxide::activity]
async fn greet(name: String) -> Result<String, String> {
    println!("  (the activity greet runs)");
    Ok(format!("Hello, {name}!"))
}

#[duroxide::activity]
async fn shout(text: String) -> Result<String, String> {
    println!("  (the activity shout runs)");
    Ok(text.to_uppercase())
}

/// An orchestration decides what happens next. Each step is recorded before the next one begins.
#[duroxide::orchestration]
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    let greeting = ctx.call(greet, &name).await?;
    ctx.sleep(Duration::from_millis(200)).await;
    Ok(ctx.call(shout, &greeting).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kept = std::env::args().nth(1).map(PathBuf::from);
    let path = kept.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("duroxide-hello-{}.db", std::process::id()))
    });
    let app = Duroxide::open(format!("sqlite:{}", path.display()))
        .register(greet)
        .register(shout)
        .register(hello)
        .start()
        .await?;
    let client = app.client();

    println!("start the instance `first` of the orchestration `hello`");
    let known = client.handle(hello, "first").status().await?;
    if known != OrchestrationStatus::NotFound {
        println!("  (this file knows it already: nothing runs again)");
    }
    let first = client.start(hello, "Rust").id("first").await?;
    println!("the result: {}", first.result().await?);

    println!("what the store recorded:");
    for event in client.read_execution_history("first", 1).await? {
        println!("  {:>2}  {}", event.event_id(), in_words(&event));
    }

    app.shutdown().await;
    drop((client, first));
    if kept.is_none() {
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

fn in_words(event: &Event) -> String {
    let of = event.source_event_id().unwrap_or_default();
    match &event.kind {
        EventKind::OrchestrationStarted { name, input, .. } => {
            format!("{name} began with `{input}`")
        }
        EventKind::ActivityScheduled { name, input, .. } => {
            format!("asked for {name} of `{input}`")
        }
        EventKind::ActivityCompleted { result } => format!("step {of} gave `{result}`"),
        EventKind::ActivityFailed { details } => format!("step {of} failed: {details:?}"),
        EventKind::TimerCreated { .. } => "set a timer".to_owned(),
        EventKind::TimerFired { .. } => format!("the timer of step {of} fired"),
        EventKind::OrchestrationCompleted { output } => format!("ended with `{output}`"),
        other => other.wire_name().to_owned(),
    }
}
