//! Noticing that other processes cancelled activities of this node. A commit of this process tells them at once; commits
//! of other processes show in a cheap look at the leases every second or so, where the store can tell, and in the next
//! renewal where it cannot.

use std::sync::Arc;

use crate::engine::Engine;

/// Looks for leases that other processes took away, while anything runs.
pub(crate) async fn watch_leases(engine: Arc<Engine>) {
    let interval = engine.options.activity_cancellation_check_interval;
    let store = engine.store_of_keepers();
    loop {
        let tokens = engine.running.tokens();
        if tokens.is_empty() {
            tokio::select! {
                () = engine.abort.cancelled() => return,
                () = engine.running.first.notified() => {}
            }
        } else {
            match store.lost_work_items(&tokens).await {
                Ok(Some(lost)) => engine.running.cancel_lost(&lost),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(target: "duroxide::runtime::worker", %error, "looking for cancelled activities failed");
                }
            }
        }
        tokio::select! {
            () = engine.abort.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}
