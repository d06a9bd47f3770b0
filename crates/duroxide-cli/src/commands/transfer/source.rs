//! Where instances come from: a store of ours, or a schema of the published crate. Out: ids, and what is held of each.

use std::collections::HashSet;
use std::sync::Arc;

use duroxide_core::provider::{InstanceSnapshot, Provider};
use duroxide_pg::PublishedSchema;

use super::{admin, cannot};
use crate::failure::Failure;

/// How many ids one page has.
const PAGE: u32 = 1_000;

/// Where instances come from.
#[derive(Clone)]
pub(crate) enum Source {
    Store(Arc<dyn Provider>),
    Published(Arc<PublishedSchema>),
}

impl Source {
    /// Hands the ids that anything is held of to `take`, each once, a page at a time. Of a published schema that can be
    /// done once.
    pub(super) async fn held_pages<T>(&self, mut take: T) -> Result<u64, Failure>
    where
        T: AsyncFnMut(Vec<String>) -> Result<(), Failure>,
    {
        let schema = match self {
            Self::Store(store) => return held_pages(store, take).await,
            Self::Published(schema) => schema,
        };
        let mut count = 0;
        loop {
            let ids = schema.next_ids(PAGE).await?;
            if ids.is_empty() {
                return Ok(count);
            }
            count += ids.len() as u64;
            take(ids).await?;
        }
    }

    pub(super) async fn take(&self, id: &str) -> Result<InstanceSnapshot, Failure> {
        match self {
            Self::Store(store) => take(store, id).await,
            Self::Published(schema) => Ok(schema.snapshot(id).await?),
        }
    }
}

/// Hands the ids that a store holds anything of to `take`, each once, a page at a time.
pub(crate) async fn held_pages<T>(store: &Arc<dyn Provider>, mut take: T) -> Result<u64, Failure>
where
    T: AsyncFnMut(Vec<String>) -> Result<(), Failure>,
{
    let admin = admin(store)?;
    let mut seen = HashSet::new();
    let mut after: Option<String> = None;
    loop {
        let page = admin.held_ids(after.as_deref(), PAGE).await?;
        let page = page.ok_or_else(|| cannot("cannot list what it holds"))?;
        let mut ids = page.ids;
        ids.retain(|id| seen.insert(id.clone()));
        take(ids).await?;
        after = page.next;
        if after.is_none() {
            return Ok(seen.len() as u64);
        }
    }
}

/// What a store holds of an id.
pub(crate) async fn take(store: &Arc<dyn Provider>, id: &str) -> Result<InstanceSnapshot, Failure> {
    let taken = admin(store)?.snapshot_instance(id).await?;
    taken.ok_or_else(|| cannot("takes no snapshots"))
}

/// An instance with all its descendants, parents first, from one state.
pub(crate) async fn family(
    store: &Arc<dyn Provider>,
    root: &str,
) -> Result<Vec<InstanceSnapshot>, Failure> {
    let taken = admin(store)?.snapshot_family(root).await?;
    taken.ok_or_else(|| cannot("takes no snapshots of families"))
}
