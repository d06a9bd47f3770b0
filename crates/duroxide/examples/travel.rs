//! A journey: two bookings at once, the first of two answers, a saga that undoes what was done, work that a
//! cancellation does not touch, and a child that outlives its parent.
//!
//! ```text
//! cargo run --example travel
//! ```

use std::time::Duration;

use duroxide::prelude::*;

#[duroxide::activity]
async fn book(what: String) -> Result<String, String> {
    match what.as_str() {
        "a guide on the moon" => Err("there are none".to_owned()),
        _ => {
            println!("  booked {what}");
            Ok(what)
        }
    }
}

#[duroxide::activity]
async fn cancel(booking: String) -> Result<(), String> {
    println!("  cancelled {booking}");
    Ok(())
}

/// Goes on whatever becomes of the journey that asked for it.
#[duroxide::orchestration]
async fn newsletter(ctx: OrchestrationContext, city: String) -> Result<String, String> {
    ctx.sleep(Duration::from_millis(50)).await;
    Ok(format!("news of {city}"))
}

#[duroxide::orchestration]
async fn travel(ctx: OrchestrationContext, city: String) -> Result<String, String> {
    let news = ctx
        .child(newsletter, &city)
        .id(format!("news-{city}"))
        .on_parent_close(ParentClose::Abandon);
    let saga = ctx.saga();
    let steps = async {
        // Both at once. Each is undone by its own step.
        let (hotel, train) = duroxide::join!(
            ctx.call(book, format!("a hotel {city}")),
            ctx.call(book, format!("a train {city}")),
        );
        saga.undo(cancel, &hotel?);
        saga.undo(cancel, &train?);
        // A person may choose; otherwise time does.
        let seat = duroxide::select! {
            seat = ctx.receive::<String>("seat") => seat.map_err(|strange| strange.to_string())?,
            () = ctx.sleep(Duration::from_millis(100)) => "any seat".to_owned(),
        };
        let guide = ctx.call(book, format!("a guide {city}")).await?;
        Ok::<_, String>(format!("{seat}, {guide}"))
    };
    let trip = saga.run(steps).await;
    drop(news);
    // Told also to those whose journey was cancelled.
    let told = ctx.shield(ctx.call(book, "a stamp")).await;
    match trip {
        Ok(trip) => Ok(format!("{trip}, {}", told?)),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .register(book)
        .register(cancel)
        .register(newsletter)
        .register(travel)
        .start()
        .await?;
    let client = app.client();
    println!("to Rome");
    let rome = client
        .start(travel, "in Rome")
        .message("seat", "by the window");
    println!("{}", rome.await?.result().await?);
    println!("to the moon");
    let moon = client.start(travel, "on the moon").id("moon").await?;
    match moon.result().await {
        Ok(trip) => println!("{trip}"),
        Err(error) => println!("not travelled: {error}"),
    }
    let news = client.handle(newsletter, "news-on the moon");
    println!("and yet: {}", news.result().await?);
    app.shutdown().await;
    Ok(())
}
