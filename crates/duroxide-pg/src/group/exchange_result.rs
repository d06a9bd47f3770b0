//! What an exchange did, for the group that began it. In: filled by `exchange.rs`, `answers.rs` and `settle.rs`. Out:
//! taken over by the group, piece by piece. Plain data.

use std::time::Duration;

use uuid::Uuid;

use super::loan::Lent;
use super::write::Write;
use crate::calls::claim_turns::{Claimed, RawTurn};
use crate::calls::claim_work::RawWork;
use crate::error::Result;
use crate::news::{News, Queues};

/// How an instance stands after the turn that ended its execution.
pub(super) struct End {
    /// The place of the turn among the commits of the exchange, counted from 1.
    pub(super) place: usize,
    pub(super) custom_status: Option<String>,
    pub(super) custom_status_version: u64,
}

/// What an exchange did.
#[derive(Default)]
pub(super) struct ExchangeResult {
    /// Its number.
    pub(super) exchange: u64,
    /// The smallest key of a turn that it may have written, if that is smaller than the time it began at.
    pub(super) turns_from: Option<i64>,
    /// Writes that the server did not do because of others: the group sends them again.
    pub(super) again: Vec<Write>,
    /// What the writes made claimable.
    pub(super) brought: Queues,
    /// From where on turns can be claimed whose messages came while an earlier turn of their instance ran.
    pub(super) left_behind: News,
    /// What the claims of turns found, by their numbers.
    pub(super) turns: Vec<(u64, Result<Claimed<RawTurn>>)>,
    /// What the claims of activities found, by their numbers.
    pub(super) work: Vec<(u64, Result<Claimed<RawWork>>)>,
    /// Activities that were leased when they were written.
    pub(super) lent: Vec<Lent>,
    /// How long it took, if it looked for something to claim.
    pub(super) looked_for: Option<Duration>,
    /// Instances that ended, as they are stored.
    pub(super) ended: Vec<String>,
    /// Turns that were handed out early, and whether their leases are stored; `false` if that is not known.
    pub(super) leased: Vec<(Uuid, bool)>,
    /// The held instance that its writes needed, if they went by themselves because of it.
    pub(super) tried: Vec<String>,
    /// Instances that it had to wait for too long because another transaction holds them.
    pub(super) held: Vec<String>,
    /// Whether the server stored the turns that were handed out early, if there were any.
    pub(super) early: Option<bool>,
}
