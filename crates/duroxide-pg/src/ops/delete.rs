//! Deletes instances and old executions, in bounded steps. In: which. Out: what went.

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{DeleteInstanceResult, InstanceFilter, PruneOptions, PruneResult};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::codec::unsigned;
use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::news::Queues;
use crate::ops::admin_sql::only;
use crate::ops::inspect::not_found;
use crate::store::Store;
use crate::text;
use crate::time::stored_ms;
use crate::watch::InstanceChange;

/// How many instances a bulk operation takes when the filter does not say.
const BULK_LIMIT: u32 = 1000;
/// How many events one transaction of a pruning deletes at most.
const STEP_ROWS: i64 = 1_000;

/// Roots that have ended, and instances that have something to prune, oldest first. What can be deleted is decided
/// again, tree by tree, where it is deleted.
pub(crate) const FINISHED_ROOTS: &str = "SELECT i.instance_id FROM {current}
     WHERE e.status IN ('Completed', 'Failed') AND ($1 IS NULL OR e.completed_at < $1)
       AND (i.parent_instance_id IS NULL OR NOT EXISTS (
           SELECT 1 FROM {s}.instances AS p WHERE p.instance_id = i.parent_instance_id
           AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation)))
     ORDER BY i.number";
pub(crate) const TO_PRUNE: &str = "SELECT i.instance_id FROM {current}
     WHERE ($1::text[] IS NULL OR i.instance_id = ANY ($1)) AND ($2 IS NULL OR e.completed_at < $2)
     ORDER BY i.number LIMIT $3";

impl Store {
    pub(crate) async fn delete_together(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult> {
        let stored: Vec<String> = ids.iter().map(|id| text::owned(id)).collect();
        let call = Call::new("delete_together")
            .texts(stored.iter().map(String::as_str))
            .flag(force);
        let rows = self.db.transact_later(&[call]).await?;
        let row = only(rows.first().map_or(&[], Vec::as_slice))?;
        let shown = |column: usize| -> Result<String> {
            let text: Option<String> = row.try_get(column)?;
            Ok(text::shown(text.unwrap_or_default()))
        };
        match row.try_get::<_, Option<String>>(0)?.as_deref() {
            Some("running") => Err(Refusal::StillRunning {
                instance: shown(1)?,
            }
            .into()),
            Some("child") => Err(Refusal::ChildLeftBehind {
                parent: shown(1)?,
                child: shown(2)?,
            }
            .into()),
            Some(other) => Err(PgError::Database {
                why: format!("a deletion ended in `{other}`"),
            }),
            None => {
                self.deleted(ids);
                counts(row, 3)
            }
        }
    }

    /// Watchers of these instances read again, and so do claims: a start of the same id may have waited behind
    /// one.
    fn deleted(&self, ids: &[String]) {
        for id in ids {
            self.watches.announce(id, InstanceChange::Unknown);
        }
        let stored: Vec<String> = ids.iter().map(|id| text::owned(id)).collect();
        self.look(Queues::BOTH, &stored);
    }

    pub(crate) async fn delete_bulk(
        &self,
        filter: &InstanceFilter,
    ) -> Result<DeleteInstanceResult> {
        let limit = usize::try_from(filter.limit.unwrap_or(BULK_LIMIT)).unwrap_or(0);
        let before = filter.completed_before.map(stored_ms);
        let roots = match &filter.instance_ids {
            // `delete_tree` leaves alone what is no finished root.
            Some(ids) => ids.clone(),
            None => self.ids(FINISHED_ROOTS, &[(&before, Type::INT8)]).await?,
        };
        let mut total = DeleteInstanceResult::default();
        let mut deleted = 0;
        for root in roots {
            if deleted == limit {
                break;
            }
            let stored = text::owned(&root);
            let call = Call::new("delete_tree").text(&stored).opt_int(before);
            let Some(rows) = readable(&root, self.db.transact_later(&[call]).await)? else {
                continue;
            };
            if let Some(row) = rows.first().and_then(|rows| rows.first()) {
                add(&mut total, &counts(row, 0)?);
                deleted += 1;
                self.deleted(&[root]);
            }
        }
        Ok(total)
    }

    /// Prunes one instance, which has to be there.
    pub(crate) async fn prune_known(
        &self,
        instance: &str,
        options: &PruneOptions,
    ) -> Result<PruneResult> {
        let pruned = self.prune_one(instance, options).await?;
        pruned.ok_or_else(|| not_found(instance))
    }

    /// Prunes one instance; `None` if there is no such instance.
    async fn prune_one(
        &self,
        instance: &str,
        options: &PruneOptions,
    ) -> Result<Option<PruneResult>> {
        let id = text::owned(instance);
        let mut total = PruneResult::default();
        loop {
            let call = Call::new("prune_step")
                .text(&id)
                .int(i64::from(options.keep_last.unwrap_or(0)))
                .opt_int(options.completed_before.map(stored_ms))
                .int(STEP_ROWS);
            let rows = self.db.transact_later(&[call]).await?;
            let row = only(rows.first().map_or(&[], Vec::as_slice))?;
            if !row.try_get::<_, bool>(0)? {
                return Ok(None);
            }
            total.executions_deleted += unsigned(row, 1)?;
            total.events_deleted += unsigned(row, 2)?;
            if row.try_get(3)? {
                total.instances_processed = 1;
                return Ok(Some(total));
            }
        }
    }

    pub(crate) async fn prune_bulk(
        &self,
        filter: &InstanceFilter,
        options: &PruneOptions,
    ) -> Result<PruneResult> {
        let limit = i64::from(filter.limit.unwrap_or(BULK_LIMIT));
        let before = filter.completed_before.map(stored_ms);
        let stored: Option<Vec<String>> = filter
            .instance_ids
            .as_ref()
            .map(|ids| ids.iter().map(|id| text::owned(id)).collect());
        let chosen = self
            .ids(
                TO_PRUNE,
                &[
                    (&stored, Type::TEXT_ARRAY),
                    (&before, Type::INT8),
                    (&limit, Type::INT8),
                ],
            )
            .await?;
        let mut total = PruneResult::default();
        for id in chosen {
            let pruned = readable(&id, self.prune_one(&id, options).await)?;
            // One that was deleted meanwhile is skipped.
            if let Some(one) = pruned.flatten() {
                total.instances_processed += one.instances_processed;
                total.executions_deleted += one.executions_deleted;
                total.events_deleted += one.events_deleted;
            }
        }
        Ok(total)
    }
}

/// What one step of many did; `None` if its instance cannot be read. The others go on.
fn readable<T>(instance: &str, step: Result<T>) -> Result<Option<T>> {
    match step {
        Err(error @ PgError::Unreadable { .. }) => {
            tracing::error!(target: "duroxide::providers::postgres", code = error.code(), instance_id = %instance, %error, "an instance that cannot be read is left as it is, the others are deleted or pruned");
            Ok(None)
        }
        done => done.map(Some),
    }
}

/// Four counts beginning at a column.
fn counts(row: &Row, first: usize) -> Result<DeleteInstanceResult> {
    let count = |column: usize| -> Result<u64> {
        let stored: Option<i64> = row.try_get(column)?;
        stored.map_or(Ok(0), |_| unsigned(row, column))
    };
    Ok(DeleteInstanceResult {
        instances_deleted: count(first)?,
        executions_deleted: count(first + 1)?,
        events_deleted: count(first + 2)?,
        queue_messages_deleted: count(first + 3)?,
    })
}

fn add(total: &mut DeleteInstanceResult, one: &DeleteInstanceResult) {
    total.instances_deleted += one.instances_deleted;
    total.executions_deleted += one.executions_deleted;
    total.events_deleted += one.events_deleted;
    total.queue_messages_deleted += one.queue_messages_deleted;
}
