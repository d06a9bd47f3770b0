//! Retries for what may work next time, compensation for what will not.
//!
//! ```text
//! cargo run --release --example retry_and_saga
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::prelude::*;

#[duroxide::activity]
async fn book_hotel(trip: String) -> Result<String, String> {
    println!("  hotel booked for {trip}");
    Ok("hotel".to_owned())
}

/// Works the third time it is asked.
#[duroxide::activity]
async fn book_train(trip: String) -> Result<String, String> {
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

#[duroxide::activity]
async fn book_guide(trip: String) -> Result<String, String> {
    if trip == "the moon" {
        println!("  no guide knows {trip}");
        return Err(format!("no guide knows {trip}"));
    }
    println!("  guide booked for {trip}");
    Ok("guide".to_owned())
}

#[duroxide::activity]
async fn cancel(booking: String) -> Result<(), String> {
    println!("  {booking} cancelled");
    Ok(())
}

#[duroxide::orchestration]
async fn travel(ctx: OrchestrationContext, trip: String) -> Result<String, String> {
    let policy = || Retry::fixed(3, Duration::from_millis(50));
    let saga = ctx.saga();
    let steps = async {
        let hotel = ctx.call(book_hotel, &trip).retry(policy()).await?;
        saga.undo(cancel, &hotel);
        let train = ctx.call(book_train, &trip).retry(policy()).await?;
        saga.undo(cancel, &train);
        let guide = ctx.call(book_guide, &trip).retry(policy()).await?;
        Ok::<_, String>([hotel, train, guide].join(", "))
    };
    // If a step fails for good, what was done is undone, last first. Each undo is a recorded step like any other: a
    // crash in between goes on with the next one.
    match saga.run(steps).await {
        Ok(booked) => Ok(format!("travelled with {booked}")),
        Err(SagaError::Failed { error, .. }) => Err(format!("stayed at home: {error}")),
        Err(cancelled) => Err(cancelled.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .register(book_hotel)
        .register(book_train)
        .register(book_guide)
        .register(cancel)
        .register(travel)
        .start()
        .await?;

    for trip in ["Lisbon", "the moon"] {
        println!("a trip to {trip}:");
        let travelling = app.client().start(travel, trip).id(trip).await?;
        match travelling.result().await {
            Ok(text) => println!("done: {text}"),
            Err(error) => println!("failed: {error}"),
        }
    }

    app.shutdown().await;
    Ok(())
}
