//! `import-published` into a store that is no SQLite file: the old file becomes a draft of ours, and the draft goes over as in a move.
//! Cut short, the next call goes on: the target is closed until everything is there.

use std::path::Path;
use std::sync::Arc;

use duroxide_core::kill;
use duroxide_core::provider::Provider;
use duroxide_sqlite::SqliteProvider;
use serde_json::json;
use uuid::Uuid;

use super::moving::{copy_all, is_empty};
use super::{Copier, Lives, cannot, door};
use crate::audit;
use crate::commands::files;
use crate::failure::Failure;
use crate::output::Output;
use crate::store::Address;

pub(crate) async fn run(
    output: &Output,
    old: &Path,
    new: &str,
    schema: Option<&str>,
) -> Result<(), Failure> {
    let address = Address::of(Some(new), schema)?;
    if address.sqlite_file().is_some() {
        return files::import_published(output, old, &address).await;
    }
    let folder = tempfile::tempdir()?;
    let draft = folder.path().join("draft.db");
    let (from, to) = (old.to_owned(), draft.clone());
    files::blocking(move || duroxide_sqlite::import_published(&from, &to)).await?;
    let url = format!("sqlite:{}", draft.display());
    let source = SqliteProvider::new(&url, None).await;
    let source = source.map_err(|error| Failure::Store(error.to_string()))?;
    let target = address.create().await?;
    let closed = begin(&target, &address, old).await?;
    kill::point("import_published_begun");
    let copier = Copier {
        from: Arc::new(source),
        to: Arc::clone(&target),
        lives: Lives::OfTheirIds,
        closed: closed.clone(),
    };
    let Some(counts) = copy_all(output, &copier).await? else {
        return Err(cannot("was opened by somebody else meanwhile"));
    };
    door::must_change(&target, Some(&closed), None).await?;
    let detail = format!("{} into {}", old.display(), address.place());
    audit::line("import-published", &detail);
    match output.json {
        true => output.document(&json!({ "to": address.to_string(), "imported": counts })),
        false => output.line(format!("{} were brought over", counts.told())),
    }
}

/// Closes the target for this file, or finds it closed for it; returns what it is closed for.
async fn begin(
    target: &Arc<dyn Provider>,
    address: &Address,
    old: &Path,
) -> Result<String, Failure> {
    let file = std::fs::canonicalize(old)?;
    let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, file.as_os_str().as_encoded_bytes());
    let reason = format!(
        "the import {id} of {} is not finished; call `duroxide import-published` again to finish it",
        old.display()
    );
    match door::reason(target).await? {
        Some(found) if found.contains(&id.to_string()) => Ok(found),
        Some(other) => Err(Failure::Store(format!("{address} is closed: {other}"))),
        None => {
            is_empty(target, address).await?;
            door::must_change(target, None, Some(&reason)).await?;
            // Something may have come before it was closed.
            if let Err(error) = is_empty(target, address).await {
                door::must_change(target, Some(&reason), None).await?;
                return Err(error);
            }
            Ok(reason)
        }
    }
}
