//! Asks for a word count and waits for it. It runs nothing itself: without a worker it waits.

use duroxide::Duroxide;
use duroxide_example_workers::{Report, database_url, word_count};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Duroxide::open(database_url()?).client().await?;
    let pages = ["one two three", "four five", "six"]
        .map(str::to_owned)
        .to_vec();
    let report = client.start(word_count, &Report { pages }).await?;
    println!("{} words", report.result().await?);
    Ok(())
}
