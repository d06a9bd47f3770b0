//! What the rows of an exchange say about its writes. In: rows. Out: who lost a lease, and how instances stand that
//! have ended.

use duroxide_core::provider::rules::Refusal;
use tokio_postgres::Row;

use super::Op;
use super::done::Done;
use super::loan::{LENT, Lent};
use crate::error::PgError;
use crate::text;
use crate::time::shown_ms;

/// What a row says about an element of a call.
pub(super) struct Verdict {
    place: usize,
    problem: Option<String>,
}

pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    rows.iter()
        .filter_map(|row| {
            Some(Verdict {
                place: usize::try_from(row.try_get::<_, i32>(0).ok()?).ok()?,
                problem: row.try_get(1).ok()?,
            })
        })
        .collect()
}

/// How an instance stands after the turn that ended its execution.
pub(super) struct End {
    pub(super) place: usize,
    pub(super) custom_status: Option<String>,
    pub(super) custom_status_version: u64,
}

pub(super) fn read_commit(
    row: &Row,
    commits: &mut Vec<Verdict>,
    ends: &mut Vec<End>,
    done: &mut Done,
) {
    let place = row.try_get::<_, i32>(0).unwrap_or(0);
    if place == LENT {
        return done.lent.extend(Lent::read(row));
    }
    let problem: Option<String> = row.try_get(1).ok().flatten();
    let Ok(place) = usize::try_from(place) else {
        return;
    };
    match (place, problem) {
        (0, _) => done.left_behind.turns = true,
        (_, Some(problem)) => commits.push(Verdict {
            place,
            problem: Some(problem),
        }),
        (_, None) => ends.push(End {
            place,
            custom_status: row
                .try_get::<_, Option<String>>(2)
                .ok()
                .flatten()
                .map(text::shown),
            custom_status_version: row.try_get::<_, i64>(3).map_or(0, shown_ms),
        }),
    }
}

/// The next element's problem, if it has one.
pub(super) fn found(verdicts: &[Verdict], place: &mut usize) -> Option<String> {
    *place += 1;
    verdicts
        .iter()
        .find(|verdict| verdict.place == *place)
        .and_then(|verdict| verdict.problem.clone())
}

pub(super) fn lost(op: &Op, problem: &str) -> PgError {
    match (problem, op) {
        ("expired", Op::Commit(commit) | Op::Early(_, commit)) => {
            PgError::Contract(Refusal::LockExpired {
                instance: commit.shown_instance.clone(),
            })
        }
        ("expired", Op::RenewTurn { shown_instance, .. }) => {
            PgError::Contract(Refusal::LockExpired {
                instance: shown_instance.clone(),
            })
        }
        ("expired", _) => PgError::Contract(Refusal::WorkLockExpired),
        _ => PgError::Contract(Refusal::InvalidToken),
    }
}
