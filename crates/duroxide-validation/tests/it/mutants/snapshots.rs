//! Flaws of snapshots, and of closing a store.

use duroxide_core::provider::{
    Closing, HeldIds, InstanceSnapshot, ProviderError, Restoring, StoredIncarnation,
};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

impl Mutant {
    pub(super) async fn held(&self, after: Option<&str>, limit: u32) -> Result<Option<HeldIds>> {
        let page = self.reference().held_ids(after, limit).await?;
        Ok(page.map(|mut page| {
            match self.flaw {
                // Positions among the queues begin with another letter.
                Flaw::HeldForgetsQueues
                    if page.next.as_deref().is_some_and(|it| !it.starts_with('i')) =>
                {
                    page.next = None;
                }
                _ => {}
            }
            page
        }))
    }

    pub(super) async fn taken(&self, instance: &str) -> Result<Option<InstanceSnapshot>> {
        let taken = self.reference().snapshot_instance(instance).await?;
        Ok(taken.map(|mut taken| {
            match self.flaw {
                Flaw::SnapshotForgetsMessages => taken.messages.clear(),
                Flaw::SnapshotForgetsActivities => taken.activities.clear(),
                Flaw::SnapshotForgetsDeadLetters => taken.dead_letters.clear(),
                Flaw::SnapshotForgetsHeartbeats => taken.heartbeats.clear(),
                Flaw::SnapshotForgetsChanges => taken.key_value_changes.clear(),
                Flaw::SnapshotIsOfTheCurrentExecution => {
                    let current = taken.record.as_ref().map(|record| record.execution_id);
                    taken
                        .executions
                        .retain(|it| Some(it.execution_id) == current);
                }
                Flaw::SnapshotForgetsLabels => {
                    if let Some(record) = &mut taken.record {
                        record.labels.clear();
                    }
                }
                Flaw::SnapshotForgetsThePause => {
                    if let Some(record) = &mut taken.record {
                        record.paused_at_ms = None;
                    }
                }
                Flaw::SnapshotForgetsSenders => {
                    taken.messages.iter_mut().for_each(|it| it.sent_by = None);
                }
                _ => {}
            }
            taken
        }))
    }

    pub(super) async fn taken_family(&self, root: &str) -> Result<Option<Vec<InstanceSnapshot>>> {
        let family = self.reference().snapshot_family(root).await?;
        let Some(mut family) = family else {
            return Ok(None);
        };
        match self.flaw {
            Flaw::FamilyIsReadOneByOne => {
                for one in &mut family {
                    let alone = self.reference().snapshot_instance(&one.instance_id).await?;
                    *one = alone.unwrap_or_default();
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
            }
            Flaw::FamilyForgetsTheUnborn => family.retain(|it| it.record.is_some()),
            Flaw::FamilyTellsChildrenFirst => family.reverse(),
            _ => {}
        }
        Ok(Some(family))
    }

    /// What the reference answers when it is open for a moment.
    pub(super) async fn as_if_open<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(reason) = self.reference().closed_because().await? else {
            return answer.await;
        };
        self.reference().close_store(Some(&reason), None).await?;
        let answer = answer.await;
        self.reference().close_store(None, Some(&reason)).await?;
        answer
    }

    pub(super) async fn restored(
        &self,
        told: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Result<Option<Restoring>> {
        let mut told = told.clone();
        let found = match self.flaw {
            Flaw::RestoreDoesNotCompare => self.reference().closed_because().await?,
            _ => closed.map(str::to_owned),
        };
        let closed = found.as_deref();
        match self.flaw {
            Flaw::RestoreIgnoresTimes => {
                let times = told.messages.iter_mut().map(|it| &mut it.visible_at_ms);
                let times = times.chain(told.activities.iter_mut().map(|it| &mut it.visible_at_ms));
                times.for_each(|at| *at = 1);
            }
            Flaw::RestoreForgetsAttempts => {
                told.messages.iter_mut().for_each(|it| it.attempts = 0);
                told.activities.iter_mut().for_each(|it| it.attempts = 0);
            }
            Flaw::RestoreReversesMessages => told.messages.reverse(),
            Flaw::RestoreCutsHistories => {
                let executions = told.executions.iter_mut();
                executions.for_each(|it| it.events.truncate(1_000));
            }
            Flaw::RestoreDrawsLives => {
                if let Some(record) = &mut told.record {
                    record.incarnation =
                        record.incarnation.map(|StoredIncarnation(incarnation)| {
                            StoredIncarnation(incarnation % 1_000_000 + 3)
                        });
                }
            }
            Flaw::RestoreDropsWhatContradicts if told.check().is_err() => {
                told.messages.clear();
                told.activities.clear();
                told.executions.clear();
            }
            Flaw::RestoreOverwrites => {
                let there = self
                    .reference()
                    .snapshot_instance(&told.instance_id)
                    .await?;
                if there.is_some_and(|there| there.record.is_some()) && told.record.is_some() {
                    let ids = [told.instance_id.clone()];
                    self.reference().delete_instances_atomic(&ids, true).await?;
                }
            }
            Flaw::RestoreInTwoSteps => {
                let mut first = told.clone();
                first.activities.clear();
                first.messages.clear();
                let done = self.reference().restore_instance(&first, closed).await?;
                if done == Some(Restoring::Done) {
                    tokio::task::yield_now().await;
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    let ids = [told.instance_id.clone()];
                    self.reference().delete_instances_atomic(&ids, true).await?;
                    return self.reference().restore_instance(&told, closed).await;
                }
                return Ok(done);
            }
            _ => {}
        }
        self.reference().restore_instance(&told, closed).await
    }

    pub(super) async fn close(
        &self,
        expected: Option<&str>,
        reason: Option<&str>,
    ) -> Result<Option<Closing>> {
        let done = Ok(Some(Closing::Done));
        match (self.flaw, reason) {
            (Flaw::ClosingIsOnlyTold, _) => {
                let mut notes = self.notes.lock();
                if notes.closed.as_deref() != expected {
                    return Ok(Some(Closing::Unexpected(notes.closed.clone())));
                }
                notes.closed = reason.map(str::to_owned);
                done
            }
            (Flaw::ClosedForGood, None) => done,
            (Flaw::ClosingKeepsTheFirstReason, Some(_))
                if self.reference().closed_because().await?.is_some() =>
            {
                done
            }
            (Flaw::ClosingDoesNotCompare, _) => {
                let found = self.reference().closed_because().await?;
                self.reference().close_store(found.as_deref(), reason).await
            }
            _ => self.reference().close_store(expected, reason).await,
        }
    }

    pub(super) async fn is_closed_and_idle(&self) -> Result<bool> {
        let ready = self.reference().list_ready_work(1).await?;
        let is_idle = ready.is_none_or(|ready| ready.is_empty());
        Ok(is_idle && self.reference().closed_because().await?.is_some())
    }

    pub(super) async fn closed(&self) -> Result<Option<String>> {
        match self.flaw {
            Flaw::ClosingIsOnlyTold => Ok(self.notes.lock().closed.clone()),
            _ => self.reference().closed_because().await,
        }
    }
}
