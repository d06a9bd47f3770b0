//! `import-published` into a store that is no SQLite file: the old file becomes a draft of ours, and the draft goes over as in a move.
//! Cut short, the next call goes on: the target is closed until everything is there.

use std::path::Path;
use std::sync::Arc;

use duroxide_core::kill;
use duroxide_core::provider::Provider;
use duroxide_sqlite::SqliteProvider;
use serde_json::json;
use uuid::Uuid;

use super::moving::{close, copy_all, is_empty};
use super::{Copier, Lives, admin};
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
    let copier = Copier {
        from: Arc::new(source.map_err(|error| Failure::Store(error.to_string()))?),
        to: address.create().await?,
        lives: Lives::OfTheirIds,
    };
    begin(&copier.to, &address, old).await?;
    kill::point("import_published_begun");
    let counts = copy_all(output, &copier).await?;
    close(&copier.to, None).await?;
    match output.json {
        true => output.document(&json!({ "to": address.to_string(), "imported": counts })),
        false => output.line(format!("{} were brought over", counts.told())),
    }
}

/// Closes the target for this file, or finds it closed for it.
async fn begin(target: &Arc<dyn Provider>, address: &Address, old: &Path) -> Result<(), Failure> {
    let file = std::fs::canonicalize(old)?;
    let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, file.as_os_str().as_encoded_bytes());
    let reason = format!(
        "the import {id} of {} is not finished; call `duroxide import-published` again to finish it",
        old.display()
    );
    match admin(target)?.closed_because().await? {
        Some(found) if found.contains(&id.to_string()) => Ok(()),
        Some(other) => Err(Failure::Store(format!("{address} is closed: {other}"))),
        None => {
            is_empty(target, address).await?;
            close(target, Some(&reason)).await
        }
    }
}
