//! What the two programs agree on: definitions. The client names them, the worker runs them; start as many workers as
//! you like, on as many machines.

use duroxide::prelude::*;
use serde::{Deserialize, Serialize};

/// What a client asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The words to count, page by page.
    pub pages: Vec<String>,
}

/// Counts the words of one page, on whichever worker takes it.
#[duroxide::activity]
pub async fn count_words(page: String) -> Result<usize, String> {
    Ok(page.split_whitespace().count())
}

/// Counts all pages at once and adds up.
#[duroxide::orchestration(version = "1.0.0")]
pub async fn word_count(ctx: OrchestrationContext, report: Report) -> Result<usize, String> {
    let counts: Vec<_> = report
        .pages
        .iter()
        .map(|page| ctx.call(count_words, page))
        .collect();
    let mut words = 0;
    for count in counts {
        words += count.await?;
    }
    Ok(words)
}

/// The url of the database: the first argument, or `DATABASE_URL`.
///
/// # Errors
///
/// If there is neither.
pub fn database_url() -> Result<String, String> {
    let given = std::env::args().nth(1);
    given
        .or_else(|| std::env::var("DATABASE_URL").ok())
        .ok_or_else(|| "give the url of a PostgreSQL database, or set DATABASE_URL".to_owned())
}
