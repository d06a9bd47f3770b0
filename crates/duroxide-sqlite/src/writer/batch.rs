//! What has queued up for the writer and is not in a transaction yet.

use tokio::sync::oneshot;

use super::WriterMessage;
use crate::checkpoint::Emptied;
use crate::error::{Result, SqliteError};
use crate::requests::Job;

/// Jobs and checkpoints that wait for the next transaction. Claims wait elsewhere, in `WaitingClaims`.
#[derive(Default)]
pub(super) struct Batch {
    /// As they came; empty between two calls of `gather`.
    pub(super) messages: Vec<WriterMessage>,
    pub(super) jobs: Vec<Box<dyn Job>>,
    pub(super) checkpoints: Vec<oneshot::Sender<Result<Emptied>>>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.checkpoints.is_empty()
    }

    /// Answers everything with this error.
    pub(super) fn fail(&mut self, error: &SqliteError) {
        for job in self.jobs.drain(..) {
            job.fail(error.clone());
        }
        for reply in self.checkpoints.drain(..) {
            // Fails only if the caller dropped its call.
            let _ = reply.send(Err(error.clone()));
        }
    }
}
