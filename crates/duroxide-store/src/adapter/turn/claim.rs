//! Claiming turns. In: what a dispatcher can run. Out: instances with their messages under a lease, ready to run.
//!
//! Messages that do not decode or that belong to no instance are dead-lettered, and the claim goes on: they
//! never cost another instance its turn.

use std::time::Duration;

use duroxide_core::provider::{
    CLAIM_BYTES_IN_ALL_MAX, CLAIM_BYTES_MAX, CLAIM_MESSAGES_IN_ALL_MAX, CLAIM_MESSAGES_MAX,
    CLAIM_QUEUE_MESSAGES_MAX, ClaimedTurn, TurnClaim,
};
use tokio::time::Instant;

use super::open::{self, Sorted};
use super::unclaimable::{self, Unclaimable};
use super::{load, resolve};
use crate::EventStore;
use crate::adapter::error::Result;
use crate::adapter::names::{INSTANCES, TURNS};
use crate::adapter::{StoreProvider, closing, kinds, ms};
use crate::message::{Claim, Claimed};

pub(in crate::adapter) async fn run<S: EventStore>(
    provider: &StoreProvider<S>,
    ask: &TurnClaim,
) -> Result<Vec<ClaimedTurn>> {
    let begun = Instant::now();
    loop {
        let wait = ask.poll_timeout.saturating_sub(begun.elapsed());
        let claimed = closing::claim(&*provider.store, claim_of(ask, wait)).await?;
        let leases: Vec<_> = claimed.iter().map(|one| one.token.clone()).collect();
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        match prepare(provider, ask, claimed).await {
            Ok(turns) if turns.is_empty() => {}
            Ok(turns) => return Ok(turns),
            Err(error) => {
                // An error means that no lease is held. What cannot be given back now runs out by itself.
                unclaimable::give_back(&*provider.store, leases).await;
                return Err(error);
            }
        }
    }
}

fn claim_of(ask: &TurnClaim, wait: Duration) -> Claim {
    let handlers = ask.handlers.as_deref();
    Claim {
        queue: TURNS,
        max: ask.max.max(1),
        lease_ms: ms(ask.lock_timeout),
        wait,
        labels: kinds::replayed_by(ask.filter.as_ref()),
        kinds: kinds::run_by(handlers),
        any_kind_after_ms: handlers.map(|_| ms(ask.cancel_without_code_after)),
        messages_max: ask.messages_max.clamp(1, CLAIM_MESSAGES_MAX),
        bytes_max: CLAIM_BYTES_MAX,
        followers_max: CLAIM_QUEUE_MESSAGES_MAX,
        messages_in_all_max: CLAIM_MESSAGES_IN_ALL_MAX,
        bytes_in_all_max: CLAIM_BYTES_IN_ALL_MAX,
        owner: None,
        attach: Some(INSTANCES.to_owned()),
        guards: Vec::new(),
    }
}

async fn prepare<S: EventStore>(
    provider: &StoreProvider<S>,
    ask: &TurnClaim,
    claimed: Vec<Claimed>,
) -> Result<Vec<ClaimedTurn>> {
    let store = &*provider.store;
    let mut unclaimable: Vec<Unclaimable> = Vec::new();
    let mut opened = Vec::with_capacity(claimed.len());
    let mut nameless = Vec::new();
    for one in claimed {
        if let Some(held_back) = unclaimable::hold_back(&one) {
            unclaimable.push(held_back);
            continue;
        }
        match open::sort(one)? {
            Sorted::Opened(open) => opened.push(open),
            Sorted::Nameless(one) => nameless.push(one),
            Sorted::Broken(broken) => unclaimable.push(broken),
        }
    }
    let mut turns = load::run(provider, ask.cached.as_deref(), opened).await?;
    let resolved = resolve::run(provider, nameless).await?;
    turns.extend(resolved.turns);
    for orphan in &resolved.orphans {
        unclaimable.push(unclaimable::orphan(
            store.now_ms(),
            provider.unknown_instance_grace,
            &orphan.claimed,
        )?);
    }
    match unclaimable::put(store, unclaimable).await {
        // What is ready is not held up by what cannot be handed out; that comes again.
        Err(error) if !turns.is_empty() => {
            tracing::warn!(target: "duroxide::providers::store", %error, "messages could not be dead-lettered or held back");
        }
        result => result?,
    }
    Ok(turns)
}
