//! What the tasks of this process ask of the group. In: writes, claims, news. Out: one queue of requests.

use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::claims::Waiting;
use super::write::Write;
use crate::calls::claim_turns::{self, RawTurn};
use crate::calls::claim_work::{self, RawWork};
use crate::news::News;

/// What the tasks of this process ask for.
pub(crate) enum Request {
    Write(Write),
    Turns(Waiting<claim_turns::Ask, RawTurn>),
    Work(Waiting<claim_work::Ask, RawWork>),
    /// Something may have become claimable that was not written here.
    Look(News),
    /// A claimed turn whose caller is gone, or cannot use it.
    GiveBackTurn(RawTurn),
    /// A claimed activity whose caller is gone.
    GiveBackWork(RawWork),
    /// The holder of a lease needs it stored before it uses it for something else than its commit.
    Store(Uuid, oneshot::Sender<bool>),
    /// For tests: how long turns that were handed out early are waited for.
    Hold(Duration),
}
