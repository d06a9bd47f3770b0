//! Claims: requests that wait until there is something to claim. In: claims of callers, effects of other requests,
//! time. Out: the claims that the writer should try now, and replies that give back what their caller does not take.

mod claim;
mod waiting_claims;

pub(crate) use claim::{ClaimReply, Deadline, GiveBack, claim};
pub(crate) use waiting_claims::WaitingClaims;
