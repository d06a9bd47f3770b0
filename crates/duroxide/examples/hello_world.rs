//! The first program: one orchestration, two activities, a store in one file, and the record of what happened.
//!
//! ```text
//! cargo run --release --example hello_world              # a store that is removed at the end
//! cargo run --release --example hello_world hello.db     # a store that stays: run it twice
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, Client, Event, EventKind, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus, Runtime,
};

/// An activity does real work. It may read files, call servers, take its time, and fail.
async fn greet(_ctx: ActivityContext, name: String) -> Result<String, String> {
    println!("  (the activity greet runs)");
    Ok(format!("Hello, {name}!"))
}

async fn shout(_ctx: ActivityContext, text: String) -> Result<String, String> {
    println!("  (the activity shout runs)");
    Ok(text.to_uppercase())
}

/// An orchestration decides what happens next. Each step is recorded before the next one begins.
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    let greeting = ctx.schedule_activity("greet", name).await?;
    ctx.schedule_timer(Duration::from_millis(200)).await;
    ctx.schedule_activity("shout", greeting).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kept = std::env::args().nth(1).map(PathBuf::from);
    let path = kept.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("duroxide-hello-{}.db", std::process::id()))
    });
    let store = Arc::new(SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await?);

    let activities = ActivityRegistry::builder()
        .register("greet", greet)
        .register("shout", shout)
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register("hello", hello)
        .build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;

    let client = Client::new(store);
    println!("start the instance `first` of the orchestration `hello`");
    if client.get_orchestration_status("first").await? != OrchestrationStatus::NotFound {
        println!("  (this file knows it already: nothing runs again)");
    }
    client.start_orchestration("first", "hello", "Rust").await?;
    match client
        .wait_for_orchestration("first", Duration::from_secs(30))
        .await?
    {
        OrchestrationStatus::Completed { output, .. } => println!("the result: {output}"),
        other => println!("it did not complete: {other:?}"),
    }

    println!("what the store recorded:");
    for event in client.read_execution_history("first", 1).await? {
        println!("  {:>2}  {}", event.event_id(), in_words(&event));
    }

    runtime.shutdown(None).await;
    drop(client);
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
