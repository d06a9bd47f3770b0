//! The time limits of one attempt. In: the limits and the heartbeats. Out: the limit that was exceeded, when it is.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{AttemptLimits, Timeout};
use tokio::sync::Notify;

/// Resolves when an attempt exceeds one of its limits.
pub(super) async fn exceeded(limits: AttemptLimits, beats: Arc<Notify>) -> (Timeout, Duration) {
    let too_long = async {
        match limits.start_to_close {
            Some(limit) => {
                tokio::time::sleep(limit).await;
                (Timeout::StartToClose, limit)
            }
            None => std::future::pending().await,
        }
    };
    let silent = async {
        let Some(limit) = limits.heartbeat else {
            return std::future::pending().await;
        };
        while tokio::time::timeout(limit, beats.notified()).await.is_ok() {}
        (Timeout::Heartbeat, limit)
    };
    tokio::select! {
        biased;
        exceeded = too_long => exceeded,
        exceeded = silent => exceeded,
    }
}
