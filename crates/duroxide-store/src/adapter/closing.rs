//! Whether the store is closed for the engine and its clients. What they write is guarded by it, what they claim is looked at again.

use std::sync::{Mutex, PoisonError};

use duroxide_core::provider::rules::Refusal;

use super::error::{Error, Result};
use super::names::{CLOSED, STORE};
use crate::atomic::{Batch, Guard, Operation};
use crate::wake::TopicWatch;
use crate::{EventStore, StoreError};

/// Topic of commits that close or open the store.
const TOPIC: &str = "closing";

/// That the store was found open, and a watch since then: claims need not ask again.
#[derive(Debug, Default)]
pub(super) struct FoundOpen(Mutex<Option<TopicWatch>>);

impl FoundOpen {
    fn holds(&self) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = since.as_ref().is_some_and(|watch| !watch.has_changed());
        if !holds {
            *since = None;
        }
        holds
    }

    fn set(&self, watch: Option<TopicWatch>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }
}

/// Why it is closed.
pub(super) async fn reason<S: EventStore>(store: &S) -> Result<Option<String>> {
    let reason = store.get(STORE, CLOSED).await?;
    Ok(reason.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Closes the store, changes why it is closed, or opens it.
pub(super) async fn set<S: EventStore>(
    store: &S,
    found: &FoundOpen,
    reason: Option<&str>,
) -> Result<()> {
    let (scope, key) = (STORE.to_owned(), CLOSED.to_owned());
    let write = match reason {
        Some(reason) => Operation::Put {
            scope,
            key,
            value: reason.as_bytes().to_vec(),
        },
        None => Operation::Delete { scope, key },
    };
    let batch = Batch {
        topics: vec![TOPIC.to_owned()],
        ..Batch::of([write])
    };
    found.set(None);
    let done = store.commit(batch).await;
    found.set(None);
    done?;
    Ok(())
}

/// That the store is open.
pub(super) fn is_open() -> Guard {
    Guard::Absent {
        scope: STORE.to_owned(),
        key: CLOSED.to_owned(),
    }
}

/// Refuses if the store is closed.
pub(super) async fn check<S: EventStore>(store: &S) -> Result<()> {
    match reason(store).await? {
        Some(reason) => Err(Error::Refused(Refusal::Closed { reason })),
        None => Ok(()),
    }
}

/// As [`check`], for a claim, of which there are many: it asks only if something may have changed.
pub(super) async fn check_claim<S: EventStore>(store: &S, found: &FoundOpen) -> Result<()> {
    if found.holds() {
        return Ok(());
    }
    // Before it is read: what changes after that is noticed.
    let watch = store.watch(TOPIC);
    check(store).await?;
    found.set(watch);
    Ok(())
}

/// Commits a batch of the engine or of a client.
pub(super) async fn commit<S: EventStore>(store: &S, batch: Batch) -> Result<Vec<u64>> {
    match store.commit(batch.guarded_by(is_open())).await {
        Err(StoreError::Conflict(why)) => {
            check(store).await?;
            Err(StoreError::Conflict(why).into())
        }
        done => Ok(done?),
    }
}
