//! Exchanges that did not take place. In: a batch, and why. Out: each of its writes answered or sent again, and each of
//! its claims answered or tried again. Never asks the server.

use duroxide_core::provider::rules::Refusal;

use super::batch::{Batch, TurnRider, WorkRider};
use super::exchange_result::ExchangeResult;
use super::write::{Op, Write};
use crate::calls::claim_turns::Claimed;
use crate::error::PgError;

/// How a batch goes on that had to wait for a row of somebody else.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WayOn {
    /// As ordinary writes: turns that were handed out early are taken back.
    Undone,
    /// It waited for what it was known to need, or is one write: the callers are told.
    Answered,
    /// Each write by itself, so that each is answered.
    OneByOne,
    /// Together, without those that need what is known to be held.
    Again,
}

impl WayOn {
    /// `held`: what is known to be held of what it needs. What was sent again once is not sent again another time: a
    /// row that comes and goes must not keep anybody from an answer.
    pub(super) fn of(batch: &Batch, held: &[String]) -> Self {
        let was_held_up = batch.writes.iter().any(|write| write.was_held_up);
        if batch.is_strict() {
            Self::Undone
        } else if !batch.held.is_empty() || batch.size() <= 1 {
            Self::Answered
        } else if held.is_empty() || was_held_up {
            Self::OneByOne
        } else {
            Self::Again
        }
    }
}

/// All of it is sent again.
pub(super) fn again(mut batch: Batch) -> ExchangeResult {
    for write in &mut batch.writes {
        write.was_held_up = true;
    }
    let mut done = ExchangeResult {
        again: batch.writes,
        ..ExchangeResult::default()
    };
    untried(&mut done, batch.turns, batch.work);
    done
}

/// As [`again`], but for completions of these activities, which are answered: another transaction holds their rows.
pub(super) fn without(mut batch: Batch, stuck: &[i64], error: &PgError) -> ExchangeResult {
    let is_stuck = |write: &mut Write| write.op.completes().is_some_and(|id| stuck.contains(&id));
    for write in batch.writes.extract_if(.., is_stuck) {
        // A failed send: the caller dropped the call.
        let _ = write.reply.send(Err(error.again()));
    }
    again(batch)
}

/// As [`undo_early`], of a batch that had to wait for a row of somebody else: what is sent again goes with nothing that
/// would have it taken back another time.
pub(super) fn undo_held_up(batch: Batch) -> ExchangeResult {
    let mut done = undo_early(batch, &[]);
    for write in &mut done.again {
        write.was_held_up = true;
    }
    done
}

pub(super) fn untried(done: &mut ExchangeResult, turns: Vec<TurnRider>, work: Vec<WorkRider>) {
    let turns = turns.into_iter().map(|rider| (rider.id, Ok(nothing_yet())));
    done.turns.extend(turns);
    let work = work.into_iter().map(|rider| (rider.id, Ok(nothing_yet())));
    done.work.extend(work);
}

/// The claim was not tried; it is at once.
fn nothing_yet<T>() -> Claimed<T> {
    Claimed {
        due_ms: Some(0),
        was_tried: false,
        ..Claimed::new()
    }
}

/// Nothing was stored. What the turns of `others` were decided on is written as anything else; these turns have lost
/// the lease that they never had. If the server names none of this batch, all of them have: what is sent again must not
/// be refused for ever.
pub(super) fn undo_early(batch: Batch, others: &[String]) -> ExchangeResult {
    let is_named = |write: &Write| match &write.op {
        Op::Early(turn, _) | Op::Lease(turn) => others.contains(&turn.instance),
        _ => false,
    };
    let names_some = batch.writes.iter().any(is_named);
    let mut done = ExchangeResult {
        early: Some(false),
        ..ExchangeResult::default()
    };
    for write in batch.writes {
        match write.op {
            Op::Early(turn, _) | Op::Lease(turn)
                if !names_some || others.contains(&turn.instance) =>
            {
                done.leased.push((turn.token, false));
                done.again.extend(turn.causes);
                // A failed send: the caller dropped the call.
                let _ = write
                    .reply
                    .send(Err(PgError::Contract(Refusal::InvalidToken)));
            }
            op => done.again.push(Write { op, ..write }),
        }
    }
    untried(&mut done, batch.turns, batch.work);
    done
}

pub(super) fn fail(batch: Batch, error: &PgError) -> ExchangeResult {
    let mut done = ExchangeResult::default();
    if matches!(error, PgError::Uncertain { .. }) {
        // The answer was lost, and perhaps not the transaction: claims look for what it wrote.
        done.brought = batch.brings();
    }
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

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_was_sent_again_once_because_of_a_held_row_is_answered_the_next_time() {
        let held = ["a".to_owned()];
        let renewal = || {
            let op = Op::RenewWork {
                id: 1,
                token: Uuid::new_v4(),
                for_ms: 1,
            };
            Write::new(op, oneshot::channel().0)
        };
        let batch = Batch {
            writes: vec![renewal(), renewal()],
            ..Batch::default()
        };
        assert_eq!(WayOn::of(&batch, &[]), WayOn::OneByOne);
        assert_eq!(WayOn::of(&batch, &held), WayOn::Again);
        let mut writes = again(batch).again;
        writes.push(renewal());
        let batch = Batch {
            writes,
            ..Batch::default()
        };
        assert_eq!(WayOn::of(&batch, &held), WayOn::OneByOne);
    }
}
