//! A claim that ends without a commit. In: a lease, a pause. Out: the claim back at the store, counted or not. Never
//! writes a turn.

use std::time::Duration;

use super::claim_in_hand::ClaimInHand;
use crate::engine::Engine;
use crate::leases::{Attempt, Held, abandon};

/// How long an instance rests that this runtime cannot work on.
pub(super) const INSTANCE_REST: Duration = Duration::from_secs(1);

/// Gives a claim back, to be claimed again at once or after a rest, and does not count it. If that fails too, the lease
/// runs out by itself, and the attempt is excused.
pub(super) async fn give_back(engine: &Engine, lease: Held, rest: Option<Duration>) {
    let given_back = abandon(
        engine.store.as_ref(),
        lease.token(),
        rest,
        Attempt::Uncounted,
    )
    .await;
    if let Err(error) = given_back {
        tracing::debug!(target: "duroxide::runtime", %error, "giving back a claim failed, its lease will run out");
        engine.excuses.add(lease.subject());
    }
    lease.end();
}

/// Gives a claim back whose attempt failed and counts. The next one begins after `pause`, on this node not before; a
/// message that comes meanwhile waits behind those of the claim.
pub(super) async fn try_later(engine: &Engine, claim: ClaimInHand<'_>, pause: Duration) {
    engine
        .not_before
        .set(claim.lease.subject(), claim.stored_incarnation(), pause);
    let lease = claim.lease;
    let (token, rest) = (lease.token(), Some(pause));
    if let Err(error) = abandon(engine.store.as_ref(), token, rest, Attempt::Counted).await {
        tracing::debug!(target: "duroxide::runtime", %error, "giving back a claim failed, its lease will run out");
    }
    lease.end();
}
