//! Items on the worker queue that are no activities. They become dead letters; a store without dead letters removes
//! them, with all they say in the log.

use std::time::Duration;

use duroxide_core::WorkItem;

use super::claimed::give_back;
use crate::engine::Engine;
use crate::leases::{Attempt, Held};

/// How long an item that could not be dead-lettered stays unclaimed.
const UNMOVED_ITEM_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn dead_letter(engine: &Engine, lease: Held, item: &WorkItem) {
    let kind = item.kind_name();
    let reason = format!("a {kind} on the worker queue is not an activity");
    let kept = engine
        .store
        .dead_letter_work_item(lease.token(), &reason)
        .await;
    match kept {
        Ok(true) => {
            engine.metrics.record_dead_lettered_message("wrong_kind");
            tracing::error!(target: "duroxide::runtime::worker", %kind, %reason, "a message was dead-lettered");
        }
        Ok(false) => remove(engine, lease.token(), item).await,
        Err(error) => {
            tracing::warn!(target: "duroxide::runtime::worker", %kind, %error, "dead-lettering an item that is not an activity failed, it will come back");
            give_back(engine, lease, Some(UNMOVED_ITEM_PAUSE), Attempt::Counted).await;
            return;
        }
    }
    lease.end();
}

async fn remove(engine: &Engine, lock_token: &str, item: &WorkItem) {
    let text = serde_json::to_string(item).unwrap_or_default();
    tracing::error!(target: "duroxide::runtime::worker", item = %text, "removing an item from the worker queue that is not an activity");
    match engine.store.ack_work_item(lock_token, None).await {
        Ok(()) => engine.metrics.record_dropped_message("wrong_kind"),
        Err(error) => {
            tracing::warn!(target: "duroxide::runtime::worker", %error, "removing it failed");
        }
    }
}
