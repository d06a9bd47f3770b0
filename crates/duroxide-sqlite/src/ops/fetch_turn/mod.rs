//! Claims turns. In: how many, for how long, for which code. Out: instances with their visible messages, leased to the
//! caller; or, if there are none, when to look again.
//!
//! The transaction chooses (`choose.rs`), leases, and reads the histories that are small (`load.rs`). A large one is
//! read afterwards (`large_histories.rs` of the crate), and decoding (`decode.rs`) happens in the caller's task. A turn
//! with a large history is claimed alone: others would wait under their leases until it is read.

mod choose;
mod decode;
mod load;
#[cfg(test)]
mod tests;

pub(crate) use decode::decode;
pub(crate) use load::{LargeHistory, RawHistory};

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::rules::lane::{self, Abilities};
use duroxide_core::provider::{
    CLAIM_BYTES_IN_ALL_MAX, CLAIM_MESSAGES_IN_ALL_MAX, CLAIM_MESSAGES_MAX, CachedHistories,
    HandOut, Incarnation, TurnClaim,
};

use self::choose::{Candidate, Chosen, Outlook};
use crate::damage::Damage;
use crate::early::EarlyLease;
use crate::error::{Result, SqliteError};
use crate::ops::claim_attempt::ClaimAttempt;
use crate::ops::steps::STEP_ROWS;
use crate::ops::{delete, note_damage, unknown_instances};
use crate::tables::instances::Handler;
use crate::tables::orchestrator_queue::{ClaimableQueueMessages, ClaimedMessage, MessageBatch};
use crate::tables::{closing, instance_locks, orchestrator_queue};
use crate::token;
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// How many messages of instances that are not started one claim hides or dead-letters at most.
const AWAITING_START_MAX: usize = 1_000;
/// After this many queue messages that it hid a claim leaves the other instances to the next one.
const HIDDEN_MAX: usize = 1_000;
/// After this many bytes of histories a claim leaves the other instances to the next one: they are read on the thread
/// that writes.
const HISTORIES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What the caller asks for.
pub(crate) struct Ask {
    max: usize,
    messages_max: usize,
    lock_timeout: Duration,
    abilities: Abilities,
    cancel_without_code_after: Duration,
    cached: Option<Arc<dyn CachedHistories>>,
    hand_out: HandOut,
    grace: Duration,
}

impl Ask {
    /// How long a claim leases its turns for.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.lock_timeout
    }

    pub(crate) fn new(claim: &TurnClaim, grace: Duration) -> Self {
        Self {
            max: claim.max.max(1),
            messages_max: claim.messages_max.clamp(1, CLAIM_MESSAGES_MAX),
            lock_timeout: claim.lock_timeout,
            abilities: Abilities {
                filter: claim.filter.clone(),
                handlers: claim.handlers.clone(),
            },
            cancel_without_code_after: claim.cancel_without_code_after,
            cached: claim.cached.clone(),
            hand_out: claim.hand_out,
            grace,
        }
    }
}

/// A claimed turn as the transaction left it.
pub(crate) struct RawTurn {
    instance: String,
    token: String,
    handler: Option<Handler>,
    execution_id: u64,
    messages: Vec<ClaimedMessage>,
    incarnation: Option<Incarnation>,
    history: RawHistory,
    /// Whether the read of a large history failed.
    is_unreadable_for_now: bool,
}

impl RawTurn {
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// The history that is still to be read.
    pub(crate) fn large_history(&self) -> Option<&LargeHistory> {
        match &self.history {
            RawHistory::Large(large) => Some(large),
            RawHistory::Unchanged(_) | RawHistory::Loaded { .. } | RawHistory::Damaged(_) => None,
        }
    }

    /// The read of its history failed: it is given back, to be tried again later.
    pub(crate) fn read_failed(&mut self) {
        self.is_unreadable_for_now = true;
    }

    /// Whether a read of its history failed.
    pub(crate) fn is_unreadable_for_now(&self) -> bool {
        self.is_unreadable_for_now
    }

    /// The history was read, or it is known why it cannot be.
    pub(crate) fn set_history(&mut self, history: RawHistory) {
        self.history = history;
    }
}

/// One claim without the way to the caller.
#[cfg(test)]
pub(crate) fn tokens(tx: &mut WriterTx<'_>, ask: &Ask) -> Result<Vec<String>> {
    let claimed = claim(tx, ask)?;
    Ok(claimed.found.into_iter().map(|turn| turn.token).collect())
}

/// Claims as many turns as the caller wants and there are.
pub(crate) fn claim(tx: &mut WriterTx<'_>, ask: &Ask) -> Result<ClaimAttempt<RawTurn>> {
    if ask.abilities.are_none() {
        return Ok(ClaimAttempt::nothing());
    }
    closing::check(tx)?;
    note_damage::run(tx)?;
    let chosen = choose::choose(tx, ask)?;
    // Only turns that are handed out early are claimed with messages that are not rows.
    if chosen.hand_out == HandOut::AfterCommit || chosen.moves_rows() {
        orchestrator_queue::write_all_unwritten(tx)?;
    }
    let mut leaves_some = put_right(tx, ask, &chosen)? || chosen.leaves_some;
    let Chosen {
        candidates,
        outlook,
        hand_out,
        ..
    } = chosen;
    let mut found = Vec::with_capacity(candidates.len());
    let mut leases = Vec::with_capacity(candidates.len());
    let mut bytes = 0;
    let mut hidden = 0;
    let (mut messages, mut message_bytes) = (0, 0);
    for candidate in candidates {
        let is_full =
            messages >= CLAIM_MESSAGES_IN_ALL_MAX || message_bytes >= CLAIM_BYTES_IN_ALL_MAX;
        if bytes > HISTORIES_BYTES_MAX || hidden >= HIDDEN_MAX || is_full {
            leaves_some = true;
            break;
        }
        let taken = take(tx, ask, candidate, hand_out, &mut hidden, found.is_empty())?;
        let (turn, lease) = match taken {
            Taken::Turn(turn, lease) => (turn, lease),
            Taken::HeldBack => {
                leaves_some = true;
                continue;
            }
            Taken::TooLarge { read } => {
                leaves_some = true;
                bytes += read;
                continue;
            }
        };
        bytes += turn.history.bytes();
        messages += turn.messages.len();
        message_bytes += turn
            .messages
            .iter()
            .map(|one| one.json.len())
            .sum::<usize>();
        let is_large = turn.large_history().is_some();
        found.push(turn);
        leases.push(lease);
        if is_large {
            leaves_some = true;
            break;
        }
    }
    let due = if found.is_empty() {
        next_due(tx, ask, &outlook)?
    } else {
        None
    };
    if hand_out == HandOut::BeforeCommit {
        for (turn, lease) in found.iter().zip(leases) {
            tx.writer().in_flight.hand_out(&turn.instance, lease);
        }
    }
    Ok(ClaimAttempt {
        leaves_more: leaves_some || found.len() >= ask.max,
        hand_out,
        found,
        due,
    })
}

/// Puts right what the walk met beside the instances that it chose: hides or dead-letters messages of unknown
/// instances, goes on with deletions, moves messages into the lane where they belong. Returns whether it leaves
/// something to the next claim.
fn put_right(tx: &mut WriterTx<'_>, ask: &Ask, chosen: &Chosen) -> Result<bool> {
    let mut leaves_some = !chosen.held_back.is_empty();
    let mut left = AWAITING_START_MAX;
    for unknown in &chosen.unknown_instances {
        leaves_some |= left == 0 || unknown_instances::settle(tx, unknown, ask.grace, &mut left)?;
    }
    leaves_some |= finish_deletions(tx, &chosen.being_deleted)?;
    for (id, lane) in &chosen.misplaced {
        orchestrator_queue::move_to(tx, *id, lane)?;
    }
    for held_back in &chosen.held_back {
        if held_back.is_cancel {
            orchestrator_queue::defer_cancel(tx, held_back.id)?;
        } else {
            orchestrator_queue::move_to(tx, held_back.id, lane::PAUSED)?;
        }
    }
    Ok(leaves_some)
}

/// Goes on with deletions that stand in the way of new instances, or whose children are not to begin: the process that
/// began them may have died. Returns whether the next claim meets less of them: what cannot be read cannot be deleted,
/// and keeps only those that wait for it.
fn finish_deletions(tx: &mut WriterTx<'_>, instances: &[String]) -> Result<bool> {
    let mut left = STEP_ROWS;
    let mut comes_further = false;
    for instance in instances {
        if left == 0 {
            return Ok(true);
        }
        let swept = delete::sweep(tx, instance, left)?;
        left -= swept.rows;
        comes_further |= swept.comes_further();
    }
    Ok(comes_further)
}

/// When something becomes claimable for this caller without another write.
fn next_due(tx: &WriterTx<'_>, ask: &Ask, outlook: &[Outlook]) -> Result<Option<i64>> {
    let mut due = instance_locks::next_expiry(tx)?
        .into_iter()
        .chain(tx.writer().in_flight.next_expiry())
        .min();
    for lane in outlook {
        let next = match lane {
            Outlook::At(at) => Some(*at),
            Outlook::Unknown(lane) => orchestrator_queue::next_due(tx, lane)?,
        };
        due = earlier(due, next);
    }
    if ask.abilities.handlers.is_some() {
        due = earlier(due, next_old_cancel(tx, ask.cancel_without_code_after)?);
    }
    Ok(due)
}

/// When the next request to cancel has waited so long that any node may carry it out.
fn next_old_cancel(tx: &Tx<'_>, after: Duration) -> Result<Option<i64>> {
    let is_old_by = tx.earlier(after);
    let next = match orchestrator_queue::cancels_from(tx)? {
        i64::MAX => None,
        from if from > is_old_by => Some(from),
        _ => orchestrator_queue::next_cancel(tx, is_old_by)?,
    };
    Ok(next.map(|at| at.saturating_add(crate::tx::duration_ms(after))))
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

/// What became of a candidate.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly always the large one, and never kept"
)]
enum Taken {
    Turn(RawTurn, EarlyLease),
    /// All that the claim met were queue messages that are held back; they are out of sight for the next one.
    HeldBack,
    /// Its history is large, and other turns of the claim would wait under their leases until it is read. It has
    /// waited longest when the next claim comes, which takes it alone. `read` bytes of it were read to find out.
    TooLarge {
        read: usize,
    },
}

/// Takes one candidate. Its lease is written at once, unless the turn is handed out before the commit.
fn take(
    tx: &WriterTx<'_>,
    ask: &Ask,
    mut candidate: Candidate,
    hand_out: HandOut,
    hidden: &mut usize,
    is_first: bool,
) -> Result<Taken> {
    if candidate.messages_await_start {
        orchestrator_queue::end_wait_for_start(tx, &candidate.instance)?;
    }
    let batch = match candidate.early.take() {
        Some(batch) => batch,
        None => {
            let read = messages(tx, ask, &candidate);
            noting_damage(tx, &candidate.instance, Damage::Messages, read)?
        }
    };
    if !batch.to_hide.is_empty() {
        *hidden += batch.to_hide.len();
        orchestrator_queue::hide_queue_messages(tx, &candidate.instance, &batch.to_hide)?;
        if batch.messages.is_empty() {
            return Ok(Taken::HeldBack);
        }
    }
    // The first one is taken however large it is. It is leased first: a claim that has written something when it meets
    // a damaged page runs again at once, and avoids that page.
    let loaded = if is_first {
        None
    } else {
        Some(history(tx, ask, &candidate)?)
    };
    if let Some(RawHistory::Large(large)) = &loaded {
        return Ok(Taken::TooLarge { read: large.read() });
    }
    let memory = tx.writer().memory;
    memory.claimed(&candidate.instance, batch.is_all);
    let token = token::for_turn(&candidate.instance, batch.bounds);
    let lease = EarlyLease {
        token: token.clone(),
        until: tx.later(ask.lock_timeout),
        messages: batch.ids(),
    };
    if hand_out == HandOut::AfterCommit {
        instance_locks::grant(tx, &candidate.instance, &token, lease.until)?;
        let tagged = orchestrator_queue::tag(tx, &lease.messages, &token);
        noting_damage(tx, &candidate.instance, Damage::Messages, tagged)?;
    }
    let incarnation = match &candidate.handler {
        Some(handler) => handler.incarnation,
        None => Some(token::turn(&token)?.next_incarnation),
    };
    let history = match loaded {
        Some(history) => history,
        None => history(tx, ask, &candidate)?,
    };
    let turn = RawTurn {
        incarnation,
        history,
        is_unreadable_for_now: false,
        instance: candidate.instance,
        token,
        handler: candidate.handler,
        execution_id: candidate.execution_id,
        messages: batch.messages,
    };
    Ok(Taken::Turn(turn, lease))
}

fn history(tx: &WriterTx<'_>, ask: &Ask, candidate: &Candidate) -> Result<RawHistory> {
    let instance = &candidate.instance;
    if let Some(Damage::History(detail)) = tx.writer().damaged.get(instance) {
        return Ok(RawHistory::Damaged(SqliteError::Damaged { detail }));
    }
    let loaded = load::history(tx, ask, candidate);
    noting_damage(tx, instance, Damage::History, loaded)
}

/// What the claim takes of the messages of a candidate, and which ones it must hide.
fn messages(tx: &Tx<'_>, ask: &Ask, candidate: &Candidate) -> Result<MessageBatch> {
    let instance = &candidate.instance;
    let claimable = match candidate.hold {
        None => ClaimableQueueMessages::All,
        Some(hold) => orchestrator_queue::claimable_queue_messages(tx, instance, hold)?,
    };
    orchestrator_queue::visible(tx, instance, ask.messages_max, claimable)
}

/// Remembers what cannot be read: the transaction that met it fails as a whole, and the next one avoids it.
fn noting_damage<T>(
    tx: &WriterTx<'_>,
    instance: &str,
    damage: impl FnOnce(String) -> Damage,
    read: Result<T>,
) -> Result<T> {
    if let Err(SqliteError::Damaged { detail }) = &read {
        tx.writer().damaged.add(instance, damage(detail.clone()));
    }
    read
}
