//! Questions about many instances, and about the queues of one. In: a query of the contract. Out: one page or counts, each read by
//! one statement that says only what the query asks for, so that the server can choose the index.

use duroxide_core::Labels;
use duroxide_core::provider::{
    CountBy, InstanceCount, InstanceQuery, InstanceStatus, InstanceSummary, Page, PagePosition,
    PendingActivity, PendingMessage, PendingWork, SortKey, SortOrder, TimeRange, WorkItem,
};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::Result;
use crate::provider::PostgresProvider;
use crate::text;
use crate::time::{shown_ms, stored_ms};

/// How many messages and activities of one instance an answer lists.
const TOLD_MAX: i64 = 1_000;
/// The last character there is, so often that no id goes beyond it.
const BEYOND: usize = 300;

/// Conditions and their values.
#[derive(Default)]
pub(crate) struct Conditions {
    sql: Vec<String>,
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Conditions {
    /// Keeps a value; its name in the statement.
    fn value(&mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> String {
        self.values.push((Box::new(value), kind));
        format!("${}", self.values.len())
    }

    pub(crate) fn text(&mut self, value: &str) -> String {
        self.value(text::owned(value), Type::TEXT)
    }

    fn and(&mut self, condition: String) {
        self.sql.push(condition);
    }

    fn range(&mut self, column: &str, range: TimeRange) {
        if let Some(from) = range.from_ms {
            let from = self.value(stored_ms(from), Type::INT8);
            self.and(format!("{column} >= {from}"));
        }
        if let Some(until) = range.until_ms {
            let until = self.value(stored_ms(until), Type::INT8);
            self.and(format!("{column} < {until}"));
        }
    }

    pub(crate) fn joined(&self) -> String {
        match self.sql.is_empty() {
            true => "true".to_owned(),
            false => self.sql.join(" AND "),
        }
    }

    pub(crate) fn params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let pairs = self.values.iter();
        pairs
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect()
    }
}

pub(crate) fn conditions(query: &InstanceQuery) -> Conditions {
    let mut all = Conditions::default();
    statuses(query, &mut all);
    if let Some(name) = &query.name {
        let name = all.text(name);
        all.and(format!("i.orchestration_name = {name}"));
    }
    if let Some(version) = &query.version {
        let version = all.text(version);
        all.and(format!(
            "coalesce(i.orchestration_version, 'unknown') = {version}"
        ));
    }
    if let Some(prefix) = query.id_prefix.as_deref().filter(|it| !it.is_empty()) {
        let stored = text::owned(prefix);
        let end = format!("{stored}{}", "\u{10ffff}".repeat(BEYOND));
        let (from, until) = (all.value(stored, Type::TEXT), all.value(end, Type::TEXT));
        all.and(format!(
            "i.instance_id >= {from} AND i.instance_id < {until}"
        ));
    }
    if let Some(parent) = &query.parent {
        let parent = all.text(parent);
        all.and(format!(
            "i.parent_instance_id = {parent} AND NOT EXISTS (SELECT 1 FROM {{s}}.instances AS p
                 WHERE p.instance_id = i.parent_instance_id AND p.incarnation <> i.parent_incarnation)"
        ));
    }
    if let Some(root) = &query.root {
        let root = all.text(root);
        all.and(format!(
            "i.instance_id IN (SELECT {{s}}.instance_tree({root}))"
        ));
    }
    if query.roots_only {
        all.and("i.parent_instance_id IS NULL".to_owned());
    }
    all.range("i.created_at", query.created);
    all.range("i.updated_at", query.updated);
    if query.ended.is_bounded() {
        all.and("e.status IN ('Completed', 'Failed')".to_owned());
        all.range("e.completed_at", query.ended);
    }
    if let Some(paused) = query.paused {
        let how = if paused { "IS NOT NULL" } else { "IS NULL" };
        all.and(format!("i.paused_at {how}"));
    }
    for (key, value) in &query.labels {
        let (key, value) = (all.text(key), all.text(value));
        all.and(format!(
            "i.instance_id IN (SELECT l.instance_id FROM {{s}}.labels AS l WHERE l.key = {key} AND l.value = {value})"
        ));
    }
    if query.has_dead_letters {
        all.and("i.instance_id IN (SELECT d.instance_id FROM {s}.dead_letters AS d)".to_owned());
    }
    all
}

const STATUS: &str = "CASE WHEN e.status IN ('Running', 'ContinuedAsNew', 'Completed', 'Failed') THEN e.status ELSE 'Unknown' END";

fn statuses(query: &InstanceQuery, all: &mut Conditions) {
    if query.statuses.is_empty() {
        return;
    }
    let names: Vec<String> = query
        .statuses
        .iter()
        .map(|it| it.as_str().to_owned())
        .collect();
    let wanted = all.value(names, Type::TEXT_ARRAY);
    if query.statuses.contains(&InstanceStatus::Unknown) {
        all.and(format!("{STATUS} = ANY ({wanted})"));
        return;
    }
    all.and(format!("e.status = ANY ({wanted})"));
    // The condition of the index of what has not completed.
    if !query.statuses.contains(&InstanceStatus::Completed) {
        all.and("e.status <> 'Completed'".to_owned());
    }
}

impl PostgresProvider {
    pub(crate) async fn page(
        &self,
        query: &InstanceQuery,
        position: Option<&PagePosition>,
    ) -> Result<Page<InstanceSummary>> {
        let mut all = conditions(query);
        let key = match query.sort.by {
            SortKey::Created => "i.created_at",
            SortKey::Updated => "i.updated_at",
        };
        let (way, beyond) = match query.sort.order {
            SortOrder::NewestFirst => ("DESC", "<"),
            SortOrder::OldestFirst => ("ASC", ">"),
        };
        if let Some(position) = position {
            let at = all.value(stored_ms(position.at_ms), Type::INT8);
            let id = all.text(&position.instance_id);
            all.and(format!("({key}, i.instance_id) {beyond} ({at}, {id})"));
        }
        let size = query.page_size();
        // One more than asked for tells whether there is another page.
        let limit = all.value(i64::from(size) + 1, Type::INT8);
        let sql = format!(
            "SELECT p.*, (SELECT json_object_agg(l.key, l.value)::text FROM {{s}}.labels AS l WHERE l.instance_id = p.id),
                 (SELECT count(*) FROM {{s}}.history AS h
                     WHERE h.instance_id = p.id AND h.execution_id = p.execution)
             FROM (SELECT i.instance_id AS id, i.orchestration_name, coalesce(i.orchestration_version, 'unknown'),
                       {STATUS} AS status, i.custom_status, i.current_execution_id AS execution, i.created_at,
                       i.updated_at, e.completed_at, i.parent_instance_id, i.paused_at, i.memo
                   FROM {{current}} WHERE {} ORDER BY {key} {way}, i.instance_id {way} LIMIT {limit}) AS p
             ORDER BY {} {way}, p.id {way}",
            all.joined(),
            key.replace("i.", "p.")
        );
        let rows = self.ask(&sql, &all.params()).await?;
        let items = rows.iter().map(summary).collect::<Result<Vec<_>>>()?;
        Ok(query.cut(items))
    }

    pub(crate) async fn counts(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Result<Vec<InstanceCount>> {
        let all = conditions(query);
        let key = match by {
            CountBy::Nothing => "''",
            CountBy::Status => STATUS,
            CountBy::Name => "i.orchestration_name",
            CountBy::Version => "coalesce(i.orchestration_version, 'unknown')",
        };
        let sql = format!(
            "SELECT {key}::text COLLATE \"C\" AS key, count(*) AS n FROM {{current}} WHERE {}
             GROUP BY 1 ORDER BY 2 DESC, 1",
            all.joined()
        );
        let rows = self.ask(&sql, &all.params()).await?;
        let mut counts = Vec::with_capacity(rows.len());
        for row in &rows {
            counts.push(InstanceCount {
                key: text::shown(row.try_get(0)?),
                count: shown_ms(row.try_get(1)?),
            });
        }
        if by == CountBy::Nothing && counts.is_empty() {
            let (key, count) = (String::new(), 0);
            counts.push(InstanceCount { key, count });
        }
        Ok(counts)
    }

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
                 SELECT 1, q.visible_at, NULL, q.attempt_count + (coalesce(q.id = ANY (b.message_ids), false))::integer,
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
        activity_id: shown_ms(row.try_get(4)?),
        visible_at_ms: shown_ms(row.try_get(1)?),
        leased_until_ms: row.try_get::<_, Option<i64>>(2)?.map(shown_ms),
        attempts: attempts(row)?,
    })
}

fn attempts(row: &Row) -> Result<u32> {
    Ok(u32::try_from(row.try_get::<_, i64>(3)?).unwrap_or(u32::MAX))
}

fn summary(row: &Row) -> Result<InstanceSummary> {
    let shown = |column: usize| -> Result<String> { Ok(text::shown(row.try_get(column)?)) };
    let optional = |column: usize| -> Result<Option<String>> {
        Ok(row.try_get::<_, Option<String>>(column)?.map(text::shown))
    };
    let mut summary = InstanceSummary::new(shown(0)?, shown(1)?, shown(2)?);
    summary.status = InstanceStatus::of_stored(&shown(3)?);
    summary.custom_status = optional(4)?;
    summary.execution_id = shown_ms(row.try_get(5)?);
    summary.created_at_ms = shown_ms(row.try_get(6)?);
    summary.updated_at_ms = shown_ms(row.try_get(7)?);
    let completed_at: Option<i64> = row.try_get(8)?;
    summary.ended_at_ms = completed_at
        .filter(|_| summary.status.is_ended())
        .map(shown_ms);
    summary.parent = optional(9)?;
    summary.paused_at_ms = row.try_get::<_, Option<i64>>(10)?.map(shown_ms);
    if let Some(labels) = row.try_get::<_, Option<String>>(12)? {
        // The server made the object of texts.
        let labels: Labels = serde_json::from_str(&labels).unwrap_or_default();
        let shown = labels.into_iter();
        summary.labels = shown
            .map(|(key, value)| (key, text::shown(value)))
            .collect();
    }
    summary.event_count = shown_ms(row.try_get(13)?);
    summary.memo = optional(11)?;
    Ok(summary)
}
