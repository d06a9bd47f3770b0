//! What an exchange did, for the group that began it.

use std::time::Duration;

use uuid::Uuid;

use super::Write;
use super::loan::Lent;
use crate::calls::claim_turns::{Claimed, RawTurn};
use crate::calls::claim_work::RawWork;
use crate::error::Result;
use crate::queues::{News, Queues};

/// How an instance stands after the turn that ended its execution.
pub(super) struct End {
    pub(super) place: usize,
    pub(super) custom_status: Option<String>,
    pub(super) custom_status_version: u64,
}

/// What an exchange did.
#[derive(Default)]
pub(super) struct Done {
    /// Its number.
    pub(super) exchange: u64,
    /// The smallest key of a turn that it may have written, if that is smaller than the time it began at.
    pub(super) turns_from: Option<i64>,
    /// Writes that were held up by others and come again.
    pub(super) again: Vec<Write>,
    /// What the writes made claimable.
    pub(super) brought: Queues,
    /// Turns left messages behind that came while they ran.
    pub(super) left_behind: News,
    pub(super) turns: Vec<(u64, Result<Claimed<RawTurn>>)>,
    pub(super) work: Vec<(u64, Result<Claimed<RawWork>>)>,
    /// Activities that were leased when they were written.
    pub(super) lent: Vec<Lent>,
    /// How long it took, if it looked for something to claim.
    pub(super) looked_for: Option<Duration>,
    /// Instances that ended, as they are stored.
    pub(super) ended: Vec<String>,
    /// Turns that were handed out early, and whether their leases are stored; if that is not known, they are taken for
    /// lost.
    pub(super) leased: Vec<(Uuid, bool)>,
    /// Whether what was handed out early could be stored, if there was any.
    pub(super) early: Option<bool>,
}
