//! Claiming turns. In: what a dispatcher can run. Out: instances with their messages under a lease, ready to run.
//!
//! Messages that cannot be understood or that nobody waits for are put out of the way, and the claim goes on: they
//! never cost another instance its turn.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::{ClaimedTurn, Incarnation, TurnClaim};
use semver::Version;
use tokio::time::Instant;

use super::load::{self, Opened};
use super::orphan;
use crate::EventStore;
use crate::adapter::dead_letters;
use crate::adapter::error::{Result, unless_lost};
use crate::adapter::names::{INSTANCES, TURNS};
use crate::adapter::rows::{self, InstanceRow};
use crate::adapter::token;
use crate::atomic::{Batch, Operation};
use crate::lease::After;
use crate::queue::{Claim, Claimed, Labels, Message};

pub(in crate::adapter) async fn run<S: EventStore>(
    store: &S,
    orphan_grace: Duration,
    ask: &TurnClaim,
) -> Result<Vec<ClaimedTurn>> {
    let begun = Instant::now();
    loop {
        let wait = ask.poll_timeout.saturating_sub(begun.elapsed());
        let claimed = store.claim(claim_of(ask, wait)).await?;
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        let leases: Vec<_> = claimed.iter().map(|one| one.token.clone()).collect();
        match prepare(store, orphan_grace, ask, claimed).await {
            Ok(turns) if turns.is_empty() => {}
            Ok(turns) => return Ok(turns),
            Err(error) => {
                // An error means that no lease is held. What cannot be given back now lapses by itself.
                for lease in &leases {
                    let _ = store.release(lease, After::Now, true).await;
                }
                return Err(error);
            }
        }
    }
}

fn claim_of(ask: &TurnClaim, wait: Duration) -> Claim {
    let labels = match ask.filter.clone() {
        None => Labels::any(),
        Some(filter) => {
            let filter = Arc::new(filter);
            Labels::matching(move |pinned| match pinned {
                None => !filter.supported_duroxide_versions.is_empty(),
                Some(version) => {
                    Version::parse(version).is_ok_and(|version| filter.is_compatible(&version))
                }
            })
        }
    };
    Claim {
        queue: TURNS,
        max: ask.max.max(1),
        lease_ms: super::super::ms(ask.lock_timeout),
        wait,
        labels,
        owner: None,
        attach: Some(INSTANCES.to_owned()),
    }
}

async fn prepare<S: EventStore>(
    store: &S,
    orphan_grace: Duration,
    ask: &TurnClaim,
    claimed: Vec<Claimed>,
) -> Result<Vec<ClaimedTurn>> {
    let mut opened = Vec::with_capacity(claimed.len());
    for one in claimed {
        if let Some(open) = open(store, orphan_grace, one).await? {
            opened.push(open);
        }
    }
    load::run(store, ask.cached.as_deref(), opened).await
}

async fn open<S: EventStore>(
    store: &S,
    orphan_grace: Duration,
    claimed: Claimed,
) -> Result<Option<Opened>> {
    let Some(items) = decode(store, &claimed).await? else {
        return Ok(None);
    };
    let Some(known) = load::resolve(store, &claimed, &items).await? else {
        orphan::put_away(store, orphan_grace, &claimed, &items).await?;
        return Ok(None);
    };
    Ok(Some(Opened {
        claimed,
        items,
        known,
    }))
}

/// Which life of the instance was claimed.
#[derive(Debug, Clone, Copy)]
enum Life {
    /// It does not exist yet.
    Unborn,
    /// Its row is older than lives are, or does not decode.
    Untold,
    Known(Incarnation),
}

fn current_life(claimed: &Claimed) -> Life {
    let Some(row) = &claimed.attached else {
        return Life::Unborn;
    };
    let row = rows::decode::<InstanceRow>(row, || format!("row of instance {}", claimed.group));
    let life = row.ok().and_then(|row| row.life());
    life.map_or(Life::Untold, Life::Known)
}

/// Whether a message was sent to another life of the instance than the one that was claimed. The stamp of a start
/// names its sender.
fn is_of_another_life(message: &Message, item: &WorkItem, life: Life) -> bool {
    let Some(stamp) = token::life_of(message.stamp).filter(|_| !item.is_start()) else {
        return false;
    };
    match life {
        Life::Unborn => true,
        Life::Untold => false,
        Life::Known(life) => stamp != life,
    }
}

/// The messages' content; `None` if some had to be set aside, and the instance was given back to be claimed again.
///
/// The release is the fence of the batch: it fails once somebody else has taken the lease over, but not because the
/// lease has lapsed. A caller that asks for very short leases could otherwise claim the same messages for ever.
async fn decode<S: EventStore>(store: &S, claimed: &Claimed) -> Result<Option<Vec<WorkItem>>> {
    let mut items = Vec::with_capacity(claimed.messages.len());
    let mut broken = Vec::new();
    let life = current_life(claimed);
    for message in &claimed.messages {
        match rows::decode(&message.payload, || format!("message {}", message.id)) {
            Ok(item) if is_of_another_life(message, &item, life) => {
                let reason = "it is for an earlier instance of this id, which was deleted";
                broken.push((message, reason.to_owned()));
            }
            Ok(item) => items.push(item),
            Err(error) => broken.push((message, error.to_string())),
        }
    }
    if broken.is_empty() {
        return Ok(Some(items));
    }
    let mut operations = vec![Operation::Release {
        lease: claimed.token.clone(),
        after: After::Now,
        forgive: true,
    }];
    for (message, reason) in &broken {
        operations.push(dead_letters::keep(&TURNS, message, reason)?);
    }
    operations.push(Operation::DeleteMessages {
        queue: TURNS,
        ids: broken.iter().map(|(message, _)| message.id).collect(),
    });
    unless_lost(store.commit(Batch::of(operations)).await)?;
    Ok(None)
}
