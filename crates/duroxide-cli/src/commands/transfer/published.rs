//! `import-published`: what the published crate left comes into a store of ours. A file becomes a draft of ours, and
//! the draft goes over as in a move; a schema is read as of one moment, instance by instance. Cut short, the next call
//! goes on: the target is closed until everything is there.

use std::path::Path;
use std::sync::Arc;

use duroxide_core::kill;
use duroxide_core::provider::Provider;
use duroxide_pg::{PgError, PublishedCounts, PublishedSchema};
use duroxide_sqlite::SqliteProvider;
use serde_json::json;
use uuid::Uuid;

use super::moving::{copy_all, is_empty, is_postgres};
use super::{Copier, Counts, Incarnations, Source, cannot, door};
use crate::args::ImportPublishedArgs;
use crate::audit;
use crate::commands::files;
use crate::failure::Failure;
use crate::output::Output;
use crate::store::Address;

/// The schema of the published crate, if none is named.
const PUBLIC: &str = "public";

pub(crate) async fn run(
    output: &Output,
    args: &ImportPublishedArgs,
    schema: Option<&str>,
) -> Result<(), Failure> {
    match args.old.to_str().filter(|old| is_postgres(old)) {
        Some(url) => from_schema(output, args, url, schema.unwrap_or(PUBLIC)).await,
        None => from_file(output, args, args.to_schema.as_deref().or(schema)).await,
    }
}

async fn from_file(
    output: &Output,
    args: &ImportPublishedArgs,
    schema: Option<&str>,
) -> Result<(), Failure> {
    if args.force {
        let how = "--force is for a schema: whether a program uses a file is not looked at";
        return Err(Failure::Usage(how.to_owned()));
    }
    let old = args.old.as_path();
    let address = Address::of(Some(&args.new), schema)?;
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
    let origin = Origin::file(old)?;
    let target = Target::begin(&address, origin).await?;
    let source = Source::Store(Arc::new(source));
    let counts = target.copy(output, source).await?;
    target.finish(output, &counts).await
}

async fn from_schema(
    output: &Output,
    args: &ImportPublishedArgs,
    url: &str,
    schema: &str,
) -> Result<(), Failure> {
    let from = Address::of(Some(url), Some(schema))?;
    let address = Address::of(Some(&args.new), args.to_schema.as_deref())?;
    if from.is_same_as(&address) {
        let why = "both are the same schema; name another one with --to-schema";
        return Err(Failure::Usage(why.to_owned()));
    }
    let old = open(&from, url, schema).await?;
    nobody_works(&old, &from, args.force).await?;
    let before = old.counts().await?;
    let target = Target::begin(&address, Origin::schema(&from)).await?;
    let counts = target
        .copy(output, Source::Published(Arc::new(old)))
        .await?;
    all_arrived(before, &counts)?;
    // The copy shows the moment at which it began.
    let after = open(&from, url, schema).await?;
    let after = after.counts().await?;
    if after != before {
        return Err(Failure::Store(format!(
            "programs wrote to {} while it was read, {before:?} became {after:?}. Stop them, and import into an empty store",
            from.place()
        )));
    }
    target.finish(output, &counts).await
}

async fn open(from: &Address, url: &str, schema: &str) -> Result<PublishedSchema, Failure> {
    let opened = PublishedSchema::open(url, Some(schema)).await;
    opened.map_err(|error: PgError| from.refused(error))
}

/// What programs do after the moment that is read would be lost.
async fn nobody_works(old: &PublishedSchema, from: &Address, force: bool) -> Result<(), Failure> {
    let leases = old.leases().await?;
    if leases == 0 || force {
        return Ok(());
    }
    Err(Failure::Store(format!(
        "{leases} instances and activities of {} are leased to a program at this moment. Stop it first; the leases of a program that was \
         killed end by themselves. With --force they are dropped, and what a program still does is lost",
        from.place()
    )))
}

/// Rows are counted on both sides. A row in the wrong queue has become a dead letter.
fn all_arrived(old: PublishedCounts, new: &Counts) -> Result<(), Failure> {
    let queued = new.messages + new.activities + new.dead_letters;
    let is_all = old.instances == new.instances
        && old.executions == new.executions
        && old.events == new.events
        && old.messages + old.activities == queued
        && old.key_values == new.key_values;
    if is_all {
        return Ok(());
    }
    Err(Failure::Store(format!(
        "{old:?} was counted in the old schema, and {new:?} arrived; the target stays closed"
    )))
}

/// What is imported.
struct Origin {
    /// Tells it from any other one.
    id: Uuid,
    shown: String,
}

impl Origin {
    fn file(path: &Path) -> Result<Self, Failure> {
        let file = std::fs::canonicalize(path)?;
        Ok(Self {
            id: Uuid::new_v5(&Uuid::NAMESPACE_URL, file.as_os_str().as_encoded_bytes()),
            shown: path.display().to_string(),
        })
    }

    fn schema(from: &Address) -> Self {
        let shown = from.place();
        let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, shown.as_bytes());
        Self { id, shown }
    }
}

/// A store that is closed until everything of its origin is there.
struct Target<'a> {
    store: Arc<dyn Provider>,
    address: &'a Address,
    origin: Origin,
    /// What it is closed for.
    closed: String,
}

impl<'a> Target<'a> {
    /// Closes the target for this origin, or finds it closed for it.
    async fn begin(address: &'a Address, origin: Origin) -> Result<Self, Failure> {
        let store = address.create().await?;
        let closed = closed(&store, address, &origin).await?;
        kill::point("import_published_begun");
        Ok(Self {
            store,
            address,
            origin,
            closed,
        })
    }

    async fn copy(&self, output: &Output, from: Source) -> Result<Counts, Failure> {
        let copier = Copier {
            from,
            to: Arc::clone(&self.store),
            incarnations: Incarnations::OfTheirIds,
            closed: self.closed.clone(),
        };
        let copied = copy_all(output, &copier).await?;
        copied.ok_or_else(|| cannot("was opened by another process meanwhile"))
    }

    /// Opens it.
    async fn finish(self, output: &Output, counts: &Counts) -> Result<(), Failure> {
        door::must_change(&self.store, Some(&self.closed), None).await?;
        let address = self.address;
        let detail = format!("{} into {}", self.origin.shown, address.place());
        audit::line("import-published", &detail);
        if output.json {
            output.document(&json!({ "to": address.to_string(), "imported": counts }))
        } else {
            output.line(format!("{} were brought over", counts.in_words()))
        }
    }
}

async fn closed(
    store: &Arc<dyn Provider>,
    address: &Address,
    origin: &Origin,
) -> Result<String, Failure> {
    let (id, shown) = (origin.id, &origin.shown);
    let reason = format!(
        "the import {id} of {shown} is not finished; call `duroxide import-published` again to finish it"
    );
    match door::reason(store).await? {
        Some(found) if found.contains(&id.to_string()) => Ok(found),
        Some(other) => Err(Failure::Store(format!("{address} is closed: {other}"))),
        None => {
            is_empty(store, address).await?;
            door::must_change(store, None, Some(&reason)).await?;
            // Something may have come before it was closed.
            if let Err(error) = is_empty(store, address).await {
                door::must_change(store, Some(&reason), None).await?;
                return Err(error);
            }
            Ok(reason)
        }
    }
}
