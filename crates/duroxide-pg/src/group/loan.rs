//! Activities that the server leases when it writes them: what the group asks for ([`Loan`]), and what the server did
//! ([`Lent`]). `lending.rs` decides which claim gets which activity.

use tokio_postgres::Row;
use uuid::Uuid;

/// The place in a row of `commit_turns` that is about an activity which the server leased.
pub(super) const LENT: i32 = -1;

/// An activity, by its place among those of the batch, and the claim that gets it, by its place too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loan {
    pub(super) work: usize,
    pub(super) rider: usize,
    pub(super) token: Uuid,
}

/// An activity that the server leased.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lent {
    pub(super) token: Uuid,
    pub(super) id: i64,
    /// Of its instance.
    pub(super) incarnation: Option<i64>,
}

impl Lent {
    pub(super) fn read(row: &Row) -> Option<Self> {
        let token: String = row.try_get(1).ok()?;
        let incarnation: Option<String> = row.try_get(2).ok()?;
        Some(Self {
            token: Uuid::parse_str(&token).ok()?,
            id: row.try_get(3).ok()?,
            incarnation: incarnation.and_then(|incarnation| incarnation.parse().ok()),
        })
    }
}
