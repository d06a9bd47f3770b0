//! Retries for what may work next time, compensation for what will not.
//!
//! ```text
//! cargo run --release --example retry_and_saga
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, BackoffStrategy, Client, OrchestrationContext,
    OrchestrationRegistry, RetryPolicy, Runtime,
};

async fn book_hotel(_ctx: ActivityContext, trip: String) -> Result<String, String> {
    println!("  hotel booked for {trip}");
    Ok("hotel".to_owned())
}

/// Works the third time it is asked.
async fn book_train(_ctx: ActivityContext, trip: String) -> Result<String, String> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    match ASKED.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => {
            println!("  train: the line is busy");
            Err("the line is busy".to_owned())
        }
        _ => {
            println!("  train booked for {trip}");
            Ok("train".to_owned())
        }
    }
}

async fn book_guide(_ctx: ActivityContext, trip: String) -> Result<String, String> {
    if trip == "the moon" {
        println!("  no guide knows {trip}");
        return Err(format!("no guide knows {trip}"));
    }
    println!("  guide booked for {trip}");
    Ok("guide".to_owned())
}

async fn cancel(_ctx: ActivityContext, booking: String) -> Result<String, String> {
    println!("  {booking} cancelled");
    Ok(String::new())
}

async fn travel(ctx: OrchestrationContext, trip: String) -> Result<String, String> {
    let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed {
        delay: Duration::from_millis(50),
    });
    let mut booked = Vec::new();
    for step in ["book_hotel", "book_train", "book_guide"] {
        let booking = ctx
            .schedule_activity_with_retry(step, trip.as_str(), policy.clone())
            .await;
        match booking {
            Ok(what) => booked.push(what),
            Err(why) => {
                // Undo what was done, last first. Each undo is a recorded step like any other: a crash in between
                // goes on with the next one.
                while let Some(what) = booked.pop() {
                    ctx.schedule_activity_with_retry("cancel", what, policy.clone())
                        .await?;
                }
                return Err(format!("stayed at home: {why}"));
            }
        }
    }
    Ok(format!("travelled with {}", booked.join(", ")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let activities = ActivityRegistry::builder()
        .register("book_hotel", book_hotel)
        .register("book_train", book_train)
        .register("book_guide", book_guide)
        .register("cancel", cancel)
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register("travel", travel)
        .build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    for trip in ["Lisbon", "the moon"] {
        println!("a trip to {trip}:");
        client.start_orchestration(trip, "travel", trip).await?;
        let outcome: Result<String, String> = client
            .wait_for_orchestration_typed(trip, Duration::from_secs(30))
            .await?;
        match outcome {
            Ok(text) => println!("done: {text}"),
            Err(text) => println!("failed: {text}"),
        }
    }

    runtime.shutdown(None).await;
    Ok(())
}
