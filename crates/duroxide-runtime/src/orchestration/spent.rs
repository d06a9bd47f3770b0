//! A claim that was tried too often. In: the claim. Out: the claim without the message that is at fault; or the
//! instance ended as poison; or the claim given back, if the code is not here or the store is away.

use duroxide_core::provider::{OrchestrationItem, TurnHistory};

use super::claim::{ClaimInHand, INSTANCE_REST};
use super::commit::give_back;
use super::forced::{self, ForcedEnd};
use super::poison::{self, Isolated};
use super::without_code;
use crate::engine::{Engine, Kept};
use crate::options::OnUnregistered;

/// A claim that was tried more often than it may be.
pub(super) struct Spent<'a> {
    pub(super) claim: ClaimInHand<'a>,
    pub(super) item: OrchestrationItem,
    pub(super) message_attempts: Vec<u32>,
    pub(super) history: TurnHistory,
    pub(super) kept: Option<Kept>,
}

impl Spent<'_> {
    /// Dead-letters the message that is at fault and gives the rest of the claim back to its caller; where none is, the
    /// instance ends as poison. An instance whose code is not here waits for it.
    pub(super) async fn settle(mut self, engine: &Engine) -> Option<Self> {
        let missing = without_code::missing_handler(engine, &self.item);
        if let (Some(handler), OnUnregistered::Wait) = (&missing, engine.options.on_unregistered())
        {
            without_code::handle(engine, self.claim, self.item, handler).await;
            return None;
        }
        // Without its code no message of it is at fault.
        let token = self.claim.lease.token();
        let isolated = match missing {
            Some(_) => Isolated::No,
            None => poison::isolate(engine, token, &mut self.item, &self.message_attempts).await,
        };
        match isolated {
            Isolated::Yes => return Some(self),
            Isolated::No => self.end_as_poison(engine).await,
            Isolated::StoreAway => give_back(engine, self.claim.lease, Some(INSTANCE_REST)).await,
        }
        None
    }

    async fn end_as_poison(self, engine: &Engine) {
        let Self { claim, item, .. } = self;
        let details = poison::details(&item, claim.attempt, engine.options.max_attempts);
        forced::end(engine, claim, item, ForcedEnd::Fail(details)).await;
    }
}
