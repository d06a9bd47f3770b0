//! One exchange with the server. In: a batch. Out: every write answered, and what the claims brought.
//!
//! What fails, fails alone: turns that lost their lease get that answer and the others are sent again; if a statement
//! breaks, each write is tried in a transaction of its own. What a claim cannot read is put to rest (`unreadable.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use deadpool_postgres::Object;
use duroxide_core::provider::rules::Refusal;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::answers::Rows;
use super::batch::{Batch, Part};
use super::exchange_result::ExchangeResult;
use super::held::{held_now, held_work};
use super::not_done::{WayOn, again, fail, undo_early, undo_held_up, untried, without};
use super::settle::settle;
use super::single_call;
use super::unreadable;
use super::write::Op;
use crate::calls::commit_turn::Commit;
use crate::codec::shown_number;
use crate::connection::db::{Db, forget_statements};
use crate::error::PgError;
use crate::news::Queues;
use crate::watch::Watches;

/// The code with which the server refuses an early turn (`0018_early.sql`).
const EARLY_REFUSED: &str = "DX002";
/// How often an exchange that goes write by write waits for rows of somebody else; what is left goes with the next one.
const WAITS_MAX: u32 = 2;
/// How often one exchange is tried again without what its claims could not read.
const REST_ROUNDS_MAX: u32 = 8;

pub(super) async fn run(db: Arc<Db>, watches: Arc<Watches>, batch: Batch) -> ExchangeResult {
    let looks = !batch.turns.is_empty() || (!batch.work.is_empty() && batch.loans.is_empty());
    let begun = Instant::now();
    let (number, turns_from) = (batch.exchange, batch.turns_from());
    let tried = batch.held.clone();
    let mut done = exchange(db, watches, batch).await;
    (done.exchange, done.turns_from, done.tried) = (number, turns_from, tried);
    done.looked_for = looks.then(|| begun.elapsed());
    done
}

async fn exchange(db: Arc<Db>, watches: Arc<Watches>, batch: Batch) -> ExchangeResult {
    match attempt_without_unreadable(&db, &batch).await {
        Ok((rows, asked)) => settle(&db, &watches, batch, &rows, asked),
        Err(ExchangeError::RowLocked(error)) => row_held(&db, &watches, batch, &error).await,
        Err(ExchangeError::EarlyRefused(_, others)) if batch.is_strict() => {
            undo_early(batch, &others)
        }
        Err(ExchangeError::OnePart | ExchangeError::Unreadable(_)) if batch.is_strict() => {
            undo_early(batch, &[])
        }
        // Claims that fail again and again must not be tried again at once.
        Err(ExchangeError::Unreadable(error)) if batch.writes.is_empty() => fail(batch, &error),
        Err(ExchangeError::Whole(error) | ExchangeError::Unreadable(error))
            if batch.size() <= 1 =>
        {
            fail(batch, &error)
        }
        Err(ExchangeError::Whole(error) | ExchangeError::EarlyRefused(error, _)) => {
            fail(batch, &error)
        }
        Err(ExchangeError::OnePart | ExchangeError::Unreadable(_)) => {
            one_by_one(&db, &watches, batch).await
        }
    }
}

/// Another transaction holds a row that a part of the batch needs. Writes that went by themselves because of it have
/// waited long enough; others are sent again without them, once.
async fn row_held(
    db: &Arc<Db>,
    watches: &Arc<Watches>,
    batch: Batch,
    error: &PgError,
) -> ExchangeResult {
    let mut held = if batch.held.is_empty() {
        held_now(db, batch.ops().flat_map(Op::instances).collect()).await
    } else {
        batch.held.clone()
    };
    if held.is_empty() && !batch.is_strict() && batch.size() > 1 {
        let stuck = held_work(db, batch.ops().filter_map(Op::completes).collect()).await;
        if !stuck.is_empty() {
            return without(batch, &stuck, error);
        }
    }
    if let ([write], true) = (batch.writes.as_slice(), held.is_empty()) {
        // A row of another table, or a whole table.
        held.extend(write.op.instances().into_iter().map(str::to_owned));
    }
    let done = match WayOn::of(&batch, &held) {
        WayOn::Undone => undo_held_up(batch),
        WayOn::Answered => fail(batch, error),
        // It learns by itself what is held, in any table.
        WayOn::OneByOne => return one_by_one(db, watches, batch).await,
        WayOn::Again => again(batch),
    };
    ExchangeResult { held, ..done }
}

/// As [`attempt`]. What the claims of the batch could not read is put to rest, and the exchange tried again without it.
async fn attempt_without_unreadable(
    db: &Db,
    batch: &Batch,
) -> std::result::Result<(Rows, Instant), ExchangeError> {
    let mut rounds = 0;
    loop {
        let tried = attempt(db, batch).await;
        rounds += 1;
        let is_unreadable = matches!(tried, Err(ExchangeError::Unreadable(_)));
        if !is_unreadable || rounds > REST_ROUNDS_MAX || !unreadable::rest(db, batch).await {
            return tried;
        }
    }
}

/// Why an exchange did not take place.
enum ExchangeError {
    /// For a reason that holds for each of its parts.
    Whole(PgError),
    /// One of several parts broke.
    OnePart,
    /// Another transaction held a row for too long that one of the parts needs.
    RowLocked(PgError),
    /// The server met a row that it cannot read.
    Unreadable(PgError),
    /// An early turn was refused because its instance has changed; the instances, if the server named them.
    EarlyRefused(PgError, Vec<String>),
}

/// The rows of its calls, and when the server was asked for them.
async fn attempt(db: &Db, batch: &Batch) -> std::result::Result<(Rows, Instant), ExchangeError> {
    let client = db.exchanger().await.map_err(ExchangeError::Whole)?;
    let mut tries = 0;
    let mut may_be_single = true;
    loop {
        let expected = db.expected.now();
        let (parts, calls): (Vec<_>, Vec<_>) = match batch.single_call(expected) {
            Some(call) if may_be_single => (vec![Part::Single], vec![call]),
            _ => batch.calls(expected).into_iter().unzip(),
        };
        let asked = Instant::now();
        let answered = match db.in_time(db.calls(&client, &calls)).await {
            Some(answered) => answered,
            None => {
                drop(Object::take(client));
                return Err(ExchangeError::Whole(db.silent_since_sent()));
            }
        };
        let error = match answered {
            Ok(rows) => {
                let rows: Rows = parts.into_iter().zip(rows).collect();
                may_be_single = single_call::is_done(&rows);
                if may_be_single {
                    return Ok((rows, asked));
                }
                continue;
            }
            Err(error) => error,
        };
        drop(calls);
        if db.may_retry(&error, &mut tries) {
            if forget_statements(&error) {
                client.statement_cache.clear();
            }
            continue;
        }
        if error
            .code()
            .is_some_and(|code| code.code() == EARLY_REFUSED)
        {
            let detail = error.as_db_error().and_then(|told| told.detail());
            let others = detail.and_then(|json| serde_json::from_str(json).ok());
            return Err(ExchangeError::EarlyRefused(
                error.into(),
                others.unwrap_or_default(),
            ));
        }
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return Err(ExchangeError::RowLocked(error.into()));
        }
        let duplicate = error.code() == Some(&SqlState::UNIQUE_VIOLATION);
        let error = PgError::of_sent(error);
        if matches!(error, PgError::Unreadable { .. }) {
            return Err(ExchangeError::Unreadable(error));
        }
        let is_about_all = matches!(
            error,
            PgError::OutOfReach { .. }
                | PgError::Uncertain { .. }
                | PgError::GaveUp { .. }
                | PgError::Closed
        );
        if !is_about_all && (batch.size() > 1 || batch.is_strict()) {
            return Err(ExchangeError::OnePart);
        }
        let error = match (duplicate, batch.commits().first()) {
            (true, Some(commit)) => recorded_event(db, commit).await.unwrap_or(error),
            _ => error,
        };
        return Err(ExchangeError::Whole(error));
    }
}

/// Which event of a turn is recorded already.
async fn recorded_event(db: &Db, commit: &Commit) -> Option<PgError> {
    use tokio_postgres::types::Type;
    let ids: Vec<i64> = commit.events.iter().map(|event| event.id).collect();
    let found = db
        .rows(
            "SELECT min(event_id) FROM {s}.history WHERE instance_id = $1 AND execution_id = $2 AND event_id = ANY ($3)",
            &[
                (&commit.instance, Type::TEXT),
                (&commit.execution_id, Type::INT8),
                (&ids, Type::INT8_ARRAY),
            ],
        )
        .await
        .ok()?;
    let recorded: Option<i64> = found.first()?.try_get(0).ok()?;
    // If none is, the turn has one twice.
    let twice = || {
        let mut seen = std::collections::HashSet::new();
        ids.iter().copied().find(|id| !seen.insert(*id))
    };
    Some(PgError::Contract(Refusal::DuplicateEvent {
        instance: commit.shown_instance.clone(),
        execution_id: shown_number(commit.execution_id),
        event_id: shown_number(recorded.or_else(twice)?),
    }))
}

async fn one_by_one(db: &Arc<Db>, watches: &Arc<Watches>, batch: Batch) -> ExchangeResult {
    let mut done = ExchangeResult::default();
    // Instances that another transaction holds: their writes are sent again later, and the exchange does not wait for
    // each in turn.
    let mut held: HashMap<String, PgError> = HashMap::new();
    let mut waits = 0;
    for write in batch.writes {
        if waits >= WAITS_MAX {
            done.again.push(write);
            continue;
        }
        let touched = write.op.instances();
        let error = touched.iter().find_map(|instance| held.get(*instance));
        if let Some(error) = error {
            let _ = write.reply.send(Err(error.again()));
            continue;
        }
        let touched: Vec<String> = touched.into_iter().map(str::to_owned).collect();
        let alone = Batch::alone(write);
        let one = match attempt(db, &alone).await {
            Ok((rows, asked)) => settle(db, watches, alone, &rows, asked),
            Err(
                ExchangeError::Whole(error)
                | ExchangeError::EarlyRefused(error, _)
                | ExchangeError::Unreadable(error),
            ) => fail(alone, &error),
            Err(ExchangeError::RowLocked(error)) => {
                waits += 1;
                for instance in touched {
                    held.insert(instance, error.again());
                }
                fail(alone, &error)
            }
            Err(ExchangeError::OnePart) => ExchangeResult::default(),
        };
        done.again.extend(one.again);
        done.ended.extend(one.ended);
        done.brought = or(done.brought, one.brought);
        done.left_behind.add(one.left_behind);
        done.leased.extend(one.leased);
    }
    if batch.loans.is_empty() {
        let turns = batch.turns.into_iter().map(Batch::of_turn_claim);
        claims_alone(db, watches, turns, &mut done).await;
        let work = batch.work.into_iter().map(Batch::of_work_claim);
        claims_alone(db, watches, work, &mut done).await;
    } else {
        untried(&mut done, batch.turns, batch.work);
    }
    done.held = held.into_keys().collect();
    done
}

/// Each claim of one queue by itself, so that the caller of one that fails hears why. After one that had to wait for a
/// row of somebody else the others are answered with that, too: they would wait for the same.
async fn claims_alone(
    db: &Arc<Db>,
    watches: &Arc<Watches>,
    claims: impl Iterator<Item = Batch>,
    done: &mut ExchangeResult,
) {
    let mut waited: Option<PgError> = None;
    for alone in claims {
        let one = if let Some(error) = &waited {
            fail(alone, error)
        } else {
            match attempt_without_unreadable(db, &alone).await {
                Ok((rows, asked)) => settle(db, watches, alone, &rows, asked),
                Err(ExchangeError::RowLocked(error)) => {
                    waited = Some(error.again());
                    fail(alone, &error)
                }
                Err(
                    ExchangeError::Whole(error)
                    | ExchangeError::EarlyRefused(error, _)
                    | ExchangeError::Unreadable(error),
                ) => fail(alone, &error),
                Err(ExchangeError::OnePart) => {
                    untried(done, alone.turns, alone.work);
                    continue;
                }
            }
        };
        done.turns.extend(one.turns);
        done.work.extend(one.work);
    }
}

fn or(one: Queues, other: Queues) -> Queues {
    Queues {
        turns: one.turns || other.turns,
        work: one.work || other.work,
    }
}
