//! Fan out, fan in: many activities at once, results in the order they were asked for.
//!
//! ```text
//! cargo run --release --example fan_out
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry, Runtime,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Page {
    title: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Count {
    title: String,
    words: usize,
}

async fn count_words(_ctx: ActivityContext, page: Page) -> Result<Count, String> {
    Ok(Count {
        words: page.text.split_whitespace().count(),
        title: page.title,
    })
}

async fn count_all(ctx: OrchestrationContext, pages: Vec<Page>) -> Result<Vec<Count>, String> {
    // Each call schedules at once; nothing waits until `join`. If the process dies while some are done, only the
    // others run again.
    let counts = pages
        .iter()
        .map(|page| ctx.schedule_activity_typed::<Page, Count>("count_words", page))
        .collect();
    ctx.join(counts).await.into_iter().collect()
}

fn page(title: &str, text: &str) -> Page {
    Page {
        title: title.to_owned(),
        text: text.to_owned(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(SqliteProvider::new_in_memory().await?);
    let activities = ActivityRegistry::builder()
        .register_typed("count_words", count_words)
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed("count_all", count_all)
        .build_result()?;
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);

    let pages = vec![
        page("rain", "it rained all night and all day"),
        page("sun", "then the sun came out"),
        page("wind", "and the wind"),
    ];
    println!("counting {} pages at once", pages.len());
    client
        .start_orchestration_typed("count-1", "count_all", pages)
        .await?;
    let counts: Vec<Count> = client
        .wait_for_orchestration_typed("count-1", Duration::from_secs(30))
        .await??;
    for count in &counts {
        println!("  {}: {} words", count.title, count.words);
    }
    let total: usize = counts.iter().map(|count| count.words).sum();
    println!("together {total} words");

    runtime.shutdown(None).await;
    Ok(())
}
