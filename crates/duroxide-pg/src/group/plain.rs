//! An exchange that is one call (`0020_plain.sql`). In: a batch. Out: the call, if the batch carries one plain turn
//! that was handed out early and nothing else; and what its answer says.
//!
//! The server does nothing if the instance has an inbox; then the exchange is made of the calls that any other is made
//! of, and so it is at once for an instance that is known to have had timers.

use tokio_postgres::Row;

use super::Op;
use super::batch::{Batch, Part};
use super::done::End;
use super::loan::Lent;
use crate::calls::plain_turn::PlainTurn;
use crate::connection::call::Call;
use crate::text;
use crate::time::shown_ms;

impl Batch {
    /// The call that stores all of it, if there is one.
    pub(super) fn plain_call(&self, expected: i64) -> Option<Call<'_>> {
        let borrower = self.borrowers().first().copied().flatten();
        Some(self.plain()?.call(borrower, expected))
    }

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
        // Claims that nothing is lent to want to be tried.
        let asks = !self.turns.is_empty() || (self.loans.is_empty() && !self.work.is_empty());
        if asks {
            return None;
        }
        PlainTurn::of(commit, early.known, ack)
    }

    /// The activity that was leased by the only call, if one was.
    pub(super) fn plain_loan(&self, rows: &[Row]) -> Option<Lent> {
        Some(Lent {
            token: self.loans.first()?.token,
            id: value(rows, "o_work")?,
            life: Some(self.plain()?.life()),
        })
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
