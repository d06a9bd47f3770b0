//! Claims of turns. In: what the caller asks for. Out: a call; from its rows turns as the contract hands them out,
//! lanes to decide about, and when to look again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::event::Event;
use duroxide_core::provider::rules::lane::Abilities;
use duroxide_core::provider::{
    CLAIM_BYTES_IN_ALL_MAX, CLAIM_BYTES_MAX, CLAIM_MESSAGES_IN_ALL_MAX, CLAIM_MESSAGES_MAX,
    CLAIM_QUEUE_MESSAGES_MAX, CachedHistories, CachedHistory, ClaimedTurn, HandOut, Incarnation,
    KvEntry, OrchestrationItem, TurnClaim, TurnHistory, WorkItem,
};
use semver::Version;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::codec;
use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::text::{self, Payload};
use crate::time::{duration_ms, shown_ms};
use crate::token;

/// What the caller asks for.
pub(crate) struct Ask {
    pub(crate) max: usize,
    pub(crate) abilities: Abilities,
    pub(crate) cached: Option<Arc<dyn CachedHistories>>,
    /// Whether turns may be handed out before their messages are stored.
    pub(crate) takes_early: bool,
    lock_ms: i64,
    messages_max: i32,
    cancel_after_ms: Option<i64>,
    grace_ms: i64,
}

impl Ask {
    pub(crate) fn new(claim: &TurnClaim, grace: Duration) -> Self {
        let messages_max = claim.messages_max.clamp(1, CLAIM_MESSAGES_MAX);
        Self {
            max: claim.max.clamp(1, 10_000),
            abilities: Abilities {
                filter: claim.filter.clone(),
                handlers: claim.handlers.clone(),
            },
            cached: claim.cached.clone(),
            takes_early: claim.hand_out == HandOut::BeforeCommit,
            lock_ms: duration_ms(claim.lock_timeout),
            messages_max: i32::try_from(messages_max).unwrap_or(i32::MAX),
            // Also for a caller that has all code: an instance that is paused is terminated all the same.
            cancel_after_ms: Some(duration_ms(claim.cancel_without_code_after)),
            grace_ms: duration_ms(grace),
        }
    }

    /// Whether what this claim did not find the other one would not find either.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let same_code = match (&self.abilities.handlers, &other.abilities.handlers) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_code
            && ranges(&self.abilities) == ranges(&other.abilities)
            && self.cancel_after_ms == other.cancel_after_ms
    }

    pub(crate) fn messages_max(&self) -> usize {
        usize::try_from(self.messages_max).unwrap_or(1)
    }

    pub(crate) fn lock_ms(&self) -> i64 {
        self.lock_ms
    }

    /// `lazy`: the claim is alone in its transaction, and its commit need not wait for the disk.
    pub(crate) fn call<'a>(
        &self,
        fit: &'a [String],
        unfit: &'a [String],
        barred: &'a [String],
        lazy: bool,
        expected: i64,
    ) -> Call<'a> {
        Call::new("claim_turns")
            .int(expected)
            .small(i32::try_from(self.max).unwrap_or(i32::MAX))
            .int(self.lock_ms)
            .texts(fit.iter().map(String::as_str))
            .texts(unfit.iter().map(String::as_str))
            .flag(self.abilities.are_all())
            .texts(barred.iter().map(String::as_str))
            .opt_int(self.cancel_after_ms)
            .small(self.messages_max)
            .int(i64::try_from(CLAIM_BYTES_MAX).unwrap_or(i64::MAX))
            .small(i32::try_from(CLAIM_QUEUE_MESSAGES_MAX).unwrap_or(i32::MAX))
            .small(i32::try_from(CLAIM_MESSAGES_IN_ALL_MAX).unwrap_or(i32::MAX))
            .int(i64::try_from(CLAIM_BYTES_IN_ALL_MAX).unwrap_or(i64::MAX))
            .int(self.grace_ms)
            .flag(lazy)
    }
}

/// The engine versions that a caller can replay; `None` for all.
fn ranges(abilities: &Abilities) -> Option<Vec<(&Version, &Version)>> {
    let ranges = &abilities.filter.as_ref()?.supported_duroxide_versions;
    Some(
        ranges
            .iter()
            .map(|range| (&range.min, &range.max))
            .collect(),
    )
}

/// Up to where a node knows an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownUpTo {
    pub(crate) incarnation: i64,
    pub(crate) execution: i64,
    pub(crate) event: i64,
}

/// A claimed turn as the server left it.
#[derive(Debug)]
pub(crate) struct RawTurn {
    /// As it is stored.
    pub(crate) instance: String,
    pub(crate) random: Uuid,
    ids: Vec<i64>,
    items: Vec<String>,
    attempts: Vec<i32>,
    name: Option<String>,
    version: Option<String>,
    pub(crate) execution_id: i64,
    incarnation: Option<i64>,
    last_event_id: Option<i64>,
    has_execution: bool,
    loaded: Option<Loaded>,
    /// The server's words, if it cannot read the history.
    unreadable: Option<String>,
    /// What the caller holds of it, confirmed.
    held: Option<CachedHistory>,
    is_cold: bool,
}

/// A history and the key-values that its execution began with.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    events: Vec<String>,
    kv: HashMap<String, KvEntry>,
    /// Why it does not decode, if it does not.
    undecodable: Option<String>,
}

impl Loaded {
    /// From four columns beginning at `first`.
    pub(crate) fn read(row: &Row, first: usize) -> Result<Self> {
        let events: Option<Vec<String>> = row.try_get(first)?;
        let keys: Option<Vec<String>> = row.try_get(first + 1)?;
        let values: Option<Vec<String>> = row.try_get(first + 2)?;
        let times: Option<Vec<i64>> = row.try_get(first + 3)?;
        let entries = keys
            .unwrap_or_default()
            .into_iter()
            .zip(values.unwrap_or_default())
            .zip(times.unwrap_or_default());
        Ok(Self {
            events: events.unwrap_or_default(),
            kv: entries
                .map(|((key, value), at)| {
                    let entry = KvEntry {
                        value: text::shown(value),
                        last_updated_at_ms: shown_ms(at),
                    };
                    (text::shown(key), entry)
                })
                .collect(),
            undecodable: None,
        })
    }

    /// A history that came and is no text.
    pub(crate) fn undecodable(why: String) -> Self {
        Self {
            undecodable: Some(why),
            ..Self::default()
        }
    }
}

/// What one claim brought.
#[derive(Debug)]
pub(crate) struct Claimed<T> {
    pub(crate) found: Vec<T>,
    /// Lanes that the caller has not decided about.
    pub(crate) lanes: Vec<String>,
    /// The smallest key of each lane that has rows, if the claim was given marks or walked long.
    pub(crate) first: Vec<(String, i64)>,
    /// Whether `first` says that: of a claim that was not asked and walked short nothing is known.
    pub(crate) tells_first: bool,
    /// Whether the server walked long until it had found them: past rows that were deleted and not vacuumed.
    pub(crate) walked_long: bool,
    /// In how many milliseconds something becomes claimable unless another transaction writes.
    pub(crate) due_ms: Option<i64>,
    /// The time of the store.
    pub(crate) now: Option<i64>,
    /// Messages that became dead letters because no start of their instance came.
    pub(crate) dead: i64,
    /// Whether applications left messages that a node has to move to the queue.
    pub(crate) arrivals: bool,
    /// Whether there is something that only other nodes can claim.
    pub(crate) others: bool,
    /// Whether the server looked at all.
    pub(crate) was_tried: bool,
}

impl<T> Claimed<T> {
    pub(crate) fn new() -> Self {
        Self {
            found: Vec::new(),
            lanes: Vec::new(),
            first: Vec::new(),
            tells_first: false,
            walked_long: false,
            due_ms: None,
            now: None,
            dead: 0,
            arrivals: false,
            others: false,
            was_tried: true,
        }
    }

    /// `at_marks`: the claim was given marks, and so was asked what it sees first in each lane.
    pub(crate) fn asked_for_first(mut self, at_marks: bool) -> Self {
        self.tells_first = at_marks || self.walked_long;
        self
    }
}

pub(crate) fn read(rows: &[Row]) -> Result<Claimed<RawTurn>> {
    let mut claimed = Claimed::new();
    for row in rows {
        match row.try_get::<_, i32>(0)? {
            0 => claimed.found.extend(read_or_log(read_turn(row))),
            1 => claimed
                .lanes
                .extend(read_or_log(row.try_get::<_, String>(1))),
            3 => {
                if let Some(lane) = read_or_log(row.try_get(1)) {
                    claimed.first.push((lane, row.try_get(8)?));
                }
            }
            _ => {
                claimed.now = row.try_get(8)?;
                claimed.due_ms = row.try_get(10)?;
                let more: Vec<i64> = row.try_get(3)?;
                let at = |place: usize| more.get(place).copied().unwrap_or(0);
                (claimed.dead, claimed.arrivals, claimed.others) = (at(0), at(1) > 0, at(2) > 0);
                claimed.walked_long = at(3) > 0;
            }
        }
    }
    Ok(claimed)
}

/// What a row of a claim says. Leases were granted when it comes: one that cannot be read, because bytes of it are no
/// text, must not cost the others of the claim.
pub(crate) fn read_or_log<T>(read: std::result::Result<T, impl Into<PgError>>) -> Option<T> {
    let error: PgError = match read {
        Ok(read) => return Some(read),
        Err(error) => error.into(),
    };
    tracing::error!(target: "duroxide::providers::postgres", code = error.code(), %error, "a row of a claim cannot be read, the others go on; what it stands for waits until it is repaired");
    None
}

fn read_turn(row: &Row) -> Result<RawTurn> {
    Ok(RawTurn {
        instance: row.try_get(1)?,
        random: row.try_get(2)?,
        ids: row.try_get(3)?,
        items: texts(row, 4)?,
        attempts: row.try_get(5)?,
        name: row.try_get::<_, Option<Payload>>(6)?.map(|name| name.0),
        version: row
            .try_get::<_, Option<Payload>>(7)?
            .map(|version| version.0),
        execution_id: row.try_get(8)?,
        incarnation: row.try_get(9)?,
        last_event_id: row.try_get(10)?,
        has_execution: row.try_get(11)?,
        loaded: None,
        unreadable: None,
        held: None,
        is_cold: false,
    })
}

/// A column of payloads.
fn texts(row: &Row, column: usize) -> Result<Vec<String>> {
    let payloads: Vec<Payload> = row.try_get(column)?;
    Ok(payloads.into_iter().map(|payload| payload.0).collect())
}

impl RawTurn {
    /// The first turn of an instance, whose start is not stored yet.
    pub(crate) fn first(instance: &str, token: Uuid, items: Vec<String>) -> Self {
        Self {
            instance: instance.to_owned(),
            random: token,
            // Messages without a row: they decode, because this process encoded them.
            ids: vec![0; items.len()],
            attempts: vec![1; items.len()],
            items,
            name: None,
            version: None,
            execution_id: 1,
            incarnation: None,
            last_event_id: None,
            has_execution: false,
            loaded: None,
            unreadable: None,
            held: None,
            is_cold: false,
        }
    }

    /// The next turn of an instance that its claimer holds up to here.
    pub(crate) fn next(
        instance: &str,
        token: Uuid,
        items: Vec<String>,
        known: KnownUpTo,
        (name, version): (String, Option<String>),
    ) -> Self {
        Self {
            name: Some(name),
            version,
            execution_id: known.execution,
            incarnation: Some(known.incarnation),
            last_event_id: Some(known.event),
            has_execution: true,
            ..Self::first(instance, token, items)
        }
    }

    /// The incarnation of the instance and the code it needs, if it exists.
    pub(crate) fn code(&self) -> Option<(i64, &str, Option<&str>)> {
        let name = self.name.as_deref()?;
        Some((self.incarnation?, name, self.version.as_deref()))
    }

    /// What the caller holds, if it is exactly the history that is stored, of this incarnation of the instance.
    fn confirmed(&self, held: &dyn CachedHistories, shown: &str) -> Option<CachedHistory> {
        let stored = CachedHistory {
            incarnation: Incarnation::from_stored(self.incarnation?)?,
            execution_id: u64::try_from(self.execution_id).ok()?,
            last_event_id: u64::try_from(self.last_event_id?).ok()?,
        };
        held.cached(shown).filter(|held| *held == stored)
    }

    /// Asks the caller what it holds; whether the history has to be loaded all the same.
    pub(crate) fn must_load(&mut self, cached: Option<&dyn CachedHistories>) -> bool {
        let shown = text::shown(self.instance.clone());
        self.held = cached.and_then(|held| self.confirmed(held, &shown));
        self.is_cold = self.held.is_none() && (self.has_execution || self.last_event_id.is_some());
        self.is_cold
    }

    pub(crate) fn load(&mut self, loaded: Loaded) {
        self.loaded = Some(loaded);
        self.is_cold = false;
    }

    /// Its history has to be loaded and cannot be.
    pub(crate) fn cannot_load(&mut self, why: String) {
        self.unreadable = Some(why);
    }

    /// The server's words, if it cannot read the history.
    pub(crate) fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// Whether its history has to be loaded and was not yet.
    pub(crate) fn is_cold(&self) -> bool {
        self.is_cold
    }

    /// The turn as the contract hands it out, and the messages that did not decode with the reason.
    pub(crate) fn decode(self) -> (ClaimedTurn, Vec<(i64, String)>) {
        let instance = text::shown(self.instance.clone());
        let mut messages = Vec::with_capacity(self.items.len());
        let mut message_attempts = Vec::with_capacity(self.items.len());
        let mut broken = Vec::new();
        for ((id, json), attempts) in self.ids.iter().zip(&self.items).zip(&self.attempts) {
            match codec::decode_work_item(json) {
                Ok(item) => {
                    messages.push(item);
                    message_attempts.push(u32::try_from(*attempts).unwrap_or(u32::MAX));
                }
                Err(reason) => broken.push((*id, reason)),
            }
        }
        let loaded = self.loaded.unwrap_or_default();
        let decoded = match loaded.undecodable {
            Some(why) => Err(why),
            None => codec::decode_events(&instance, &loaded.events).map_err(|it| it.to_string()),
        };
        let (events, history_error) = match decoded {
            Ok(events) => (events, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let named = self.name.map(|name| (name, self.version));
        let (orchestration_name, version) = name(named, &events, &messages);
        let turn = ClaimedTurn {
            attempt_count: message_attempts.iter().copied().max().unwrap_or(0),
            lock_token: token::for_turn(&instance, self.random),
            item: OrchestrationItem {
                instance,
                orchestration_name,
                execution_id: codec::shown_number(self.execution_id),
                version,
                history: events,
                messages,
                kv_snapshot: match history_error {
                    None => loaded.kv,
                    Some(_) => HashMap::new(),
                },
                history_error,
            },
            message_attempts,
            incarnation: match self.incarnation {
                Some(stored) => Incarnation::from_stored(stored),
                None => Some(token::next_incarnation(self.random)),
            },
            history: match self.held {
                Some(held) => TurnHistory::Unchanged(held),
                None => TurnHistory::Loaded,
            },
        };
        (turn, broken)
    }
}

/// Handler name and version: from the row, else from the history, else from the message that starts the instance.
fn name(
    row: Option<(String, Option<String>)>,
    events: &[Event],
    messages: &[WorkItem],
) -> (String, String) {
    let unknown = || "unknown".to_owned();
    if let Some((name, version)) = row {
        return (text::shown(name), version.map_or_else(unknown, text::shown));
    }
    if let Some(started) = events.iter().find_map(Event::started_handler) {
        return started;
    }
    let begins = messages.iter().find_map(WorkItem::begins);
    match begins {
        Some((name, version)) => (name.to_owned(), version.map_or_else(unknown, str::to_owned)),
        None => ("Unknown".to_owned(), unknown()),
    }
}
