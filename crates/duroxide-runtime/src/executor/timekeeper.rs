//! The thread that keeps time for the engine: it renews leases and looks after the drainers, whatever the program does
//! with its async runtime. A program that blocks its only async thread for a while loses no lease.
//!
//! Where time is paused there is no such thread; the async runtime's own clock is the only one that counts.

use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Where the engine's keepers run.
pub(super) struct Timekeeper {
    handle: Handle,
    _until_dropped: Option<DropGuard>,
}

impl Timekeeper {
    /// On the current async runtime.
    pub(super) fn on_host(host: Handle) -> Self {
        Self {
            handle: host,
            _until_dropped: None,
        }
    }

    /// On a thread of its own, which ends when this is dropped.
    pub(super) fn start() -> std::io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let until = CancellationToken::new();
        let guard = until.clone().drop_guard();
        std::thread::Builder::new()
            .name("duroxide-time".to_owned())
            .spawn(move || runtime.block_on(until.cancelled()))?;
        Ok(Arc::new(Self {
            handle,
            _until_dropped: Some(guard),
        }))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}
