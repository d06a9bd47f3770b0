//! An exchange that is one call (`0019_plain.sql`). In: a batch. Out: the call, if the batch carries one plain turn that was handed out
//! early and nothing else; and what its answer says.
//!
//! The activity that such a turn asks for goes to a worker of this process that rests, leased from the beginning: for all this process
//! knows, nothing has waited longer. The server does nothing if the instance has an inbox; then the exchange is made of the calls that any
//! other is made of, and so it is at once for an instance that is known to have had timers.

use tokio::time::Instant;
use tokio_postgres::Row;

use super::Op;
use super::batch::{Batch, Part, WorkRider};
use super::verdicts::End;
use crate::args::Call;
use crate::error::Result;
use crate::ops::claim_turns::Claimed;
use crate::ops::claim_work::RawWork;
use crate::ops::plain_turn::{Borrower, PlainTurn};
use crate::text;
use crate::time::{duration_ms, shown_ms};

impl Batch {
    /// The call that stores all of it, if there is one.
    pub(super) fn plain_call(&self, expected: i64) -> Option<Call<'_>> {
        let (turn, borrower) = self.plain()?;
        let borrower = borrower.map(|rider| Borrower {
            token: rider.token,
            lock_ms: rider.ask.lock_ms(),
        });
        Some(turn.call(borrower, expected))
    }

    /// The plain turn, and the claim that gets its activity.
    fn plain(&self) -> Option<(PlainTurn<'_>, Option<&WorkRider>)> {
        let [write] = self.writes.as_slice() else {
            return None;
        };
        let Op::Early(early, commit) = &write.op else {
            return None;
        };
        let [cause] = early.causes.as_slice() else {
            return None;
        };
        if early.has_inbox {
            return None;
        }
        let ack = match &cause.op {
            Op::Ack(ack) => Some(ack),
            _ => None,
        };
        let turn = PlainTurn::of(commit, early.known, ack)?;
        let do_rest = self.work.iter().all(|rider| rider.rests.is_some());
        if !self.turns.is_empty() || !do_rest {
            return None;
        }
        let fits = |rider: &&WorkRider| {
            let lane = turn.work().map(|work| &work.lane);
            lane.is_some_and(|lane| rider.plain.contains(lane))
        };
        match (self.work.is_empty(), self.work.iter().find(fits)) {
            (true, _) => Some((turn, None)),
            // What nobody here takes is for others: the server knows whether there are any.
            (false, None) => None,
            (false, borrower) => Some((turn, borrower)),
        }
    }

    /// What the claims got: one of them the activity, the others nothing.
    pub(super) fn lent(&self, work_id: Option<i64>) -> Vec<(u64, Result<Claimed<RawWork>>)> {
        let Some((turn, borrower)) = self.plain() else {
            return Vec::new();
        };
        let now = Instant::now();
        let answer = |rider: &WorkRider| {
            let is_borrower = borrower.is_some_and(|one| one.id == rider.id);
            let work = turn.work().zip(work_id).filter(|_| is_borrower);
            let found = work.map(|(work, id)| RawWork {
                id,
                random: rider.token,
                json: work.json.clone(),
                attempts: 1,
                incarnation: Some(turn.life()),
            });
            // It knows what it knew before.
            let due = rider.rests.flatten();
            let due_ms = due.map_or(i64::MAX, |at| duration_ms(at.duration_since(now)));
            Claimed {
                found: found.into_iter().collect(),
                due_ms: Some(due_ms),
                ..Claimed::new()
            }
        };
        let riders = self.work.iter();
        riders.map(|rider| (rider.id, Ok(answer(rider)))).collect()
    }
}

/// Whether the exchange took place; not, if its only call says so.
pub(super) fn is_done(answers: &[(Part, Vec<Row>)]) -> bool {
    let plain = answers.iter().find(|(part, _)| *part == Part::Plain);
    plain.is_none_or(|(_, rows)| value(rows, "o_is_done") == Some(true))
}

/// The time of the store.
pub(super) fn now(rows: &[Row]) -> Option<i64> {
    value(rows, "o_now")
}

/// The number of the activity that the turn asked for.
pub(super) fn work_id(rows: &[Row]) -> Option<i64> {
    value(rows, "o_work")
}

/// How the instance stands after the turn.
pub(super) fn end(rows: &[Row]) -> Option<End> {
    let version: i64 = value(rows, "o_custom_status_version")?;
    Some(End {
        place: 1,
        custom_status: value(rows, "o_custom_status").map(text::shown),
        custom_status_version: shown_ms(version),
    })
}

fn value<T>(rows: &[Row], column: &str) -> Option<T>
where
    T: for<'r> tokio_postgres::types::FromSql<'r>,
{
    let row = rows.first()?;
    row.try_get::<_, Option<T>>(column).ok().flatten()
}
