//! One exchange with the server. In: a batch. Out: every write answered, and what the claims brought.
//!
//! What fails, fails alone: turns that lost their lease get that answer and the others are sent again; if a statement
//! breaks, each write is tried in a transaction of its own.

use std::collections::HashMap;
use std::sync::Arc;

use deadpool_postgres::Object;
use duroxide_core::provider::InstanceOutcome;
use duroxide_core::provider::rules::Refusal;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::batch::{Batch, Part};
use super::done::Done;
use super::verdicts::{End, found, lost, read_commit, verdicts};
use super::{Op, Write, plain};
use crate::calls::claim_turns::{self, Claimed};
use crate::calls::claim_work;
use crate::calls::commit_turn::Commit;
use crate::connection::db::{Db, forget_statements};
use crate::error::PgError;
use crate::queues::Queues;
use crate::text;
use crate::time::shown_ms;
use crate::watch::{InstanceChange, Watches};

/// How the server tells that a turn cannot be stored with what it was decided on (`0018_early.sql`).
const NOT_EARLY: &str = "DX002";

pub(super) async fn run(db: Arc<Db>, watches: Arc<Watches>, batch: Batch) -> Done {
    let looks = !batch.turns.is_empty() || (!batch.work.is_empty() && batch.loans.is_empty());
    let begun = Instant::now();
    let mut done = exchange(db, watches, batch).await;
    done.looked_for = looks.then(|| begun.elapsed());
    done
}

async fn exchange(db: Arc<Db>, watches: Arc<Watches>, batch: Batch) -> Done {
    match attempt(&db, &batch).await {
        Ok((answers, asked)) => settle(&db, &watches, batch, &answers, asked),
        Err(Trouble::Early(_, others)) if batch.is_strict() => undo_early(batch, &others),
        Err(Trouble::InTheWay(_) | Trouble::Some) if batch.is_strict() => undo_early(batch, &[]),
        Err(Trouble::All(error) | Trouble::InTheWay(error)) if batch.size() <= 1 => {
            fail(batch, &error)
        }
        Err(Trouble::All(error) | Trouble::Early(error, _)) => fail(batch, &error),
        Err(Trouble::InTheWay(_) | Trouble::Some) => one_by_one(&db, &watches, batch).await,
    }
}

/// Why an exchange did not take place.
enum Trouble {
    /// For a reason that holds for each of its parts.
    All(PgError),
    /// One of several parts broke.
    Some,
    /// Another transaction held a row for too long that one of the parts needs.
    InTheWay(PgError),
    /// An instance does not stand as its node took it to; which ones, if that is known.
    Early(PgError, Vec<String>),
}

type Answers = Vec<(Part, Vec<Row>)>;

/// Answers, and when the server was asked for them.
async fn attempt(db: &Db, batch: &Batch) -> std::result::Result<(Answers, Instant), Trouble> {
    let client = db.exchanger().await.map_err(Trouble::All)?;
    let mut tries = 0;
    let mut is_plain = true;
    loop {
        let expected = db.expected.now();
        let (parts, calls): (Vec<_>, Vec<_>) = match batch.plain_call(expected) {
            Some(call) if is_plain => (vec![Part::Plain], vec![call]),
            _ => batch.calls(expected).into_iter().unzip(),
        };
        let asked = Instant::now();
        let answered = match db.in_time(db.calls(&client, &calls)).await {
            Some(answered) => answered,
            None => {
                drop(Object::take(client));
                return Err(Trouble::All(db.silent()));
            }
        };
        let error = match answered {
            Ok(rows) => {
                let answers: Answers = parts.into_iter().zip(rows).collect();
                is_plain = plain::is_done(&answers);
                if is_plain {
                    return Ok((answers, asked));
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
        if error.code().is_some_and(|code| code.code() == NOT_EARLY) {
            let detail = error.as_db_error().and_then(|told| told.detail());
            let others = detail.and_then(|json| serde_json::from_str(json).ok());
            return Err(Trouble::Early(error.into(), others.unwrap_or_default()));
        }
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return Err(Trouble::InTheWay(error.into()));
        }
        let duplicate = error.code() == Some(&SqlState::UNIQUE_VIOLATION);
        let error = PgError::from(error);
        let is_about_all = matches!(
            error,
            PgError::OutOfReach { .. } | PgError::GaveUp { .. } | PgError::Closed
        );
        if !is_about_all && (batch.size() > 1 || batch.is_strict()) {
            return Err(Trouble::Some);
        }
        let error = match (duplicate, batch.commits().first()) {
            (true, Some(commit)) => recorded_event(db, commit).await.unwrap_or(error),
            _ => error,
        };
        return Err(Trouble::All(error));
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
        execution_id: shown_ms(commit.execution_id),
        event_id: shown_ms(recorded.or_else(twice)?),
    }))
}

async fn one_by_one(db: &Arc<Db>, watches: &Arc<Watches>, batch: Batch) -> Done {
    let mut done = Done::default();
    // Instances that another transaction holds: their writes are sent again later, and the exchange does not wait for
    // each in turn.
    let mut held: HashMap<String, PgError> = HashMap::new();
    for write in batch.writes {
        let touched = write.op.instances();
        let error = touched.iter().find_map(|instance| held.get(*instance));
        if let Some(error) = error {
            let _ = write.reply.send(Err(error.again()));
            continue;
        }
        let touched: Vec<String> = touched.into_iter().map(str::to_owned).collect();
        let alone = Batch::alone(write);
        let one = match attempt(db, &alone).await {
            Ok((answers, asked)) => settle(db, watches, alone, &answers, asked),
            Err(Trouble::All(error) | Trouble::Early(error, _)) => fail(alone, &error),
            Err(Trouble::InTheWay(error)) => {
                for instance in touched {
                    held.insert(instance, error.again());
                }
                fail(alone, &error)
            }
            Err(Trouble::Some) => Done::default(),
        };
        done.again.extend(one.again);
        done.ended.extend(one.ended);
        done.brought = or(done.brought, one.brought);
        done.left_behind = or(done.left_behind, one.left_behind);
        done.leased.extend(one.leased);
    }
    for rider in batch.turns {
        done.turns.push((rider.id, Ok(nothing_yet())));
    }
    for rider in batch.work {
        done.work.push((rider.id, Ok(nothing_yet())));
    }
    done
}

/// The claim was not tried; it is at once.
fn nothing_yet<T>() -> Claimed<T> {
    Claimed {
        due_ms: Some(0),
        ..Claimed::new()
    }
}

fn or(one: Queues, other: Queues) -> Queues {
    Queues {
        turns: one.turns || other.turns,
        work: one.work || other.work,
    }
}

/// Nothing was stored. What the turns of `others` were decided on is written as anything else; these turns have lost
/// the lease that they never had. If the server names none of this batch, all of them have: what is sent again must not
/// be refused for ever.
fn undo_early(batch: Batch, others: &[String]) -> Done {
    let is_named = |write: &Write| match &write.op {
        Op::Early(turn, _) | Op::Lease(turn) => others.contains(&turn.instance),
        _ => false,
    };
    let names_some = batch.writes.iter().any(is_named);
    let mut done = Done {
        early: Some(false),
        ..Done::default()
    };
    for Write { op, reply } in batch.writes {
        match op {
            Op::Early(turn, _) | Op::Lease(turn)
                if !names_some || others.contains(&turn.instance) =>
            {
                done.leased.push((turn.token, false));
                done.again.extend(turn.causes);
                // A failed send: the caller dropped the call.
                let _ = reply.send(Err(PgError::Contract(Refusal::InvalidToken)));
            }
            op => done.again.push(Write { op, reply }),
        }
    }
    for rider in batch.turns {
        done.turns.push((rider.id, Ok(nothing_yet())));
    }
    for rider in batch.work {
        done.work.push((rider.id, Ok(nothing_yet())));
    }
    done
}

fn fail(batch: Batch, error: &PgError) -> Done {
    let mut done = Done::default();
    for write in batch.writes {
        if let Op::Early(turn, _) | Op::Lease(turn) = write.op {
            done.leased.push((turn.token, false));
            for cause in turn.causes {
                let _ = cause.reply.send(Err(error.again()));
            }
        }
        // A failed send: the caller dropped the call.
        let _ = write.reply.send(Err(error.again()));
    }
    for rider in batch.turns {
        done.turns.push((rider.id, Err(error.again())));
    }
    for rider in batch.work {
        done.work.push((rider.id, Err(error.again())));
    }
    done
}

/// Reads what was answered, tells those who follow instances, and answers those who wait.
fn settle(
    db: &Db,
    watches: &Watches,
    batch: Batch,
    answers: &[(Part, Vec<Row>)],
    asked: Instant,
) -> Done {
    let mut done = Done {
        brought: batch.brings(),
        ..Done::default()
    };
    let mut commits = Vec::new();
    let mut acks = Vec::new();
    let mut renewed_turns = Vec::new();
    let mut renewed_work = Vec::new();
    let mut ends = Vec::new();
    let mut begun = Vec::new();
    for (part, rows) in answers {
        match part {
            Part::Silent => {}
            Part::Plain => {
                ends.extend(plain::end(rows));
                told(db, plain::now(rows), asked);
                done.lent.extend(batch.plain_loan(rows));
            }
            Part::Commits => {
                for row in rows {
                    read_commit(row, &mut commits, &mut ends, &mut done);
                }
            }
            Part::Messages => {
                begun.extend(rows.iter().filter_map(|row| row.try_get::<_, i32>(0).ok()));
            }
            Part::Acks => acks = verdicts(rows),
            Part::RenewTurns => renewed_turns = verdicts(rows),
            Part::RenewWork => renewed_work = verdicts(rows),
            Part::ClaimTurns(place) => {
                let claimed = claim_turns::read(rows);
                told(db, claimed.as_ref().ok().and_then(|it| it.now), asked);
                done.turns.push((batch.turns[*place].id, claimed));
            }
            Part::ClaimWork(place) => {
                let claimed = claim_work::read(rows);
                told(db, claimed.as_ref().ok().and_then(|it| it.now), asked);
                done.work.push((batch.work[*place].id, claimed));
            }
        }
    }
    done.work.extend(batch.repay(&done.lent));
    let mut places = Places {
        acks: batch.decided_on(),
        ..Places::default()
    };
    let is_held_up = !commits.is_empty();
    if batch.is_strict() {
        done.early = Some(true);
    }
    for mut write in batch.writes {
        let problem = match &write.op {
            // The server takes the whole exchange back if one of these cannot be.
            Op::Early(..) => {
                places.commits += 1;
                None
            }
            Op::Lease(turn) => {
                done.leased.push((turn.token, true));
                None
            }
            Op::Commit(_) => {
                let problem = found(&commits, &mut places.commits);
                if problem.is_none() && is_held_up {
                    done.again.push(write);
                    continue;
                }
                problem
            }
            Op::Ack(_) => found(&acks, &mut places.acks),
            Op::RenewTurn { .. } => found(&renewed_turns, &mut places.turns),
            Op::RenewWork { .. } => found(&renewed_work, &mut places.work),
            Op::Message(_) => {
                places.messages += 1;
                None
            }
            Op::Work(_) => None,
        };
        let answer = match problem {
            Some(problem) => Err(lost(&write.op, &problem)),
            None => {
                let is_first = begun.contains(&places.messages);
                answer_causes(watches, &mut write.op);
                tell(watches, &write.op, places.commits, &ends, is_first, &mut done);
                Ok(())
            }
        };
        // A failed send: the caller dropped the call.
        let _ = write.reply.send(answer);
    }
    done
}

/// Answers those who sent what a turn was decided on.
fn answer_causes(watches: &Watches, op: &mut Op) {
    let (Op::Early(turn, _) | Op::Lease(turn)) = op else {
        return;
    };
    for cause in turn.causes.drain(..) {
        if let Op::Message(message) = &cause.op {
            watches.announce(&text::shown(message.instance.clone()), InstanceChange::Started);
        }
        // A failed send: the caller dropped the call.
        let _ = cause.reply.send(Ok(()));
    }
}

#[derive(Default)]
struct Places {
    commits: usize,
    acks: usize,
    turns: usize,
    work: usize,
    messages: i32,
}

fn told(db: &Db, now: Option<i64>, asked: Instant) {
    if let Some(now) = now {
        db.expected.told(now, asked);
    }
}

/// Tells those who follow an instance what a write did to it.
fn tell(watches: &Watches, op: &Op, place: usize, ends: &[End], is_first: bool, done: &mut Done) {
    match op {
        Op::Commit(commit) | Op::Early(_, commit) => {
            let end = ends.iter().find(|end| end.place == place);
            let news = match (&commit.ended, end) {
                (Some(status), Some(end)) => InstanceChange::Ended(InstanceOutcome {
                    execution_id: shown_ms(commit.execution_id),
                    status: status.clone(),
                    custom_status: end.custom_status.clone(),
                    custom_status_version: end.custom_status_version,
                }),
                _ if commit.merely_moves() => InstanceChange::Progressed,
                _ => InstanceChange::Unknown,
            };
            if !commit.merely_moves() {
                done.ended.push(commit.instance.clone());
            }
            watches.announce(&commit.shown_instance, news);
        }
        // A second start of an instance that is there already begins nothing.
        Op::Message(message) if is_first && message.is_start() => {
            watches.announce(&text::shown(message.instance.clone()), InstanceChange::Started);
        }
        Op::Message(_)
        | Op::Lease(_)
        | Op::Work(_)
        | Op::Ack(_)
        | Op::RenewTurn { .. }
        | Op::RenewWork { .. } => {}
    }
}
