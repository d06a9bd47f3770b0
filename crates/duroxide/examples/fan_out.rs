//! Fan out, fan in: many activities at once, results in the order they were asked for.
//!
//! ```text
//! cargo run --release --example fan_out
//! ```

use duroxide::prelude::*;
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

#[duroxide::activity]
async fn count_words(page: Page) -> Result<Count, String> {
    Ok(Count {
        words: page.text.split_whitespace().count(),
        title: page.title,
    })
}

#[duroxide::orchestration]
async fn count_all(ctx: OrchestrationContext, pages: Vec<Page>) -> Result<Vec<Count>, String> {
    // Each call asks at once; nothing waits until `join`. If the process dies while some are done, only the others run
    // again.
    let counts = pages.iter().map(|page| ctx.call(count_words, page));
    let counts = ctx.join(counts.collect()).await;
    Ok(counts.into_iter().collect::<Result<_, _>>()?)
}

fn page(title: &str, text: &str) -> Page {
    Page {
        title: title.to_owned(),
        text: text.to_owned(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open("memory:")
        .register(count_words)
        .register(count_all)
        .start()
        .await?;

    let pages = vec![
        page("rain", "it rained all night and all day"),
        page("sun", "then the sun came out"),
        page("wind", "and the wind"),
    ];
    println!("counting {} pages at once", pages.len());
    let counting = app.client().start(count_all, &pages).id("count-1").await?;
    let counts = counting.result().await?;
    for count in &counts {
        println!("  {}: {} words", count.title, count.words);
    }
    let total: usize = counts.iter().map(|count| count.words).sum();
    println!("together {total} words");

    app.shutdown().await;
    Ok(())
}
