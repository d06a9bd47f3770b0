//! A restore, job by job: turns of other instances go on between two of them. The protocol is in `ops/restore.rs`.

use std::sync::Arc;

use duroxide_core::provider::{InstanceSnapshot, ProviderError, Restoring};

use crate::error::{AtOperation as _, SqliteError};
use crate::handle::SqliteProvider;
use crate::ops::delete::Still;
use crate::ops::restore::{self, Step};
use crate::ops::{delete, steps};
use crate::requests::LeaseView;
use crate::tables::deletions::RestoreToken;
use crate::writer_tx::WriterTx;

const OPERATION: &str = "restore_instance";
/// How often a restore begins anew that others swept away.
const TRIES_MAX: u32 = 10;

type Answer<T> = Result<T, ProviderError>;

/// What is restored, for the jobs of the writer.
#[derive(Clone)]
struct Task {
    snapshot: Arc<InstanceSnapshot>,
    closed: Option<Arc<str>>,
}

impl SqliteProvider {
    pub(crate) async fn restore(
        &self,
        snapshot: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Answer<Restoring> {
        let task = Task {
            snapshot: Arc::new(snapshot.clone()),
            closed: closed.map(Arc::from),
        };
        let parts = restore::steps(snapshot);
        for _ in 0..TRIES_MAX {
            let ended = if parts.is_empty() {
                self.at_once(&task).await?
            } else {
                self.in_steps(&task, &parts).await?
            };
            match ended {
                Step::Over(done) => return Ok(done),
                Step::LeftOver => self.sweep(&snapshot.instance_id).await?,
                Step::Lost | Step::Done => {}
            }
        }
        let id = snapshot.instance_id.escape_debug();
        Err(ProviderError::retryable(
            OPERATION,
            format!("others restore `{id}`, or remove it, at the same time"),
        ))
    }

    async fn at_once(&self, task: &Task) -> Answer<Step> {
        self.step(task, |tx, it| {
            restore::whole(tx, &it.snapshot, it.closed.as_deref())
        })
        .await
    }

    async fn in_steps(&self, task: &Task, parts: &[std::ops::Range<usize>]) -> Answer<Step> {
        let token = RestoreToken::new();
        let begun = self
            .step(task, move |tx, it| {
                restore::begin(tx, &it.snapshot, it.closed.as_deref(), token)
            })
            .await?;
        if begun != Step::Done {
            return Ok(begun);
        }
        for part in parts {
            let part = part.clone();
            let step = self.step(task, move |tx, it| {
                restore::part(tx, &it.snapshot, it.closed.as_deref(), token, &part)
            });
            match step.await? {
                Step::Done => {}
                ended => return self.given_up(task, ended).await,
            }
        }
        let last = self.step(task, move |tx, it| {
            restore::last(tx, &it.snapshot, it.closed.as_deref(), token)
        });
        match last.await? {
            Step::Over(Restoring::Done) => Ok(Step::Over(Restoring::Done)),
            ended => self.given_up(task, ended).await,
        }
    }

    /// The store was opened or closed for something else: what has come so far goes.
    async fn given_up(&self, task: &Task, ended: Step) -> Answer<Step> {
        if matches!(ended, Step::Over(_)) {
            self.sweep(&task.snapshot.instance_id).await?;
        }
        Ok(ended)
    }

    async fn sweep(&self, instance: &str) -> Answer<()> {
        loop {
            let id = instance.to_owned();
            let step = move |tx: &mut WriterTx<'_>| delete::sweep(tx, &id, steps::STEP_ROWS);
            match self.job(step).await?.still {
                Still::Nothing => return Ok(()),
                Still::Some => {}
                Still::Unreadable => {
                    let detail = format!("what is left of the deleted `{instance}` cannot be read");
                    return Err(SqliteError::Damaged { detail }).at(OPERATION);
                }
            }
        }
    }

    async fn step(
        &self,
        task: &Task,
        mut step: impl FnMut(&mut WriterTx<'_>, &Task) -> Result<Step, SqliteError> + Send + 'static,
    ) -> Answer<Step> {
        let task = task.clone();
        self.job(move |tx: &mut WriterTx<'_>| step(tx, &task)).await
    }

    async fn job<T: Send + 'static>(
        &self,
        step: impl FnMut(&mut WriterTx<'_>) -> Result<T, SqliteError> + Send + 'static,
    ) -> Answer<T> {
        self.writing_always(OPERATION, LeaseView::Needed, step)
            .await
    }
}
