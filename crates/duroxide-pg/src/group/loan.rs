//! An activity that is leased when it is written: before it is written, and as the server tells it. `loans.rs` decides
//! who gets which.

use tokio_postgres::Row;
use uuid::Uuid;

/// How a row of `commit_turns` says that it is about an activity that was leased.
pub(super) const LENT: i32 = -1;

/// An activity, by its place among those of the batch, and the claim that gets it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loan {
    pub(super) work: usize,
    pub(super) rider: usize,
    pub(super) token: Uuid,
}

/// An activity that was leased.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lent {
    pub(super) token: Uuid,
    pub(super) id: i64,
    /// Of its instance.
    pub(super) life: Option<i64>,
}

impl Lent {
    pub(super) fn read(row: &Row) -> Option<Self> {
        let token: String = row.try_get(1).ok()?;
        let life: Option<String> = row.try_get(2).ok()?;
        Some(Self {
            token: Uuid::parse_str(&token).ok()?,
            id: row.try_get(3).ok()?,
            life: life.and_then(|life| life.parse().ok()),
        })
    }
}
