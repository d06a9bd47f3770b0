//! Loading claimed turns: history and key-values, read from one state in which no other node has taken the lease over.
//! Until then no other node writes to the instance, so lease, messages and rows belong together, even if the lease
//! run out meanwhile; the commit will find that out.

use std::collections::HashMap;

use duroxide_core::Event;
use duroxide_core::defect::Defect;
use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, KvEntry, OrchestrationItem, TurnHistory,
};

use super::open::Opened;
use crate::adapter::error::{Error, Result};
use crate::adapter::kept::Seen;
use crate::adapter::rows::{self, KvRow};
use crate::adapter::{StoreProvider, names, read};
use crate::atomic::{Answer, Query};
use crate::record::{Entry, Record};
use crate::{EventStore, StoreError};

/// Loads what the turns need; a copy that the caller holds is confirmed by the row that came with the claim. A turn
/// whose lease that another node has taken over meanwhile is left out.
pub(super) async fn run<S: EventStore>(
    provider: &StoreProvider<S>,
    cached: Option<&dyn CachedHistories>,
    opened: Vec<Opened>,
) -> Result<Vec<ClaimedTurn>> {
    let mut turns = Vec::with_capacity(opened.len());
    let mut to_load = Vec::with_capacity(opened.len());
    for mut open in opened {
        if let Some(row) = open.claimed.attached.take() {
            let claimed = &open.claimed;
            provider
                .kept
                .keep(&claimed.token, &claimed.group, Seen::Row(row));
        }
        let held = cached.and_then(|cached| cached.cached(&open.claimed.group));
        match held.filter(|held| open.confirms(held)) {
            Some(held) => turns.push(open.into_turn(TurnHistory::Unchanged(held))),
            None => to_load.push(open),
        }
    }
    if to_load.is_empty() {
        return Ok(turns);
    }
    let asked: Vec<_> = to_load.iter().map(Opened::queries).collect();
    let answers = ask_each(&*provider.store, asked).await?;
    for (mut open, answers) in to_load.into_iter().zip(answers) {
        let content = match answers {
            Ok(answers) => {
                let [lease, events, key_values] =
                    <[Answer; 3]>::try_from(answers).map_err(|_| too_few())?;
                Content::of(lease, events, key_values)?
            }
            Err(reason) => {
                open.known.error = Some(reason);
                Content::nothing()
            }
        };
        if !content.is_taken_over() {
            turns.push(content.into_turn(open));
        }
    }
    Ok(turns)
}

pub(super) fn too_few() -> Error {
    Error::Store(StoreError::Permanent(
        "the store gave too few answers".to_owned(),
    ))
}

/// Asks all at once. If something stored cannot be read, asks one by one: only its own instance is hit, by the reason.
pub(super) async fn ask_each<S: EventStore>(
    store: &S,
    asked: Vec<Vec<Query>>,
) -> Result<Vec<std::result::Result<Vec<Answer>, String>>> {
    let all = asked.iter().flatten().cloned().collect();
    match store.query(all).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            let counts = asked.iter().map(Vec::len);
            Ok(counts
                .map(|count| Ok(answers.by_ref().take(count).collect()))
                .collect())
        }
        Err(StoreError::Corrupt(_)) => {
            let mut found = Vec::with_capacity(asked.len());
            for queries in asked {
                found.push(match store.query(queries).await {
                    Ok(answers) => Ok(answers),
                    Err(StoreError::Corrupt(reason)) => Err(reason),
                    Err(error) => return Err(error.into()),
                });
            }
            Ok(found)
        }
        Err(error) => Err(error.into()),
    }
}

/// What the store holds of a claimed instance.
#[derive(Debug)]
pub(super) struct Content {
    ours: bool,
    events: Vec<Record>,
    key_values: Vec<Entry>,
}

impl Content {
    pub(super) fn of(lease: Answer, events: Answer, key_values: Answer) -> Result<Self> {
        Ok(Self {
            ours: lease.into_lease()?.is_some(),
            events: events.into_events()?,
            key_values: key_values.into_entries()?,
        })
    }

    pub(super) fn nothing() -> Self {
        Self {
            ours: true,
            events: Vec::new(),
            key_values: Vec::new(),
        }
    }

    pub(super) fn is_taken_over(&self) -> bool {
        !self.ours
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn history(&self, instance: &str, execution: u64) -> Result<Vec<Event>> {
        let events = self.events.iter();
        events
            .map(|record| read::decode_event(instance, execution, record))
            .collect()
    }

    pub(super) fn into_turn(self, open: Opened) -> ClaimedTurn {
        let instance = &open.claimed.group;
        let content = match &open.known.error {
            Some(error) => Err(error.clone()),
            None => self.decode(instance, open.known.execution),
        };
        let mut turn = open.into_turn(TurnHistory::Loaded);
        match content {
            Ok((history, kv_snapshot)) => {
                turn.item.history = history;
                turn.item.kv_snapshot = kv_snapshot;
            }
            Err(error) => turn.item.history_error = Some(error),
        }
        turn
    }

    fn decode(
        &self,
        instance: &str,
        execution: u64,
    ) -> std::result::Result<(Vec<Event>, HashMap<String, KvEntry>), String> {
        let history = self.history(instance, execution);
        let history = history.map_err(|error| error.to_string())?;
        let mut snapshot = snapshot(instance, &self.key_values);
        if Defect::SnapshotOfCurrent.is_on()
            && let Ok(snapshot) = &mut snapshot
        {
            defective_key_values(snapshot, &history);
        }
        Ok((history, snapshot.map_err(|error| error.to_string())?))
    }
}

/// Puts what the running execution has set among the key-values that it began with.
fn defective_key_values(snapshot: &mut HashMap<String, KvEntry>, history: &[Event]) {
    for event in history {
        if let duroxide_core::EventKind::KeyValueSet { key, value, .. } = &event.kind {
            let value = KvEntry {
                value: value.clone(),
                last_updated_at_ms: event.timestamp_ms,
            };
            snapshot.insert(key.clone(), value);
        }
    }
}

impl Opened {
    /// Whether the caller's copy is of this life and ends where the store's history does.
    fn confirms(&self, held: &CachedHistory) -> bool {
        let mut is_same_incarnation = held.incarnation == self.known.incarnation;
        is_same_incarnation |= Defect::OldFutureAfterRestart.is_on();
        self.known.error.is_none()
            && self.known.last_event > 0
            && is_same_incarnation
            && held.execution_id == self.known.execution
            && held.last_event_id == self.known.last_event
    }

    fn queries(&self) -> Vec<Query> {
        vec![
            Query::Lease {
                token: self.claimed.token.clone(),
            },
            Query::Events {
                entity: self.claimed.group.clone(),
                partition: self.known.execution,
                from: 0,
                limit: usize::MAX,
            },
            Query::all_entries(names::kv_base(&self.claimed.group)),
        ]
    }

    fn into_turn(self, history: TurnHistory) -> ClaimedTurn {
        let attempts = self.claimed.messages.iter().map(|m| m.attempts);
        let message_attempts: Vec<u32> = attempts.collect();
        ClaimedTurn {
            lock_token: self.lock_token().write(),
            incarnation: Some(self.known.incarnation),
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
