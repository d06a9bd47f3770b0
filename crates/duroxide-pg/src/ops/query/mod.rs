//! Questions about many instances. In: a query of the contract. Out: one page or counts, each read by one statement
//! that says only what the query asks for, so that the server can choose the index. No index has the last update of
//! what runs: it is few, and is sorted.

pub(crate) mod conditions;
mod handlers;

use duroxide_core::Labels;
use duroxide_core::provider::{
    CountBy, Incarnation, InstanceCount, InstanceQuery, InstanceStatus, InstanceSummary, Page,
    PagePosition, SortKey, SortOrder,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use self::conditions::{Conditions, STATUS, VERSION, conditions};
use self::handlers::Handlers;
use crate::codec::unsigned;
use crate::error::Result;
use crate::ops::admin_sql::{EVENTS, UPDATED, only, whole};
use crate::store::Store;
use crate::text::{self, Payload};
use crate::time::{shown_ms, stored_ms};

/// Columns of a summary; those that cost more are read for the rows of the page only.
const COLUMNS: &str = "i.instance_id AS id, i.orchestration_name, coalesce(i.orchestration_version, 'unknown'), i.custom_status,
    i.current_execution_id AS execution, i.created_at, e.completed_at, i.parent_instance_id, i.paused_at, i.memo";

/// Instances that are looked for by themselves, because the column that tells their last update, and its index, is
/// another one.
#[derive(Debug, Clone, Copy)]
struct Branch {
    source: &'static str,
    condition: &'static str,
    updated: &'static str,
}

const EVERY: Branch = Branch {
    source: "{current}",
    condition: "true",
    updated: UPDATED,
};
const ENDED: Branch = Branch {
    source: "{current}",
    condition: "e.status IN ('Completed', 'Failed') AND e.completed_at IS NOT NULL",
    updated: "e.completed_at",
};
/// Every current execution has a row. What has not ended is few, as a rule.
const OPEN: Branch = Branch {
    source: "{current}",
    condition: "e.status <> 'Completed' AND (e.status < 'Failed' OR e.status > 'Failed')",
    updated: "i.updated_at",
};
/// Few have not ended: each is looked up by its id. The server, which learns of them late, would compare all of them
/// with all instances that another criterion admits.
const FEW_OPEN: Branch = Branch {
    source: "(SELECT * FROM {s}.executions AS x WHERE x.status <> 'Completed' AND (x.status < 'Failed' OR x.status > 'Failed') OFFSET 0) AS e
        CROSS JOIN LATERAL (SELECT * FROM {s}.instances AS y
            WHERE y.instance_id = e.instance_id AND y.current_execution_id = e.execution_id OFFSET 0) AS i",
    ..OPEN
};
/// So many may have not ended.
const FEW: i64 = 4_000;

/// Which branches a query reads; `EVERY` alone if it does not matter when instances were last updated.
fn branches(query: &InstanceQuery, by: SortKey, open: Branch) -> Vec<Branch> {
    let wants = |is_ended: bool| {
        query.statuses.is_empty() || query.statuses.iter().any(|it| it.is_ended() == is_ended)
    };
    let is_plain = by == SortKey::Created && !query.updated.is_bounded();
    if is_plain || query.statuses.contains(&InstanceStatus::Unknown) {
        return vec![EVERY];
    }
    match (wants(true), wants(false)) {
        (true, true) => vec![ENDED, open],
        (true, false) => vec![ENDED],
        (false, _) => vec![open],
    }
}

/// A page as one statement.
fn page_sql(
    query: &InstanceQuery,
    position: Option<&PagePosition>,
    handlers: &Handlers,
    open: Branch,
) -> (String, Conditions) {
    let mut all = conditions(query);
    let (way, beyond) = match query.sort.order {
        SortOrder::NewestFirst => ("DESC", "<"),
        SortOrder::OldestFirst => ("ASC", ">"),
    };
    let begins = position.map(|position| {
        let at = all.value(stored_ms(position.at_ms), Type::INT8);
        (at, all.text(&position.instance_id))
    });
    // One more than asked for tells whether there is another page.
    let limit = all.value(i64::from(query.page_size()) + 1, Type::INT8);
    let codes = handlers.walks(query, &mut all);
    let mut walks = Vec::new();
    for branch in branches(query, query.sort.by, open) {
        let key = match query.sort.by {
            SortKey::Created => "i.created_at",
            SortKey::Updated => branch.updated,
        };
        let mut conditions = vec![branch.condition.to_owned(), all.joined()];
        conditions.extend(all.in_range(branch.updated, query.updated));
        if let Some((at, id)) = &begins {
            conditions.push(format!("({key}, i.instance_id) {beyond} ({at}, {id})"));
        }
        for code in &codes {
            walks.push(format!(
                "(SELECT {COLUMNS}, {STATUS} AS status, {UPDATED} AS updated_at, {key} AS place, i.incarnation FROM {}
                  WHERE {} AND {code} ORDER BY {key} {way}, i.instance_id {way} LIMIT {limit})",
                branch.source,
                conditions.join(" AND ")
            ));
        }
    }
    let source = walks.join(" UNION ALL ");
    let sql = format!(
        "SELECT p.*, (SELECT json_object_agg(l.key, l.value)::text FROM {{s}}.labels AS l WHERE l.instance_id = p.id),
             {EVENTS}
         FROM (SELECT w.* FROM ({source}) AS w ORDER BY w.place {way}, w.id {way} LIMIT {limit}) AS p
         ORDER BY p.place {way}, p.id {way}"
    );
    (sql, all)
}

impl Store {
    pub(crate) async fn page(
        &self,
        query: &InstanceQuery,
        position: Option<&PagePosition>,
    ) -> Result<Page<InstanceSummary>> {
        let handlers = self.handlers(query).await?;
        if handlers.are_missing() {
            return Ok(query.cut(Vec::new()));
        }
        let open = self.open_branch(query).await?;
        let (sql, all) = page_sql(query, position, &handlers, open);
        let rows = self.list_first(&sql, &all.params()).await?;
        let items = rows.iter().map(summary).collect::<Result<Vec<_>>>()?;
        Ok(query.cut(items))
    }

    /// How what has not ended is found, if a page needs that: the server is asked how many there are, but not for more
    /// than a few.
    async fn open_branch(&self, query: &InstanceQuery) -> Result<Branch> {
        let is_needed = |it: &Branch| it.updated == OPEN.updated;
        if !branches(query, query.sort.by, OPEN).iter().any(is_needed) {
            return Ok(OPEN);
        }
        let limit = FEW + 1;
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM {{s}}.executions AS e WHERE {} LIMIT $1) AS f",
            OPEN.condition
        );
        let rows = self.list(&sql, &[(&limit, Type::INT8)]).await?;
        let found: i64 = only(&rows)?.try_get(0)?;
        Ok(if found > FEW { OPEN } else { FEW_OPEN })
    }

    /// How the server would read a page.
    pub(crate) async fn page_plan(&self, query: &InstanceQuery) -> Result<Vec<String>> {
        let handlers = self.handlers(query).await?;
        let open = self.open_branch(query).await?;
        let (sql, all) = page_sql(query, None, &handlers, open);
        let sql = format!("EXPLAIN {}", whole(&sql));
        let rows = self.db.first_rows(&sql, &all.params()).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    pub(crate) async fn counts(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Result<Vec<InstanceCount>> {
        let handlers = self.handlers(query).await?;
        let mut all = conditions(query);
        let code = handlers.condition(query, &mut all);
        let key = match by {
            CountBy::Nothing => "''",
            CountBy::Status => STATUS,
            CountBy::Name => "i.orchestration_name",
            CountBy::Version => VERSION,
        };
        let mut parts = Vec::new();
        for branch in branches(query, SortKey::Created, OPEN) {
            let mut conditions = vec![branch.condition.to_owned(), code.clone(), all.joined()];
            conditions.extend(all.in_range(branch.updated, query.updated));
            parts.push(format!(
                "SELECT {key}::text COLLATE \"C\" AS key FROM {} WHERE {}",
                branch.source,
                conditions.join(" AND ")
            ));
        }
        let sql = format!(
            "SELECT c.key, count(*) AS n FROM ({}) AS c GROUP BY 1 ORDER BY 2 DESC, 1",
            parts.join(" UNION ALL ")
        );
        let rows = if handlers.are_missing() {
            Vec::new()
        } else {
            self.list(&sql, &all.params()).await?
        };
        let mut counts = Vec::with_capacity(rows.len());
        for row in &rows {
            counts.push(InstanceCount {
                key: text::shown(row.try_get(0)?),
                count: unsigned(row, 1)?,
            });
        }
        if by == CountBy::Nothing && counts.is_empty() {
            let (key, count) = (String::new(), 0);
            counts.push(InstanceCount { key, count });
        }
        Ok(counts)
    }
}

fn summary(row: &Row) -> Result<InstanceSummary> {
    let shown = |column: usize| -> Result<String> { Ok(text::shown(row.try_get(column)?)) };
    let optional = |column: usize| -> Result<Option<String>> {
        let text = row.try_get::<_, Option<Payload>>(column)?;
        Ok(text.map(|text| text::shown(text.0)))
    };
    let mut summary = InstanceSummary::new(shown(0)?, shown(1)?, shown(2)?);
    summary.custom_status = optional(3)?;
    summary.execution_id = unsigned(row, 4)?;
    summary.created_at_ms = shown_ms(row.try_get(5)?);
    summary.parent = optional(7)?;
    summary.paused_at_ms = row.try_get::<_, Option<i64>>(8)?.map(shown_ms);
    summary.memo = optional(9)?;
    summary.status = InstanceStatus::of_stored(&shown(10)?);
    let incarnation: Option<i64> = row.try_get(13)?;
    summary.incarnation = incarnation.and_then(Incarnation::from_stored);
    summary.updated_at_ms = shown_ms(row.try_get(11)?);
    let completed_at: Option<i64> = row.try_get(6)?;
    summary.ended_at_ms = completed_at
        .filter(|_| summary.status.is_ended())
        .map(shown_ms);
    if let Some(labels) = row.try_get::<_, Option<String>>(14)? {
        // The server made the object of texts.
        let labels: Labels = serde_json::from_str(&labels).unwrap_or_default();
        let shown = labels.into_iter();
        summary.labels = shown
            .map(|(key, value)| (key, text::shown(value)))
            .collect();
    }
    summary.event_count = unsigned(row, 15)?;
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::admin_sql::has_another_way;

    #[test]
    fn every_page_has_another_way_where_rows_cannot_be_read() {
        let mut updated = InstanceQuery::default();
        updated.sort.by = SortKey::Updated;
        updated.parent = Some("p".to_owned());
        for query in [InstanceQuery::default(), updated] {
            for open in [OPEN, FEW_OPEN] {
                let (sql, _) = page_sql(&query, None, &Handlers::Any, open);
                assert!(has_another_way(&sql), "{sql}");
            }
        }
        assert!(has_another_way(handlers::VERSIONS) && has_another_way(handlers::NAMES));
    }
}
