//! Where instances come from: a store of ours, or a schema of the published crate. Out: ids, and what is held of each.

use std::sync::Arc;

use duroxide_core::provider::{InstanceSnapshot, Provider};
use duroxide_pg::PublishedSchema;

use super::copy::{held_pages, take};
use crate::failure::Failure;

/// How many ids one page of a published schema has.
const PAGE: u32 = 1_000;

/// Where instances come from.
#[derive(Clone)]
pub(crate) enum Source {
    Store(Arc<dyn Provider>),
    Published(Arc<PublishedSchema>),
}

impl Source {
    /// Hands the ids that anything is held of to `take`, each once, a page at a time. Of a published schema that can be done once.
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
