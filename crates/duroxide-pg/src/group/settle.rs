//! The end of an exchange that took place. In: the batch and the rows of its calls. Out: every write answered, watches
//! notified, and what the group has to know.

use duroxide_core::provider::InstanceOutcome;
use duroxide_core::provider::rules::Refusal;
use tokio::time::Instant;

use super::answers::{Answers, Fate, Rows};
use super::batch::Batch;
use super::exchange_result::ExchangeResult;
use super::write::{Op, Write};
use crate::calls::commit_turn::Commit;
use crate::calls::verdict::Verdict;
use crate::codec::shown_number;
use crate::connection::db::Db;
use crate::error::PgError;
use crate::text;
use crate::watch::{InstanceChange, Watches};

/// Reads what the server answered, notifies the watches, and answers the callers. `asked`: when the server was.
pub(super) fn settle(
    db: &Db,
    watches: &Watches,
    batch: Batch,
    rows: &Rows,
    asked: Instant,
) -> ExchangeResult {
    let mut done = ExchangeResult {
        brought: batch.brings(),
        early: batch.is_strict().then_some(true),
        ..ExchangeResult::default()
    };
    let note_time = |now: Option<i64>| {
        if let Some(now) = now {
            db.expected.note(now, asked);
        }
    };
    let mut answers = Answers::read(&batch, rows, &mut done, note_time);
    done.work.extend(batch.answers_of_borrowers(&done.lent));
    for mut write in batch.writes {
        let answer = match answers.fate_of(&write.op) {
            Fate::Again => {
                done.again.push(write);
                continue;
            }
            Fate::Refused(verdict) => Err(refused(&write.op, verdict)),
            Fate::Done => {
                answer_causes(watches, &mut write.op);
                announce(watches, &write.op, &answers, asked, &mut done);
                Ok(())
            }
        };
        // A failed send: the caller dropped the call.
        let _ = write.reply.send(answer);
    }
    done
}

/// Answers the callers whose messages the turn was decided on.
fn answer_causes(watches: &Watches, op: &mut Op) {
    let (Op::Early(turn, _) | Op::Lease(turn)) = op else {
        return;
    };
    for Write { op, reply, .. } in turn.causes.drain(..) {
        if let Op::Message(message) = &op {
            let instance = text::shown(message.instance.clone());
            watches.announce(&instance, InstanceChange::Started);
        }
        // A failed send: the caller dropped the call.
        let _ = reply.send(Ok(()));
    }
}

/// Notifies the watches of what a write did to its instance, and notes what the group has to know.
fn announce(
    watches: &Watches,
    op: &Op,
    answers: &Answers,
    asked: Instant,
    done: &mut ExchangeResult,
) {
    match op {
        Op::Commit(commit) | Op::Early(_, commit) => {
            if !commit.merely_moves() {
                done.ended.push(commit.instance.clone());
            }
            let change = change(commit, answers);
            watches.announce_answer(&commit.shown_instance, change, asked);
        }
        Op::Message(message) if answers.is_first() && message.is_start() => {
            let instance = text::shown(message.instance.clone());
            watches.announce(&instance, InstanceChange::Started);
        }
        Op::Lease(turn) => done.leased.push((turn.token, true)),
        Op::Message(_) | Op::Work(_) | Op::Ack(_) | Op::RenewTurn { .. } | Op::RenewWork { .. } => {
        }
    }
}

/// What a commit did to its instance.
fn change(commit: &Commit, answers: &Answers) -> InstanceChange {
    match (&commit.ended, answers.end()) {
        (Some(status), Some(end)) => InstanceChange::Ended(InstanceOutcome {
            execution_id: shown_number(commit.execution_id),
            status: status.clone(),
            custom_status: end.custom_status.clone(),
            custom_status_version: end.custom_status_version,
        }),
        _ if commit.merely_moves() => InstanceChange::Progressed,
        _ => InstanceChange::Unknown,
    }
}

/// The error of a write that the server refused.
fn refused(op: &Op, verdict: Verdict) -> PgError {
    let refusal = match verdict {
        Verdict::Held => return PgError::held(),
        Verdict::Expired => expired(op),
        Verdict::Done | Verdict::Unknown | Verdict::Gone | Verdict::Changed => {
            Refusal::InvalidToken
        }
    };
    PgError::Contract(refusal)
}

fn expired(op: &Op) -> Refusal {
    let instance = match op {
        Op::Commit(commit) | Op::Early(_, commit) => &commit.shown_instance,
        Op::RenewTurn { shown_instance, .. } => shown_instance,
        Op::Lease(_) | Op::Ack(_) | Op::Message(_) | Op::Work(_) | Op::RenewWork { .. } => {
            return Refusal::WorkLockExpired;
        }
    };
    Refusal::LockExpired {
        instance: instance.clone(),
    }
}
