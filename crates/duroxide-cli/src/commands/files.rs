//! Work on whole SQLite files.

use std::path::{Path, PathBuf};

use duroxide_sqlite::SqliteError;
use serde_json::json;

use crate::args::Consent;
use crate::failure::Failure;
use crate::output::Output;
use crate::store::sqlite_file;

pub(crate) async fn backup(output: &Output, address: &str, to: &Path) -> Result<(), Failure> {
    let (from, to) = (file_of(address)?, to.to_owned());
    let bar = output.progress(0, "backup");
    let shown = bar.clone();
    let bytes = blocking(move || {
        duroxide_sqlite::backup(&from, &to, |written, total| {
            shown.set_length(total);
            shown.set_position(written);
        })
    })
    .await?;
    bar.finish_and_clear();
    match output.json {
        true => output.document(&json!({ "bytes": bytes })),
        false => output.line(format!("{bytes} bytes were written")),
    }
}

pub(crate) async fn vacuum(
    output: &Output,
    address: &str,
    consent: Consent,
) -> Result<(), Failure> {
    let file = file_of(address)?;
    if !consent.yes {
        let text = "the file would be written anew, and commits would wait meanwhile";
        return match consent.dry_run {
            true => output.line(text),
            false => Err(Failure::NeedsYes(text.to_owned())),
        };
    }
    let done = blocking(move || duroxide_sqlite::vacuum(&file)).await?;
    let (before, after) = (done.bytes_before, done.bytes_after);
    match output.json {
        true => output.document(&json!({ "bytes_before": before, "bytes_after": after })),
        false => output.line(format!("{before} bytes before, {after} after")),
    }
}

pub(crate) async fn import_published(
    output: &Output,
    old: &Path,
    new: &str,
) -> Result<(), Failure> {
    let (old, new) = (old.to_owned(), file_of(new)?);
    let imported = blocking(move || duroxide_sqlite::import_published(&old, &new)).await?;
    if output.json {
        return output.document(&json!({
            "instances": imported.instances,
            "executions": imported.executions,
            "events": imported.events,
            "messages": imported.messages,
            "activities": imported.activities,
            "key_values": imported.key_values,
        }));
    }
    output.line(format!(
        "{} instances with {} executions, {} events, {} messages, {} activities and {} key-values were brought over",
        imported.instances,
        imported.executions,
        imported.events,
        imported.messages,
        imported.activities,
        imported.key_values
    ))
}

/// What is wrong with the file itself.
pub(crate) async fn integrity(file: PathBuf) -> Result<Vec<String>, Failure> {
    blocking(move || duroxide_sqlite::check_integrity(&file)).await
}

fn file_of(address: &str) -> Result<PathBuf, Failure> {
    let refuse = || Failure::Usage(format!("{address}: this works on sqlite: files only"));
    sqlite_file(address).ok_or_else(refuse)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SqliteError> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| Failure::Store(error.to_string()))?;
    done.map_err(|error| Failure::Store(error.to_string()))
}
