//! What lies in the queues for one instance. In: its id. Out: its messages and activities, and the lease of its turn.

use duroxide_core::provider::{PendingActivity, PendingMessage, PendingWork, WorkItem};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::codec::unsigned;
use crate::error::Result;
use crate::store::Store;
use crate::text;
use crate::time::shown_ms;

/// How many messages and activities of one instance an answer lists.
const TOLD_MAX: i64 = 1_000;

impl Store {
    /// What lies in the queues for one instance. `kind` 0 is the inbox, 1 a message, 2 an activity.
    pub(crate) async fn pending(&self, instance: &str) -> Result<PendingWork> {
        let id = text::owned(instance);
        let rows = self
            .ask(
                "WITH n AS MATERIALIZED (SELECT {now} AS now)
                 SELECT 0 AS kind, n.now AS a, (SELECT b.locked_until FROM {s}.inboxes AS b
                     WHERE b.instance_id = $1 AND b.lock_token IS NOT NULL AND b.locked_until > n.now) AS b,
                     NULL::bigint AS c, NULL::bigint AS d, NULL::text AS t, NULL::text AS item, 0::bigint AS place FROM n
                 UNION ALL (
                 SELECT 1, CASE q.visible_at WHEN 9223372036854775807 THEN q.created_at ELSE q.visible_at END, NULL, q.attempt_count + (coalesce(q.id = ANY (b.message_ids), false))::integer,
                     NULL, q.kind, CASE WHEN q.begins IS NOT NULL THEN q.work_item END, q.id
                 FROM {s}.orchestrator_queue AS q
                 LEFT JOIN {s}.inboxes AS b ON b.instance_id = q.instance_id AND b.lock_token IS NOT NULL
                 WHERE q.instance_id = $1 ORDER BY q.id LIMIT $2)
                 UNION ALL (
                 SELECT 1, n.now, NULL, 0, NULL, r.kind, CASE WHEN r.begins IS NOT NULL THEN r.work_item END,
                     4611686018427387904 + r.id
                 FROM {s}.arrivals AS r CROSS JOIN n WHERE r.instance_id = $1 ORDER BY r.id LIMIT $2)
                 UNION ALL (
                 SELECT 2, w.visible_at, CASE WHEN w.locked_until > n.now THEN w.locked_until END, w.attempt_count,
                     w.activity_id, w.execution_id::text, NULL, w.id
                 FROM {s}.worker_queue AS w CROSS JOIN n WHERE w.instance_id = $1 ORDER BY w.id LIMIT $2)
                 ORDER BY kind, place",
                &[(&id, Type::TEXT), (&TOLD_MAX, Type::INT8)],
            )
            .await?;
        let mut pending = PendingWork::default();
        for row in &rows {
            match row.try_get::<_, i32>(0)? {
                0 => {
                    pending.now_ms = shown_ms(row.try_get(1)?);
                    pending.turn_leased_until_ms = row.try_get::<_, Option<i64>>(2)?.map(shown_ms);
                }
                1 => pending.messages.push(message(row)?),
                _ => pending.activities.push(activity(row)?),
            }
        }
        Ok(pending)
    }
}

fn message(row: &Row) -> Result<PendingMessage> {
    let item: Option<String> = row.try_get(6)?;
    let item = item.and_then(|json| serde_json::from_str::<WorkItem>(&json).ok());
    let begins = item.as_ref().and_then(WorkItem::begins);
    Ok(PendingMessage {
        kind: row.try_get(5)?,
        visible_at_ms: shown_ms(row.try_get(1)?),
        attempts: attempts(row)?,
        begins: begins.map(|(name, version)| (name.to_owned(), version.map(str::to_owned))),
    })
}

fn activity(row: &Row) -> Result<PendingActivity> {
    let execution: Option<String> = row.try_get(5)?;
    Ok(PendingActivity {
        execution_id: execution.and_then(|it| it.parse().ok()).unwrap_or(0),
        activity_id: unsigned(row, 4)?,
        visible_at_ms: shown_ms(row.try_get(1)?),
        leased_until_ms: row.try_get::<_, Option<i64>>(2)?.map(shown_ms),
        attempts: attempts(row)?,
    })
}

fn attempts(row: &Row) -> Result<u32> {
    Ok(u32::try_from(row.try_get::<_, i64>(3)?).unwrap_or(u32::MAX))
}
