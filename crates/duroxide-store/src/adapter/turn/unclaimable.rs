//! What a claim found and cannot hand out: messages that do not decode, and messages for an unknown instance, which are
//! dead-lettered; messages of a paused instance, which are held back.
//!
//! A start may still be in flight, so messages for an unknown instance wait for a grace period, or for a start that is
//! stored and not due yet; what is older goes to the dead letters.

use std::time::Duration;

use crate::adapter::error::{Error, Result, unless_lost};
use crate::adapter::names::{self, TURNS};
use crate::adapter::{closing, dead_letters, rows};
use crate::atomic::{Batch, Guard, Operation};
use crate::lease::{After, LeaseToken};
use crate::message::{Claimed, LAST_MS, Role, later_ms};
use crate::{EventStore, StoreError};

/// The writes that end one lease, and dead-letter its messages or hold them back. They begin with the release of the
/// lease, which fences them.
#[derive(Debug)]
pub(super) struct Unclaimable {
    pub(super) lease: LeaseToken,
    /// What must hold; if it does not, the lease is given back and the messages come again.
    pub(super) guard: Option<Guard>,
    pub(super) operations: Vec<Operation>,
}

impl Unclaimable {
    fn batch(&self) -> Batch {
        let batch = Batch::of(self.operations.iter().cloned());
        match &self.guard {
            Some(guard) => batch.guarded_by(guard.clone()),
            None => batch,
        }
    }
}

/// Writes all of them in one step. A lease that was taken over, or a guard that does not hold, costs the others
/// nothing.
pub(super) async fn put<S: EventStore>(store: &S, unclaimable: Vec<Unclaimable>) -> Result<()> {
    if unclaimable.is_empty() {
        return Ok(());
    }
    let mut all = Batch::default();
    for one in unclaimable.iter().map(Unclaimable::batch) {
        all.guards.extend(one.guards);
        all.operations.extend(one.operations);
    }
    match closing::commit(store, all).await {
        Err(Error::Store(StoreError::LeaseLost(_) | StoreError::Conflict(_))) => {}
        result => {
            if result.is_err() {
                give_back(
                    store,
                    unclaimable.into_iter().map(|one| one.lease).collect(),
                )
                .await;
            }
            return unless_lost(result);
        }
    }
    for one in unclaimable {
        match closing::commit(store, one.batch()).await {
            Err(Error::Store(StoreError::Conflict(_))) => give_back(store, vec![one.lease]).await,
            result => unless_lost(result)?,
        }
    }
    Ok(())
}

/// Gives leases back, uncounted; what cannot be given back runs out by itself.
pub(super) async fn give_back<S: EventStore>(store: &S, leases: Vec<LeaseToken>) {
    let release = |lease: LeaseToken| Operation::Release {
        lease,
        after: After::Now,
        forgive: true,
    };
    let all = leases.iter().cloned().map(release);
    let given = closing::commit(store, Batch::of(all)).await;
    if let Err(Error::Store(StoreError::LeaseLost(_))) = given {
        for lease in leases {
            let _ = closing::commit(store, Batch::of([release(lease)])).await;
        }
    }
}

/// How a claimed group goes back because its instance is paused; `None` if it is not, or is to be terminated. The group
/// rests until another message comes or the pause ends; the guard sees to it that the pause has not ended already.
pub(super) fn hold_back(claimed: &Claimed) -> Option<Unclaimable> {
    let row = rows::paused(claimed.attached.as_ref())?;
    let mut messages = claimed.messages.iter();
    if messages.any(|message| message.role == Role::UrgentAlarm) {
        return None;
    }
    let release = Operation::Release {
        lease: claimed.token.clone(),
        after: After::QuietMs(LAST_MS),
        forgive: true,
    };
    Some(Unclaimable {
        lease: claimed.token.clone(),
        guard: Some(names::unchanged(&claimed.group, Some(row))),
        operations: vec![release],
    })
}

/// Lets the messages of an unknown instance rest until a start comes, and keeps those that waited too long.
pub(super) fn orphan(now_ms: u64, grace: Duration, claimed: &Claimed) -> Result<Unclaimable> {
    let grace_ms = crate::adapter::ms(grace);
    let ends_at = |enqueued_at| later_ms(enqueued_at, grace_ms);
    let (old, young): (Vec<_>, Vec<_>) = claimed
        .messages
        .iter()
        .partition(|message| !claimed.lead_to_come && ends_at(message.enqueued_at) <= now_ms);
    let rest_ms = if claimed.lead_to_come {
        // The rest ends when the start becomes visible.
        u64::MAX
    } else {
        let oldest = young.iter().map(|message| message.enqueued_at).min();
        oldest.map_or(0, |at| ends_at(at).saturating_sub(now_ms))
    };
    let release = Operation::Release {
        lease: claimed.token.clone(),
        after: After::QuietMs(rest_ms),
        forgive: true,
    };
    // A start that arrived during this claim wants the messages: they are not put to rest behind its back.
    let guard = if old.is_empty() {
        None
    } else {
        Some(Guard::Undisturbed(claimed.token.clone()))
    };
    let ids = old.iter().map(|message| message.id).collect();
    let mut operations = vec![release, Operation::DeleteMessages { queue: TURNS, ids }];
    for message in &old {
        let reason = "no such instance, and none was started within the grace period";
        let origin = dead_letters::stamped(message);
        operations.push(dead_letters::keep(&TURNS, message, reason, origin)?);
    }
    Ok(Unclaimable {
        lease: claimed.token.clone(),
        guard,
        operations,
    })
}
