//! The administrative contract over the store: one statement per method.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::event::Event;
use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::rules::lane::{self, WorkNeeds};
use duroxide_core::provider::{
    Closing, CountBy, DeadLetter, DeleteInstanceResult, ExecutionInfo, HandlerKind, HeldIds,
    InstanceCount, InstanceFilter, InstanceInfo, InstanceQuery, InstanceSnapshot, InstanceSummary,
    InstanceTree, Labelling, NodeInfo, NodeTerm, Page, Pausing, PendingWork, Provider,
    ProviderAdmin, ProviderError, PruneOptions, PruneResult, QueueDepths, ReadyWork, Requeue,
    Restoring, SeenNode, SystemMetrics,
};
use duroxide_core::{LabelChange, Labels};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::codec;
use crate::conditions::UPDATED;
use crate::error::{PgError, Result};
use crate::provider::{Answer, PostgresProvider};
use crate::text;
use crate::time::shown_ms;

/// How much ready work is counted for one lane.
const COUNT_MAX: i64 = 10_000;

/// The time of the store, in a statement.
const NOW: &str = "(SELECT {s}.server_ms(clock_timestamp()) + c.ahead_ms FROM {s}.clock AS c)";

/// An instance with its current execution.
const WITH_CURRENT: &str = "{s}.instances AS i LEFT JOIN {s}.executions AS e
    ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id";

/// A statement with what its names stand for.
pub(crate) fn whole(sql: &str) -> String {
    let sql = sql.replace("{now}", NOW).replace("{current}", WITH_CURRENT);
    sql.replace("{updated}", UPDATED)
}

impl PostgresProvider {
    pub(crate) async fn ask(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        self.store.db.rows_once(&whole(sql), params).await
    }

    pub(crate) async fn ids(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<String>> {
        let rows = self.ask(sql, params).await?;
        rows.iter()
            .map(|row| Ok(text::shown(row.try_get(0)?)))
            .collect()
    }

    async fn instance_info(&self, instance: &str) -> Result<InstanceInfo> {
        let id = text::owned(instance);
        let rows = self
            .ask(
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
            current_execution_id: shown_ms(row.try_get(2)?),
            status: shown(3)?.unwrap_or_else(|| "Unknown".to_owned()),
            output: shown(4)?,
            created_at: shown_ms(row.try_get(5)?),
            updated_at: shown_ms(row.try_get(6)?),
            parent_instance_id: shown(7)?,
        })
    }

    async fn execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo> {
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
            event_count: usize::try_from(row.try_get::<_, i64>(4)?).unwrap_or(0),
        })
    }

    async fn metrics(&self) -> Result<SystemMetrics> {
        let rows = self
            .ask(
                "SELECT count(*), count(*) FILTER (WHERE e.status = 'Running'), count(*) FILTER (WHERE e.status = 'Completed'),
                     count(*) FILTER (WHERE e.status = 'Failed'), (SELECT count(*) FROM {s}.executions),
                     (SELECT count(*) FROM {s}.history)
                 FROM {current}",
                &[],
            )
            .await?;
        let row = only(&rows)?;
        Ok(SystemMetrics {
            total_instances: shown_ms(row.try_get(0)?),
            running_instances: shown_ms(row.try_get(1)?),
            completed_instances: shown_ms(row.try_get(2)?),
            failed_instances: shown_ms(row.try_get(3)?),
            total_executions: shown_ms(row.try_get(4)?),
            total_events: shown_ms(row.try_get(5)?),
        })
    }

    async fn queue_depths(&self) -> Result<QueueDepths> {
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
            Ok(usize::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
        };
        Ok(QueueDepths {
            orchestrator_queue: count(0)?,
            timer_queue: count(1)?,
            worker_queue: count(2)?,
        })
    }

    async fn parent(&self, instance: &str) -> Result<Option<String>> {
        let id = text::owned(instance);
        let rows = self
            .ask(
                "SELECT p.instance_id FROM {s}.instances AS i LEFT JOIN {s}.instances AS p
                     ON p.instance_id = i.parent_instance_id
                     AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation)
                 WHERE i.instance_id = $1",
                &[(&id, Type::TEXT)],
            )
            .await?;
        let row = rows.first().ok_or_else(|| not_found(instance))?;
        Ok(row.try_get::<_, Option<String>>(0)?.map(text::shown))
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>> {
        let limit = i64::from(limit);
        let rows = self
            .ask(
                "SELECT id, queue, instance_id, payload, reason, set_aside_at FROM {s}.dead_letters ORDER BY id LIMIT $1",
                &[(&limit, Type::INT8)],
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(DeadLetter {
                    id: shown_ms(row.try_get(0)?),
                    queue: row.try_get(1)?,
                    instance_id: row.try_get::<_, Option<String>>(2)?.map(text::shown),
                    payload: row.try_get(3)?,
                    reason: text::shown(row.try_get(4)?),
                    dead_lettered_at_ms: shown_ms(row.try_get(5)?),
                })
            })
            .collect()
    }

    async fn ready_work(&self, limit: u32) -> Result<Vec<ReadyWork>> {
        let turns = self
            .ask(
                "SELECT l.lane, count(*), min(r.ready_at) FROM (SELECT DISTINCT lane FROM {s}.inboxes) AS l
                 CROSS JOIN (SELECT {now} AS now) AS n
                 CROSS JOIN LATERAL (SELECT b.ready_at FROM {s}.inboxes AS b
                     WHERE b.lane = l.lane AND b.ready_at <= n.now AND b.locked_until <= n.now LIMIT $1) AS r
                 GROUP BY l.lane",
                &[(&COUNT_MAX, Type::INT8)],
            )
            .await?;
        let work = self
            .ask(
                "SELECT l.lane, count(*), min(r.since) FROM (SELECT DISTINCT lane FROM {s}.worker_queue) AS l
                 CROSS JOIN (SELECT {now} AS now) AS n
                 CROSS JOIN LATERAL (SELECT greatest(w.visible_at, w.locked_until) AS since FROM {s}.worker_queue AS w
                     WHERE w.lane = l.lane AND w.visible_at <= n.now AND w.locked_until <= n.now LIMIT $1) AS r
                 GROUP BY l.lane",
                &[(&COUNT_MAX, Type::INT8)],
            )
            .await?;
        let mut waiting = BTreeMap::new();
        for row in &turns {
            let lane = text::shown(row.try_get(0)?);
            // What any node may take needs no handler.
            if let Some(needs) = lane::needs(&lane)
                && let Some(name) = needs.name
            {
                let key = (HandlerKind::Orchestration, name, needs.version);
                gather(&mut waiting, key, row)?;
            }
        }
        for row in &work {
            let lane = text::shown(row.try_get(0)?);
            if let Some(needs) = WorkNeeds::of(&lane) {
                gather(&mut waiting, (HandlerKind::Activity, needs.name, None), row)?;
            }
        }
        let mut ready: Vec<ReadyWork> = waiting
            .into_iter()
            .map(|((kind, name, version), (count, since))| ReadyWork {
                kind,
                name,
                version,
                count,
                ready_since_ms: since,
            })
            .collect();
        ready.sort_by_key(|work| work.ready_since_ms);
        ready.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(ready)
    }
}

type Waiting = BTreeMap<(HandlerKind, String, Option<String>), (u64, u64)>;

fn gather(
    waiting: &mut Waiting,
    key: (HandlerKind, String, Option<String>),
    row: &Row,
) -> Result<()> {
    let (count, since) = (shown_ms(row.try_get(1)?), shown_ms(row.try_get(2)?));
    let sum = waiting.entry(key).or_insert((0, since));
    sum.0 += count;
    sum.1 = sum.1.min(since);
    Ok(())
}

fn not_found(instance: &str) -> PgError {
    PgError::Contract(Refusal::InstanceNotFound {
        instance: instance.to_owned(),
    })
}

pub(crate) fn only(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(|| PgError::Database {
        why: "an answer has no row".to_owned(),
    })
}

fn named<T>(operation: &str) -> impl FnOnce(Result<T>) -> Answer<T> + '_ {
    move |result| result.map_err(|error| error.into_provider_error(operation))
}

#[async_trait]
impl ProviderAdmin for PostgresProvider {
    async fn list_instances(&self) -> Answer<Vec<String>> {
        let sql = "SELECT instance_id FROM {s}.instances ORDER BY number DESC";
        named("list_instances")(self.ids(sql, &[]).await)
    }

    async fn list_instances_by_status(&self, status: &str) -> Answer<Vec<String>> {
        let sql = "SELECT i.instance_id FROM {current} WHERE e.status = $1 ORDER BY i.number DESC";
        let status = text::owned(status);
        named("list_instances_by_status")(self.ids(sql, &[(&status, Type::TEXT)]).await)
    }

    async fn list_executions(&self, instance: &str) -> Answer<Vec<u64>> {
        const OPERATION: &str = "list_executions";
        let id = text::owned(instance);
        let sql =
            "SELECT execution_id FROM {s}.executions WHERE instance_id = $1 ORDER BY execution_id";
        let rows = named(OPERATION)(self.ask(sql, &[(&id, Type::TEXT)]).await)?;
        let read = rows.iter().map(|row| Ok(shown_ms(row.try_get(0)?)));
        named(OPERATION)(read.collect())
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Vec<Event>> {
        self.read_with_execution(instance, execution_id).await
    }

    async fn read_history(&self, instance: &str) -> Answer<Vec<Event>> {
        self.read(instance).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Answer<u64> {
        const OPERATION: &str = "latest_execution_id";
        let id = text::owned(instance);
        let sql =
            "SELECT coalesce(max(execution_id), 1) FROM {s}.executions WHERE instance_id = $1";
        let rows = named(OPERATION)(self.ask(sql, &[(&id, Type::TEXT)]).await)?;
        let read = only(&rows).and_then(|row| Ok(shown_ms(row.try_get(0)?)));
        named(OPERATION)(read)
    }

    async fn get_instance_info(&self, instance: &str) -> Answer<InstanceInfo> {
        named("get_instance_info")(self.instance_info(instance).await)
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Answer<ExecutionInfo> {
        named("get_execution_info")(self.execution_info(instance, execution_id).await)
    }

    async fn get_system_metrics(&self) -> Answer<SystemMetrics> {
        named("get_system_metrics")(self.metrics().await)
    }

    async fn count_running_instances(&self) -> Answer<u64> {
        const OPERATION: &str = "count_running_instances";
        let sql = "SELECT count(*) FROM {s}.executions WHERE status = 'Running'";
        let rows = named(OPERATION)(self.ask(sql, &[]).await)?;
        let read = only(&rows).and_then(|row| Ok(shown_ms(row.try_get(0)?)));
        named(OPERATION)(read)
    }

    async fn get_queue_depths(&self) -> Answer<QueueDepths> {
        named("get_queue_depths")(self.queue_depths().await)
    }

    async fn list_children(&self, instance_id: &str) -> Answer<Vec<String>> {
        let id = text::owned(instance_id);
        let sql = "SELECT c.instance_id FROM {s}.instances AS c LEFT JOIN {s}.instances AS p
                ON p.instance_id = c.parent_instance_id
            WHERE c.parent_instance_id = $1
              AND (c.parent_incarnation IS NULL OR p.incarnation IS NULL OR c.parent_incarnation = p.incarnation)
            ORDER BY c.number";
        named("list_children")(self.ids(sql, &[(&id, Type::TEXT)]).await)
    }

    async fn get_parent_id(&self, instance_id: &str) -> Answer<Option<String>> {
        named("get_parent_id")(self.parent(instance_id).await)
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Answer<InstanceTree> {
        let id = text::owned(instance_id);
        let sql = "SELECT t FROM {s}.instance_tree($1) AS t";
        let ids = self.ids(sql, &[(&id, Type::TEXT)]).await;
        Ok(InstanceTree {
            root_id: instance_id.to_owned(),
            all_ids: named("get_instance_tree")(ids)?,
        })
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Answer<DeleteInstanceResult> {
        named("delete_instances_atomic")(self.delete_together(ids, force).await)
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Answer<DeleteInstanceResult> {
        named("delete_instance_bulk")(self.delete_bulk(&filter).await)
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        const OPERATION: &str = "prune_executions";
        let pruned = named(OPERATION)(self.prune_one(instance_id, &options).await)?;
        let missing = || -> ProviderError { not_found(instance_id).into_provider_error(OPERATION) };
        pruned.ok_or_else(missing)
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Answer<PruneResult> {
        named("prune_executions_bulk")(self.prune_bulk(&filter, &options).await)
    }

    async fn held_ids(&self, after: Option<&str>, limit: u32) -> Answer<Option<HeldIds>> {
        named("held_ids")(self.held(after, limit).await).map(Some)
    }

    async fn snapshot_instance(&self, instance: &str) -> Answer<Option<InstanceSnapshot>> {
        named("snapshot_instance")(self.snapshot(instance).await).map(Some)
    }

    async fn snapshot_family(&self, instance: &str) -> Answer<Option<Vec<InstanceSnapshot>>> {
        named("snapshot_family")(self.family(instance).await).map(Some)
    }

    async fn restore_instance(
        &self,
        snapshot: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Answer<Option<Restoring>> {
        named("restore_instance")(self.restore(snapshot, closed).await).map(Some)
    }

    async fn close_store(
        &self,
        expected: Option<&str>,
        reason: Option<&str>,
    ) -> Answer<Option<Closing>> {
        named("close_store")(self.close_or_open(expected, reason).await).map(Some)
    }

    async fn closed_because(&self) -> Answer<Option<String>> {
        named("closed_because")(self.closing().await)
    }

    async fn list_dead_letters(&self, limit: u32) -> Answer<Vec<DeadLetter>> {
        named("list_dead_letters")(self.dead_letters(limit).await)
    }

    async fn delete_dead_letter(&self, id: u64) -> Answer<bool> {
        const OPERATION: &str = "delete_dead_letter";
        let Ok(id) = i64::try_from(id) else {
            return Ok(false);
        };
        let sql = "DELETE FROM {s}.dead_letters WHERE id = $1 RETURNING 1";
        let rows = named(OPERATION)(self.ask(sql, &[(&id, Type::INT8)]).await)?;
        Ok(!rows.is_empty())
    }

    async fn requeue_dead_letter(&self, id: u64) -> Answer<Option<Requeue>> {
        named("requeue_dead_letter")(self.requeue(id).await).map(Some)
    }

    async fn pending_work(&self, instance: &str) -> Answer<Option<PendingWork>> {
        named("pending_work")(self.pending(instance).await).map(Some)
    }

    async fn pause_instance(&self, instance: &str) -> Answer<Option<Pausing>> {
        named("pause_instance")(self.pause(instance).await).map(Some)
    }

    async fn resume_instance(&self, instance: &str) -> Answer<Option<Pausing>> {
        named("resume_instance")(self.resume(instance).await).map(Some)
    }

    async fn paused_since(&self, instance: &str) -> Answer<Option<u64>> {
        named("paused_since")(self.pause_of(instance).await)
    }

    fn can_rewind(&self) -> bool {
        true
    }

    async fn labels(&self, instance: &str) -> Answer<Labels> {
        named("labels")(self.labels_of(instance).await)
    }

    async fn change_labels(
        &self,
        instance: &str,
        changes: &[LabelChange],
    ) -> Answer<Option<Labelling>> {
        named("change_labels")(self.label(instance, changes).await).map(Some)
    }

    async fn count_instances_by_label(
        &self,
        query: &InstanceQuery,
        key: &str,
    ) -> Answer<Vec<InstanceCount>> {
        named("count_instances_by_label")(self.counts_by_label(query, key).await)
    }

    async fn announce_node(&self, node: &NodeInfo, term: NodeTerm) -> Answer<bool> {
        let announced = self.node_announced(node, term).await;
        named("announce_node")(announced).map(|()| true)
    }

    async fn forget_node(&self, id: &str) -> Answer<()> {
        named("forget_node")(self.node_forgotten(id).await)
    }

    async fn list_nodes(&self) -> Answer<Option<Vec<SeenNode>>> {
        named("list_nodes")(self.nodes().await).map(Some)
    }

    async fn hold_duty(&self, duty: &str, holder: &str, time: Duration) -> Answer<Option<bool>> {
        named("hold_duty")(self.duty_held(duty, holder, time).await).map(Some)
    }

    async fn query_instances(&self, query: &InstanceQuery) -> Answer<Page<InstanceSummary>> {
        let position = query.position()?;
        named("query_instances")(self.page(query, position.as_ref()).await)
    }

    async fn count_instances(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Answer<Vec<InstanceCount>> {
        named("count_instances")(self.counts(query, by).await)
    }

    async fn list_ready_work(&self, limit: u32) -> Answer<Option<Vec<ReadyWork>>> {
        named("list_ready_work")(self.ready_work(limit).await).map(Some)
    }
}
