//! Noticing that other processes cancelled activities of this node. A commit of this process notifies them at once;
//! commits of other processes show in a cheap look at the leases every second or so, where the store can tell, and in
//! the next renewal where it cannot.

use std::sync::Arc;

use tokio::time::timeout;

use crate::engine::Engine;

/// Looks for leases that other processes took away, while anything runs.
pub(crate) async fn watch_leases(engine: Arc<Engine>) {
    let interval = engine.options.activity_cancellation_check_interval;
    let store = engine.store_of_keepers();
    loop {
        let tokens = engine.running.tokens();
        if engine.running.is_empty() {
            tokio::select! {
                biased;
                () = engine.abort.cancelled() => return,
                () = engine.running.first.notified() => {}
            }
        } else if !tokens.is_empty() {
            let asked = timeout(
                engine.options.worker_lock_timeout,
                store.lost_work_items(&tokens),
            );
            match asked.await {
                // Without an answer, the next renewal shows it.
                Err(_elapsed) => {}
                Ok(Ok(Some(lost))) => engine.running.cancel_lost(&lost),
                Ok(Ok(None)) => return,
                Ok(Err(error)) => {
                    tracing::debug!(target: "duroxide::runtime::worker", %error, "looking for cancelled activities failed");
                }
            }
        }
        tokio::select! {
            biased;
            () = engine.abort.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}
