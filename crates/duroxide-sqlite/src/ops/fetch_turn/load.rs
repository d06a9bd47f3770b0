//! The history of a claimed turn. In: a candidate, and what the caller holds. Out: what the caller holds, if that is
//! current; the events; or, if they are many, where to find them once the claim is committed. The writer never reads
//! more than a bounded part of a history: everybody waits for it.
//!
//! While the lease holds, nobody else appends to the history and no execution ends, so events and key-values are the
//! same in the claim and afterwards. Only a deletion ends the lease before its time, and it takes the life away.

use std::collections::HashMap;

use duroxide_core::provider::{CachedHistory, Incarnation, KvEntry};

use super::Ask;
use super::choose::Candidate;
use crate::error::{Result, SqliteError};
use crate::tables::history::{self, UpTo};
use crate::tables::{deletions, instances, kv};
use crate::tx::Tx;

/// A history with more bytes than this is not read on the thread that writes.
pub(super) const HISTORY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// With this many bytes one read of a part of a large history ends.
pub(super) const PART_BYTES: usize = 4 * 1024 * 1024;

/// The history of a turn as stored.
pub(crate) enum RawHistory {
    Unchanged(CachedHistory),
    Loaded {
        events: Vec<Vec<u8>>,
        kv: HashMap<String, KvEntry>,
    },
    /// Still to be read.
    Large(LargeHistory),
    /// It is on a page that cannot be read.
    Damaged(SqliteError),
}

impl RawHistory {
    /// How much the claim read for it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Loaded { events, .. } => events.iter().map(Vec::len).sum(),
            Self::Large(large) => large.read(),
            Self::Unchanged(_) | Self::Damaged(_) => 0,
        }
    }
}

/// Where a large history is found, and how far it went in the claim.
#[derive(Debug, Clone)]
pub(crate) struct LargeHistory {
    instance: String,
    incarnation: Option<Incarnation>,
    execution_id: u64,
    last_event_id: u64,
    /// How many bytes of it the claim read to find out that it is large.
    read: usize,
}

/// A part of a large history.
pub(crate) struct LargePart {
    pub(crate) events: Vec<Vec<u8>>,
    /// After which event the next part begins; `None` if there is none.
    pub(crate) goes_on_after: Option<u64>,
}

impl LargeHistory {
    /// How many bytes of it the claim read.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    /// Reads some of it; `None` if it is gone with its instance.
    pub(crate) fn part(&self, tx: &Tx<'_>, after: Option<u64>) -> Result<Option<LargePart>> {
        if !self.is_there(tx)? {
            return Ok(None);
        }
        let range = (after, self.last_event_id);
        let part = history::load_part(tx, &self.instance, self.execution_id, range, PART_BYTES)?;
        let Some(last) = part.last else {
            return Ok(None);
        };
        Ok(Some(LargePart {
            events: part.events,
            goes_on_after: (last < self.last_event_id).then_some(last),
        }))
    }

    /// Reads the key-values that go with it; `None` as in [`part`](Self::part).
    pub(crate) fn key_values(&self, tx: &Tx<'_>) -> Result<Option<HashMap<String, KvEntry>>> {
        if !self.is_there(tx)? {
            return Ok(None);
        }
        kv::base(tx, &self.instance).map(Some)
    }

    fn is_there(&self, tx: &Tx<'_>) -> Result<bool> {
        Ok(!deletions::contains(tx, &self.instance)?
            && instances::incarnation(tx, &self.instance)? == self.incarnation)
    }
}

pub(super) fn history(tx: &Tx<'_>, ask: &Ask, candidate: &Candidate) -> Result<RawHistory> {
    if let Some(held) = confirmed(tx, ask, candidate)? {
        return Ok(RawHistory::Unchanged(held));
    }
    let (instance, execution_id) = (&candidate.instance, candidate.execution_id);
    let read = match history::load_up_to(tx, instance, execution_id, HISTORY_BYTES_MAX)? {
        UpTo::All(events) => {
            let kv = if candidate.has_execution {
                kv::base_up_to(tx, instance, HISTORY_BYTES_MAX)?
            } else {
                Some(HashMap::new())
            };
            if let Some(kv) = kv {
                return Ok(RawHistory::Loaded { events, kv });
            }
            HISTORY_BYTES_MAX
        }
        UpTo::TooLarge { read } => read,
    };
    let Some(last_event_id) = last_event_id(tx, candidate)? else {
        // Key-values without any event: what a person with a shell left.
        return Ok(RawHistory::Loaded {
            events: Vec::new(),
            kv: kv::base(tx, instance)?,
        });
    };
    Ok(RawHistory::Large(LargeHistory {
        instance: instance.clone(),
        incarnation: candidate.handler.as_ref().and_then(|it| it.incarnation),
        execution_id,
        last_event_id,
        read,
    }))
}

/// What the caller holds, if it is exactly the history that is stored, of this life of the instance.
fn confirmed(tx: &Tx<'_>, ask: &Ask, candidate: &Candidate) -> Result<Option<CachedHistory>> {
    let (instance, execution_id) = (&candidate.instance, candidate.execution_id);
    let incarnation = candidate.handler.as_ref().and_then(|it| it.incarnation);
    let held = ask.cached.as_ref().and_then(|held| held.cached(instance));
    let (Some(incarnation), Some(held)) = (incarnation, held) else {
        return Ok(None);
    };
    let current = last_event_id(tx, candidate)?.map(|last_event_id| CachedHistory {
        incarnation,
        execution_id,
        last_event_id,
    });
    Ok(current.filter(|current| *current == held))
}

fn last_event_id(tx: &Tx<'_>, candidate: &Candidate) -> Result<Option<u64>> {
    match candidate.last_event_id {
        Some(known) => Ok(Some(known)),
        None => history::last_event_id(tx, &candidate.instance, candidate.execution_id),
    }
}
