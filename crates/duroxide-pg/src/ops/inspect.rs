//! Reads for operators: one instance, one execution, totals. In: an id. Out: decoded rows.

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{ExecutionInfo, InstanceInfo, QueueDepths, SystemMetrics};
use tokio_postgres::types::Type;

use crate::codec::{self, unsigned};
use crate::error::{PgError, Result};
use crate::ops::admin_sql::only;
use crate::store::Store;
use crate::text;
use crate::time::shown_ms;

/// How many instances run, and totals.
pub(crate) const RUNNING: &str =
    "SELECT count(*) FROM {s}.executions AS e WHERE e.status = 'Running'";
pub(crate) const METRICS: &str = "SELECT count(*), count(*) FILTER (WHERE e.status = 'Running'),
         count(*) FILTER (WHERE e.status = 'Completed'), count(*) FILTER (WHERE e.status = 'Failed'),
         (SELECT count(*) FROM {s}.executions AS x), (SELECT count(*) FROM {s}.history)
     FROM {current}";

impl Store {
    pub(crate) async fn instance_info(&self, instance: &str) -> Result<InstanceInfo> {
        let id = text::owned(instance);
        let rows = self
            .ask_one(
                "SELECT i.orchestration_name, i.orchestration_version, i.current_execution_id, e.status, e.output, i.created_at,
                     {updated}, i.parent_instance_id
                 FROM {current} WHERE i.instance_id = $1",
                &[(&id, Type::TEXT)],
            )
            .await?;
        let row = rows.first().ok_or_else(|| not_found(instance))?;
        let shown = |column| -> Result<Option<String>> {
            Ok(row.try_get::<_, Option<String>>(column)?.map(text::shown))
        };
        Ok(InstanceInfo {
            instance_id: instance.to_owned(),
            orchestration_name: shown(0)?.unwrap_or_default(),
            orchestration_version: shown(1)?.unwrap_or_else(|| "unknown".to_owned()),
            current_execution_id: unsigned(row, 2)?,
            status: shown(3)?.unwrap_or_else(|| "Unknown".to_owned()),
            output: shown(4)?,
            created_at: shown_ms(row.try_get(5)?),
            updated_at: shown_ms(row.try_get(6)?),
            parent_instance_id: shown(7)?,
        })
    }

    pub(crate) async fn execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo> {
        let id = text::owned(instance);
        let execution = codec::number("execution", execution_id)?;
        let rows = self
            .ask(
                "SELECT status, output, started_at, completed_at,
                     (SELECT count(*) FROM {s}.history AS h WHERE h.instance_id = $1 AND h.execution_id = $2)
                 FROM {s}.executions WHERE instance_id = $1 AND execution_id = $2",
                &[(&id, Type::TEXT), (&execution, Type::INT8)],
            )
            .await?;
        let row = rows.first().ok_or_else(|| {
            PgError::Contract(Refusal::ExecutionNotFound {
                instance: instance.to_owned(),
                execution_id,
            })
        })?;
        Ok(ExecutionInfo {
            execution_id,
            status: row.try_get(0)?,
            output: row.try_get::<_, Option<String>>(1)?.map(text::shown),
            started_at: shown_ms(row.try_get(2)?),
            completed_at: row.try_get::<_, Option<i64>>(3)?.map(shown_ms),
            event_count: usize::try_from(unsigned(row, 4)?).unwrap_or(usize::MAX),
        })
    }

    /// The numbers of an instance's executions, ascending.
    pub(crate) async fn executions(&self, instance: &str) -> Result<Vec<u64>> {
        let id = text::owned(instance);
        let sql =
            "SELECT execution_id FROM {s}.executions WHERE instance_id = $1 ORDER BY execution_id";
        let rows = self.ask(sql, &[(&id, Type::TEXT)]).await?;
        rows.iter().map(|row| unsigned(row, 0)).collect()
    }

    /// The latest execution of an instance; 1 if it has none.
    pub(crate) async fn latest_execution(&self, instance: &str) -> Result<u64> {
        let id = text::owned(instance);
        let sql =
            "SELECT coalesce(max(execution_id), 1) FROM {s}.executions WHERE instance_id = $1";
        let rows = self.ask(sql, &[(&id, Type::TEXT)]).await?;
        unsigned(only(&rows)?, 0)
    }

    /// How many instances run.
    pub(crate) async fn running(&self) -> Result<u64> {
        let rows = self.list(RUNNING, &[]).await?;
        unsigned(only(&rows)?, 0)
    }

    pub(crate) async fn metrics(&self) -> Result<SystemMetrics> {
        let rows = self.list(METRICS, &[]).await?;
        let row = only(&rows)?;
        Ok(SystemMetrics {
            total_instances: unsigned(row, 0)?,
            running_instances: unsigned(row, 1)?,
            completed_instances: unsigned(row, 2)?,
            failed_instances: unsigned(row, 3)?,
            total_executions: unsigned(row, 4)?,
            total_events: unsigned(row, 5)?,
        })
    }

    pub(crate) async fn queue_depths(&self) -> Result<QueueDepths> {
        let rows = self
            .ask(
                "SELECT count(*) FILTER (WHERE NOT t.is_timer AND NOT t.is_claimed)
                         + (SELECT count(*) FROM {s}.arrivals), count(*) FILTER (WHERE t.is_timer),
                     (SELECT count(*) FROM {s}.worker_queue WHERE locked_until <= {now})
                 FROM (SELECT q.kind = 'TimerFired' AND q.visible_at > n.now AS is_timer,
                           coalesce(b.locked_until > n.now AND q.id = ANY (b.message_ids), false) AS is_claimed
                       FROM {s}.orchestrator_queue AS q LEFT JOIN {s}.inboxes AS b ON b.instance_id = q.instance_id
                       CROSS JOIN (SELECT {now} AS now) AS n) AS t",
                &[],
            )
            .await?;
        let row = only(&rows)?;
        let count = |column: usize| -> Result<usize> {
            Ok(usize::try_from(unsigned(row, column)?).unwrap_or(usize::MAX))
        };
        Ok(QueueDepths {
            orchestrator_queue: count(0)?,
            timer_queue: count(1)?,
            worker_queue: count(2)?,
        })
    }
}

pub(crate) fn not_found(instance: &str) -> PgError {
    PgError::Contract(Refusal::InstanceNotFound {
        instance: instance.to_owned(),
    })
}
