//! An exchange that is one call (`0020_plain.sql`). In: a batch. Out: the call, if the batch carries one plain turn
//! that was handed out early and nothing else; and what its answer says.
//!
//! The server does nothing if the instance has an inbox; then the group sends the calls of any other exchange. It sends
//! those at once for an instance that has sent itself something, a timer for example.

use tokio_postgres::Row;

use super::batch::{Batch, Part};
use super::exchange_result::End;
use super::loan::Lent;
use super::write::Op;
use crate::calls::plain_turn::PlainTurn;
use crate::codec::shown_number;
use crate::connection::call::Call;
use crate::text;

impl Batch {
    /// The call that stores all of it, if there is one.
    pub(super) fn single_call(&self, expected: i64) -> Option<Call<'_>> {
        let borrower = self.borrowers().first().copied().flatten();
        Some(self.plain()?.call(borrower, expected))
    }

    /// The turn, if it is plain and alone.
    fn plain(&self) -> Option<PlainTurn<'_>> {
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
        // A claim that gets nothing lent has to be tried, by a call of its own.
        let asks = !self.turns.is_empty() || (self.loans.is_empty() && !self.work.is_empty());
        if asks {
            return None;
        }
        PlainTurn::of(commit, early.known, ack)
    }

    /// The activity that was leased by the only call, if one was.
    pub(super) fn single_loan(&self, rows: &[Row]) -> Option<Lent> {
        Some(Lent {
            token: self.loans.first()?.token,
            id: value(rows, "o_work")?,
            incarnation: Some(self.plain()?.incarnation()),
        })
    }
}

/// Whether the exchange took place. A single call may answer that it did nothing.
pub(super) fn is_done(answers: &[(Part, Vec<Row>)]) -> bool {
    let single = answers.iter().find(|(part, _)| *part == Part::Single);
    single.is_none_or(|(_, rows)| value(rows, "o_is_done") == Some(true))
}

/// The time of the store.
pub(super) fn now(rows: &[Row]) -> Option<i64> {
    value(rows, "o_now")
}

/// How the instance stands after the turn.
pub(super) fn end(rows: &[Row]) -> Option<End> {
    let version: i64 = value(rows, "o_custom_status_version")?;
    Some(End {
        place: 1,
        custom_status: value(rows, "o_custom_status").map(text::shown),
        custom_status_version: shown_number(version),
    })
}

fn value<T>(rows: &[Row], column: &str) -> Option<T>
where
    T: for<'r> tokio_postgres::types::FromSql<'r>,
{
    let row = rows.first()?;
    row.try_get::<_, Option<T>>(column).ok().flatten()
}
