//! Loading a claimed turn: who the instance is, its history and its key-values, read from one state in which nobody
//! has taken the lease over. Until then nobody else writes to the instance, so lease, messages and rows belong
//! together, even if the lease lapsed meanwhile; the commit will find that out.

use std::collections::HashMap;

use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, Incarnation, KvEntry, OrchestrationItem,
    TurnHistory,
};
use duroxide_core::{Event, INITIAL_EXECUTION_ID, WorkItem};

use crate::EventStore;
use crate::adapter::error::Result;
use crate::adapter::rows::{self, InstanceRow, KvRow};
use crate::adapter::token::TurnToken;
use crate::adapter::{names, read, token};
use crate::atomic::{Answer, Query};
use crate::log::Record;
use crate::metadata::Entry;
use crate::queue::Claimed;

/// A claimed instance whose messages decode and which is known.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) claimed: Claimed,
    pub(super) items: Vec<WorkItem>,
    pub(super) known: Known,
}

/// Who an instance is.
#[derive(Debug)]
pub(super) struct Known {
    name: String,
    version: String,
    execution: u64,
    /// Its life; without a row, the one that the commit of this turn gives it.
    life: Incarnation,
    /// Why its row does not decode.
    error: Option<String>,
}

/// Who the claimed instance is: from its row, else from its history, else from a start among the messages.
pub(super) async fn resolve<S: EventStore>(
    store: &S,
    claimed: &Claimed,
    items: &[WorkItem],
) -> Result<Option<Known>> {
    let instance = &claimed.group;
    if let Some(row) = &claimed.attached {
        let row = rows::decode::<InstanceRow>(row, || format!("row of instance {instance}"));
        return Ok(Some(match row {
            Ok(row) => Known {
                life: row.life().unwrap_or_else(token::new_life),
                ..Known::new(row.name, row.version, row.execution)
            },
            Err(error) => Known {
                error: Some(error.to_string()),
                ..Known::nameless(INITIAL_EXECUTION_ID)
            },
        }));
    }
    let execution = read::latest_execution(store, instance).await?;
    let history = read::records(store, instance, execution).await?;
    if !history.is_empty() {
        let events = decode_history(instance, execution, &history).unwrap_or_default();
        let handler = events.iter().find_map(Event::started_handler);
        return Ok(Some(match handler {
            Some((name, version)) => Known::new(name, version, execution),
            None => started_by(items).unwrap_or_else(|| Known::nameless(execution)),
        }));
    }
    Ok(started_by(items))
}

fn started_by(items: &[WorkItem]) -> Option<Known> {
    items.iter().find_map(|item| match item {
        WorkItem::StartOrchestration {
            orchestration,
            version,
            ..
        }
        | WorkItem::ContinueAsNew {
            orchestration,
            version,
            ..
        } => Some(Known::new(
            orchestration.clone(),
            version.clone().unwrap_or_else(|| "unknown".to_owned()),
            INITIAL_EXECUTION_ID,
        )),
        _ => None,
    })
}

impl Known {
    fn new(name: String, version: String, execution: u64) -> Self {
        Self {
            name,
            version,
            execution,
            life: token::new_life(),
            error: None,
        }
    }

    /// History without a beginning: delivered all the same, so that the runtime can fail it for good.
    fn nameless(execution: u64) -> Self {
        Self::new("Unknown".to_owned(), "unknown".to_owned(), execution)
    }
}

/// Loads what the turns need. A turn whose lease somebody else has taken over meanwhile is left out.
pub(super) async fn run<S: EventStore>(
    store: &S,
    cached: Option<&dyn CachedHistories>,
    opened: Vec<Opened>,
) -> Result<Vec<ClaimedTurn>> {
    let mut turns = Vec::with_capacity(opened.len());
    let mut to_load = Vec::with_capacity(opened.len());
    match cached {
        Some(cached) => {
            for (open, unchanged) in confirm(store, cached, opened).await? {
                match unchanged {
                    Some(held) => turns.push(open.into_turn(TurnHistory::Unchanged(held))),
                    None => to_load.push(open),
                }
            }
        }
        None => to_load = opened,
    }
    let queries = to_load.iter().flat_map(Opened::queries).collect::<Vec<_>>();
    if queries.is_empty() {
        return Ok(turns);
    }
    let mut answers = store.query(queries).await?.into_iter();
    for open in to_load {
        let lease = next(&mut answers)?.into_lease()?;
        let history = next(&mut answers)?.into_events()?;
        let key_values = next(&mut answers)?.into_entries()?;
        if lease.is_some() {
            turns.push(open.loaded(&history, &key_values));
        }
    }
    Ok(turns)
}

/// Asks whether the caller's copies are current; a copy is if it is of this life and its last event is the last one
/// stored.
async fn confirm<S: EventStore>(
    store: &S,
    cached: &dyn CachedHistories,
    opened: Vec<Opened>,
) -> Result<Vec<(Opened, Option<CachedHistory>)>> {
    let hints: Vec<_> = opened
        .iter()
        .map(|open| {
            let hint = cached.cached(&open.claimed.group)?;
            let same_life = hint.incarnation == open.known.life;
            let same = same_life && hint.execution_id == open.known.execution;
            (same && open.known.error.is_none()).then_some(hint)
        })
        .collect();
    let mut queries = Vec::new();
    for (open, hint) in opened.iter().zip(&hints) {
        if let Some(held) = hint {
            queries.push(open.lease_query());
            queries.push(open.events_query(held.last_event_id, 2));
        }
    }
    if queries.is_empty() {
        return Ok(opened.into_iter().map(|open| (open, None)).collect());
    }
    let mut answers = store.query(queries).await?.into_iter();
    let mut confirmed = Vec::with_capacity(opened.len());
    for (open, hint) in opened.into_iter().zip(hints) {
        let Some(held) = hint else {
            confirmed.push((open, None));
            continue;
        };
        let ours = next(&mut answers)?.into_lease()?.is_some();
        let tail = next(&mut answers)?.into_events()?;
        let current = matches!(tail.as_slice(), [only] if only.number == held.last_event_id);
        confirmed.push((open, (ours && current).then_some(held)));
    }
    Ok(confirmed)
}

fn next(answers: &mut impl Iterator<Item = Answer>) -> Result<Answer> {
    let missing = || crate::StoreError::Permanent("the store gave too few answers".to_owned());
    Ok(answers.next().ok_or_else(missing)?)
}

impl Opened {
    fn lease_query(&self) -> Query {
        Query::Lease {
            token: self.claimed.token.clone(),
        }
    }

    fn events_query(&self, from: u64, limit: usize) -> Query {
        Query::Events {
            entity: self.claimed.group.clone(),
            partition: self.known.execution,
            from,
            limit,
        }
    }

    fn queries(&self) -> [Query; 3] {
        [
            self.lease_query(),
            self.events_query(0, usize::MAX),
            Query::all_entries(names::kv_base(&self.claimed.group)),
        ]
    }

    fn lock_token(&self) -> TurnToken<'_> {
        let mut started = self.claimed.messages.iter().zip(&self.items);
        let started = started.find(|(_, item)| matches!(item, WorkItem::StartOrchestration { .. }));
        TurnToken {
            lease: self.claimed.token.clone(),
            instance: &self.claimed.group,
            life: Some(self.known.life),
            parent_life: started.and_then(|(message, _)| token::life_of(message.stamp)),
        }
    }

    fn loaded(self, history: &[Record], key_values: &[Entry]) -> ClaimedTurn {
        let instance = &self.claimed.group;
        let history = match &self.known.error {
            Some(error) => Err(error.clone()),
            None => decode_history(instance, self.known.execution, history)
                .map_err(|error| error.to_string()),
        };
        let content = history.and_then(|history| {
            let key_values = snapshot(instance, key_values).map_err(|error| error.to_string())?;
            Ok((history, key_values))
        });
        let mut turn = self.into_turn(TurnHistory::Loaded);
        match content {
            Ok((history, kv_snapshot)) => {
                turn.item.history = history;
                turn.item.kv_snapshot = kv_snapshot;
            }
            Err(error) => turn.item.history_error = Some(error),
        }
        turn
    }

    fn into_turn(self, history: TurnHistory) -> ClaimedTurn {
        let attempts = self.claimed.messages.iter().map(|m| m.attempts);
        let message_attempts: Vec<u32> = attempts.collect();
        ClaimedTurn {
            lock_token: self.lock_token().write(),
            incarnation: Some(self.known.life),
            attempt_count: message_attempts.iter().copied().max().unwrap_or(1),
            message_attempts,
            history,
            item: OrchestrationItem {
                instance: self.claimed.group,
                orchestration_name: self.known.name,
                execution_id: self.known.execution,
                version: self.known.version,
                history: Vec::new(),
                messages: self.items,
                history_error: None,
                kv_snapshot: HashMap::new(),
            },
        }
    }
}

fn decode_history(instance: &str, execution: u64, records: &[Record]) -> Result<Vec<Event>> {
    records
        .iter()
        .map(|record| read::decode_event(instance, execution, record))
        .collect()
}

fn snapshot(instance: &str, entries: &[Entry]) -> Result<HashMap<String, KvEntry>> {
    let mut snapshot = HashMap::with_capacity(entries.len());
    for entry in entries {
        let row: KvRow = rows::decode(&entry.value, || {
            format!("key {} of instance {instance}", entry.key)
        })?;
        if let Some(value) = row.value {
            let last_updated_at_ms = row.at;
            let value = KvEntry {
                value,
                last_updated_at_ms,
            };
            snapshot.insert(entry.key.clone(), value);
        }
    }
    Ok(snapshot)
}
