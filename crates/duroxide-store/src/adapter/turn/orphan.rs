//! Messages for an instance that nobody knows. A start may still be in flight, so most kinds wait a grace period;
//! what is older goes to the dead letters. Queue messages alone are dropped.

use std::time::Duration;

use duroxide_core::WorkItem;

use crate::EventStore;
use crate::adapter::dead_letters;
use crate::adapter::error::{Result, unless_lost};
use crate::adapter::names::TURNS;
use crate::atomic::{Batch, Operation};
use crate::lease::After;
use crate::queue::Claimed;

pub(super) async fn put_away<S: EventStore>(
    store: &S,
    grace: Duration,
    claimed: &Claimed,
    items: &[WorkItem],
) -> Result<()> {
    let only_queue = |item: &WorkItem| matches!(item, WorkItem::QueueMessage { .. });
    let operations = if items.iter().all(only_queue) {
        tracing::warn!(
        target: "duroxide::providers::store",
            instance_id = %claimed.group, messages = items.len(),
            "queue messages for an unknown instance dropped"
        );
        remove(claimed, 0, claimed.messages.iter().map(|m| m.id).collect())
    } else {
        wait_or_set_aside(store.now_ms(), grace, claimed)?
    };
    unless_lost(store.commit(Batch::of(operations)).await)
}

/// Gives the instance back and removes messages. The release fences the batch, see `claim::decode`.
fn remove(claimed: &Claimed, rest_ms: u64, ids: Vec<u64>) -> Vec<Operation> {
    let release = Operation::Release {
        lease: claimed.token.clone(),
        after: After::QuietMs(rest_ms),
        forgive: true,
    };
    vec![release, Operation::DeleteMessages { queue: TURNS, ids }]
}

fn wait_or_set_aside(now_ms: u64, grace: Duration, claimed: &Claimed) -> Result<Vec<Operation>> {
    let grace_ms = crate::adapter::ms(grace);
    let (old, young): (Vec<_>, Vec<_>) = claimed
        .messages
        .iter()
        .partition(|message| message.enqueued_at.saturating_add(grace_ms) <= now_ms);
    let oldest = young.iter().map(|message| message.enqueued_at).min();
    let rest_ms = oldest.map_or(0, |at| at.saturating_add(grace_ms).saturating_sub(now_ms));
    let ids = old.iter().map(|message| message.id).collect();
    let mut operations = remove(claimed, rest_ms, ids);
    for message in &old {
        let reason = "no such instance, and none was started within the grace period";
        operations.push(dead_letters::keep(&TURNS, message, reason)?);
    }
    Ok(operations)
}
