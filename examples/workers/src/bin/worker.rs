//! Runs what clients ask for, until its standard input ends. Kill it and start another: nothing is lost.

use duroxide::Duroxide;
use duroxide_example_workers::{count_words, database_url, word_count};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Duroxide::open(database_url()?)
        .register(count_words)
        .register(word_count)
        .start()
        .await?;
    println!("working; end my input to stop me");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    app.shutdown().await;
    Ok(())
}
