//! Claims turns. In: how many, for how long, for which engine versions. Out: instances with their visible messages,
//! leased to the caller; or, if there are none, when to look again.
//!
//! The transaction chooses and leases; decoding happens afterwards in the caller's task. A message that does not
//! decode is then set aside under the same lease.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::event::Event;
use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, DispatcherCapabilityFilter, Incarnation, KvEntry,
    OrchestrationItem, TurnClaim, TurnHistory, WorkItem,
};
use semver::Version;
use tokio::time::Instant;

use crate::ahead::Lease;
use crate::claim::{Handover, Tried};
use crate::codec;
use crate::lobby::Queue;
use crate::ops::orphans::{self, Orphan, Unnamed};
use crate::ops::{abandon_turn, set_aside};
use crate::store::Store;
use crate::tables::instances::Handler;
use crate::tables::orchestrator_queue::Message;
use crate::tables::{executions, history, instance_locks, instances, kv, orchestrator_queue};
use crate::token;
use crate::tx::{Result, Tx};

/// What the caller asks for.
pub(crate) struct Ask {
    max: usize,
    lock_timeout: Duration,
    filter: Option<DispatcherCapabilityFilter>,
    cached: Option<Arc<dyn CachedHistories>>,
    handover: Handover,
    grace: Duration,
}

impl Ask {
    pub(crate) fn new(claim: &TurnClaim, grace: Duration) -> Self {
        Self {
            max: claim.max.max(1),
            lock_timeout: claim.lock_timeout,
            filter: claim.filter.clone(),
            cached: claim.cached.clone(),
            handover: match claim.ahead {
                true => Handover::Ahead,
                false => Handover::Committed,
            },
            grace,
        }
    }

    /// Whether no execution can ever match.
    fn wants_nothing(&self) -> bool {
        self.filter
            .as_ref()
            .is_some_and(|filter| filter.supported_duroxide_versions.is_empty())
    }

    /// Whether the caller can replay an execution begun by this engine version.
    fn accepts(&self, pinned: Option<&Version>) -> bool {
        match (&self.filter, pinned) {
            (Some(filter), Some(pinned)) => filter.is_compatible(pinned),
            (None, _) | (_, None) => true,
        }
    }
}

/// An instance chosen to be claimed.
struct Candidate {
    instance: String,
    /// `None`: no row yet; the name is found in the history or in the batch.
    handler: Option<Handler>,
    execution_id: u64,
    /// Whether anything was ever committed for it.
    has_execution: bool,
    /// Messages that came before the start wait to be claimed with it.
    somebody_awaits: bool,
    /// Its last event, if this process wrote it.
    last_event_id: Option<u64>,
    /// Its messages, if it may be handed out before the claim is committed.
    ahead: Option<Vec<Message>>,
}

/// What a walk over the queue found.
struct Chosen {
    candidates: Vec<Candidate>,
    strays: Vec<Orphan>,
    /// Whether they are all to be handed out ahead, or all after the commit.
    handover: Handover,
    /// Whether an instance was passed over that the next claim may take.
    leaves_some: bool,
}

/// A claimed turn as the transaction left it.
pub(crate) struct RawTurn {
    instance: String,
    token: String,
    handler: Option<Handler>,
    execution_id: u64,
    messages: Vec<Message>,
    incarnation: Option<Incarnation>,
    history: RawHistory,
}

enum RawHistory {
    Unchanged(CachedHistory),
    Loaded {
        events: Vec<Vec<u8>>,
        kv: HashMap<String, KvEntry>,
    },
}

/// Claims, decodes, sets aside what does not decode. Waits until the deadline for something to claim.
pub(crate) async fn run(
    store: &Store,
    ask: &Arc<Ask>,
    deadline: Option<Instant>,
) -> Result<Vec<ClaimedTurn>> {
    loop {
        let step = Arc::clone(ask);
        let step = move |tx: &mut Tx<'_>| claim(tx, &step);
        let undo = |tx: &mut Tx<'_>, raw: &RawTurn| abandon_turn::run(tx, &raw.token, None, true);
        let raw = store.claim(Queue::Turns, deadline, step, undo).await?;
        let nothing_there = raw.is_empty();
        let mut found = Vec::with_capacity(raw.len());
        for raw in raw {
            let (turn, broken) = decode(raw);
            if !broken.is_empty() {
                let token = turn.lock_token.clone();
                store
                    .write_step(move |tx| set_aside::undecodable(tx, &token, &broken))
                    .await?;
            }
            if !turn.item.messages.is_empty() {
                found.push(turn);
            }
        }
        // A claim of which nothing was left says nothing about the instances behind it.
        if !found.is_empty() || nothing_there {
            return Ok(found);
        }
    }
}

/// One claim without the way to the caller.
#[cfg(test)]
pub(crate) fn tokens(tx: &mut Tx<'_>, ask: &Ask) -> Result<Vec<String>> {
    let tried = claim(tx, ask)?;
    Ok(tried.found.into_iter().map(|turn| turn.token).collect())
}

fn claim(tx: &mut Tx<'_>, ask: &Ask) -> Result<Tried<RawTurn>> {
    if ask.wants_nothing() {
        return Ok(Tried::nothing());
    }
    let Chosen {
        candidates,
        strays,
        handover,
        leaves_some,
    } = choose(tx, ask)?;
    for stray in strays {
        orphans::settle(tx, &stray, ask.grace)?;
    }
    let mut found = Vec::with_capacity(candidates.len());
    let mut leases = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let (turn, lease) = take(tx, ask, candidate, handover)?;
        found.push(turn);
        leases.push(lease);
    }
    let mut due = None;
    if found.is_empty() {
        due = orchestrator_queue::next_due(tx)?
            .into_iter()
            .chain(instance_locks::next_expiry(tx)?)
            .chain(tx.aware().and_then(|aware| aware.ahead.next_expiry()))
            .min();
    }
    if let (Handover::Ahead, Some(aware)) = (handover, tx.aware()) {
        for (turn, lease) in found.iter().zip(leases) {
            aware.ahead.hand_out(&turn.instance, lease);
        }
    }
    Ok(Tried {
        leaves_more: leaves_some || found.len() >= ask.max,
        handover,
        found,
        due,
    })
}

/// Walks over instances with visible messages and no valid lease until enough are found. Only reads: rows must not
/// move under the walk. The first one decides whether the claim is handed out ahead; others that cannot go with it are
/// left to the next claim.
fn choose(tx: &Tx<'_>, ask: &Ask) -> Result<Chosen> {
    let mut seen = HashSet::new();
    let mut left = 0;
    let mut chosen = Chosen {
        candidates: Vec::new(),
        strays: Vec::new(),
        handover: ask.handover,
        leaves_some: false,
    };
    orchestrator_queue::walk_claimable(tx, |instance| {
        if seen.contains(instance) {
            return Ok(true);
        }
        seen.insert(instance.to_owned());
        if let Some(aware) = tx.aware() {
            let is_resting = aware.ahead.is_resting(instance);
            chosen.leaves_some |= is_resting;
            if is_resting || aware.ahead.is_out(instance) {
                return Ok(true);
            }
        }
        match examine(tx, ask, instance)? {
            Examined::Stray(stray) => chosen.strays.push(stray),
            Examined::Candidate(candidate, pinned) => {
                if ask.accepts(pinned.as_ref()) && !chosen.consider(candidate) {
                    left += 1;
                }
            }
        }
        // Those that are left are the first of the next claim.
        Ok(chosen.candidates.len() < ask.max && left < ask.max)
    })?;
    Ok(chosen)
}

impl Chosen {
    /// Takes the candidate, or leaves it to the next claim (`false`).
    fn consider(&mut self, candidate: Candidate) -> bool {
        if self.candidates.is_empty() && candidate.ahead.is_none() {
            self.handover = Handover::Committed;
        }
        if self.handover == Handover::Ahead && candidate.ahead.is_none() {
            self.leaves_some = true;
            return false;
        }
        self.candidates.push(candidate);
        true
    }
}

/// An instance that came up in the queue.
enum Examined {
    /// It can be claimed by whoever can replay executions of this engine version.
    Candidate(Candidate, Option<Version>),
    Stray(Orphan),
}

fn examine(tx: &Tx<'_>, ask: &Ask, instance: &str) -> Result<Examined> {
    let known = tx.aware().and_then(|aware| aware.known.of(instance));
    let is_known = known.is_some();
    let last_event_id = known.as_ref().and_then(|known| known.last_event_id);
    let handler = match known {
        Some(known) => Some(known.handler),
        None => instances::handler(tx, instance)?,
    };
    if let Some(handler) = handler {
        let pinned = handler.pinned.clone();
        let candidate = Candidate {
            instance: instance.to_owned(),
            execution_id: handler.execution_id,
            handler: Some(handler),
            has_execution: true,
            somebody_awaits: false,
            last_event_id,
            ahead: match is_known {
                true => harmless(tx, ask, instance)?,
                false => None,
            },
        };
        return Ok(Examined::Candidate(candidate, pinned));
    }
    let latest = executions::latest(tx, instance)?;
    let has_execution = latest.is_some();
    let (execution_id, pinned) = latest.unwrap_or((1, None));
    Ok(match orphans::examine(tx, instance, execution_id)? {
        Unnamed::Unknown(stray) => Examined::Stray(stray),
        Unnamed::Known { somebody_awaits } => {
            let candidate = Candidate {
                instance: instance.to_owned(),
                handler: None,
                execution_id,
                has_execution,
                somebody_awaits,
                last_event_id: None,
                ahead: match !has_execution && !somebody_awaits {
                    true => harmless(tx, ask, instance)?,
                    false => None,
                },
            };
            Examined::Candidate(candidate, pinned)
        }
    })
}

/// The messages of an instance, if none of them can have brought a process down before: they came in the life of this
/// one and were never tried. A turn that is handed out ahead and does that again would never be counted.
fn harmless(tx: &Tx<'_>, ask: &Ask, instance: &str) -> Result<Option<Vec<Message>>> {
    let (Handover::Ahead, Some(aware)) = (ask.handover, tx.aware()) else {
        return Ok(None);
    };
    if !aware.known.trusts(instance) {
        return Ok(None);
    }
    let messages = orchestrator_queue::visible(tx, instance)?;
    let are_new = messages
        .iter()
        .all(|message| message.attempts == 1 && aware.known.is_of_this_life(message.created_at));
    Ok(are_new.then_some(messages))
}

/// Takes one candidate. Its lease is written at once, unless it is to be handed out ahead.
fn take(
    tx: &Tx<'_>,
    ask: &Ask,
    mut candidate: Candidate,
    handover: Handover,
) -> Result<(RawTurn, Lease)> {
    if candidate.somebody_awaits {
        orchestrator_queue::end_wait_for_start(tx, &candidate.instance)?;
    }
    let token = token::for_turn(&candidate.instance, tx.now);
    let messages = match candidate.ahead.take() {
        Some(messages) => messages,
        None => orchestrator_queue::visible(tx, &candidate.instance)?,
    };
    let lease = Lease {
        token: token.clone(),
        until: tx.later(ask.lock_timeout),
        messages: messages.iter().map(|message| message.id).collect(),
    };
    if handover == Handover::Committed {
        instance_locks::grant(tx, &candidate.instance, &token, lease.until)?;
        orchestrator_queue::tag(tx, &lease.messages, &token)?;
    }
    let incarnation = match &candidate.handler {
        Some(handler) => handler.incarnation,
        None => Some(token::turn(&token)?.next_life),
    };
    let turn = RawTurn {
        incarnation,
        history: load_history(tx, ask, &candidate)?,
        instance: candidate.instance,
        token,
        handler: candidate.handler,
        execution_id: candidate.execution_id,
        messages,
    };
    Ok((turn, lease))
}

fn load_history(tx: &Tx<'_>, ask: &Ask, candidate: &Candidate) -> Result<RawHistory> {
    if let Some(held) = confirmed(tx, ask, candidate)? {
        return Ok(RawHistory::Unchanged(held));
    }
    let instance = &candidate.instance;
    Ok(RawHistory::Loaded {
        events: history::load(tx, instance, candidate.execution_id)?,
        kv: match candidate.has_execution {
            true => kv::base(tx, instance)?,
            false => HashMap::new(),
        },
    })
}

/// What the caller holds, if it is exactly the history that is stored, of this life of the instance.
fn confirmed(tx: &Tx<'_>, ask: &Ask, candidate: &Candidate) -> Result<Option<CachedHistory>> {
    let (instance, execution_id) = (&candidate.instance, candidate.execution_id);
    let life = candidate.handler.as_ref().and_then(|it| it.incarnation);
    let held = ask.cached.as_ref().and_then(|held| held.cached(instance));
    let (Some(incarnation), Some(held)) = (life, held) else {
        return Ok(None);
    };
    let stored = match candidate.last_event_id {
        Some(known) => Some(known),
        None => history::last_event_id(tx, instance, execution_id)?,
    };
    let current = stored.map(|last_event_id| CachedHistory {
        incarnation,
        execution_id,
        last_event_id,
    });
    Ok(current.filter(|current| *current == held))
}

/// The turn as the contract hands it out, and the messages that did not decode with the reason.
fn decode(raw: RawTurn) -> (ClaimedTurn, Vec<(i64, String)>) {
    let mut messages = Vec::with_capacity(raw.messages.len());
    let mut message_attempts = Vec::with_capacity(raw.messages.len());
    let mut broken = Vec::new();
    for message in raw.messages {
        match codec::decode_work_item(&message.json) {
            Ok(item) => {
                messages.push(item);
                message_attempts.push(message.attempts);
            }
            Err(reason) => broken.push((message.id, reason)),
        }
    }
    let (events, kv_snapshot, history) = match raw.history {
        RawHistory::Unchanged(held) => {
            (Ok(Vec::new()), HashMap::new(), TurnHistory::Unchanged(held))
        }
        RawHistory::Loaded { events, kv } => (
            codec::decode_events(&raw.instance, &events),
            kv,
            TurnHistory::Loaded,
        ),
    };
    let (events, history_error) = match events {
        Ok(events) => (events, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let (orchestration_name, version) = name(raw.handler, &events, &messages);
    let turn = ClaimedTurn {
        attempt_count: message_attempts.iter().copied().max().unwrap_or(0),
        item: OrchestrationItem {
            instance: raw.instance,
            orchestration_name,
            execution_id: raw.execution_id,
            version,
            history: events,
            messages,
            history_error,
            kv_snapshot,
        },
        lock_token: raw.token,
        message_attempts,
        incarnation: raw.incarnation,
        history,
    };
    (turn, broken)
}

/// Handler name and version: from the row, else from the history, else from the message that starts the instance.
fn name(handler: Option<Handler>, events: &[Event], messages: &[WorkItem]) -> (String, String) {
    let unknown = || "unknown".to_owned();
    if let Some(handler) = handler {
        return (handler.name, handler.version.unwrap_or_else(unknown));
    }
    if let Some(started) = events.iter().find_map(Event::started_handler) {
        return started;
    }
    let from_start = messages.iter().find_map(|message| match message {
        WorkItem::StartOrchestration {
            orchestration,
            version,
            ..
        }
        | WorkItem::ContinueAsNew {
            orchestration,
            version,
            ..
        } => Some((
            orchestration.clone(),
            version.clone().unwrap_or_else(unknown),
        )),
        _ => None,
    });
    from_start.unwrap_or_else(|| ("Unknown".to_owned(), unknown()))
}
