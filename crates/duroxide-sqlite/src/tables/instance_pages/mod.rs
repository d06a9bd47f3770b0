//! Pages and counts of instances. In: a [`Criteria`], and which rows to begin with. Out: summaries. Reads `instances`
//! together with the current execution; every statement names the index it walks, so that no page reads the whole table
//! by accident. Where a page of the file cannot be read, `one_by_one.rs` goes on.

mod few;
mod handlers;
mod totals;

use duroxide_core::provider::{Incarnation, InstanceStatus, InstanceSummary};
use rusqlite::{Row, ToSql, params_from_iter};

pub(crate) use few::{
    few_created, few_ended, few_of_handler, few_of_label, few_of_prefix, few_open, few_updated,
};
pub(crate) use handlers::{Handler, names_with, versions_of};
pub(crate) use totals::{all, by_name, by_status, by_version};

use crate::error::Result;
use crate::tx::{Tx, shown_ms, unsigned};

/// The rows that a statement begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// All instances, in the order of their creation.
    Created,
    /// All instances, in the order of their last turn.
    Updated,
    /// Those of one handler, by name and version, in the order of their creation.
    Handler,
    /// Those whose id begins as asked, if the range of the prefix has an end; sorted afterwards, so there should be
    /// few.
    Prefix,
    /// Those whose execution has one of the asked statuses, none of which is `Completed`; sorted afterwards.
    Open,
    /// Those that ended in the asked range; sorted afterwards, so there should be few.
    Ended,
    /// The children of one instance; sorted afterwards.
    Parent,
    /// One instance and its descendants; sorted afterwards.
    Root,
    /// Those that a dead letter names; sorted afterwards.
    DeadLetters,
    /// Those that are paused; sorted afterwards.
    Paused,
    /// Those that a node noted it cannot go on with; sorted afterwards.
    Blocked,
    /// Those that have the first of the asked labels; in the order of their creation, or sorted afterwards.
    Label,
}

/// The order of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageOrder {
    CreatedDown,
    CreatedUp,
    UpdatedDown,
    UpdatedUp,
}

/// What instances are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Nothing = 0,
    Status = 1,
    Name = 2,
    Version = 3,
}

/// A query in the terms of the tables. Bounds of ranges are always there.
#[derive(Debug, Clone)]
pub(crate) struct Criteria {
    /// One bit per status, in the order of [`STATUS_BIT`].
    pub(crate) status_bits: i64,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) prefix: String,
    /// The first id beyond the prefix; `None` if there is none.
    pub(crate) prefix_end: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) roots_only: bool,
    pub(crate) created: (i64, i64),
    pub(crate) updated: (i64, i64),
    pub(crate) ended: Option<(i64, i64)>,
    pub(crate) root: Option<String>,
    pub(crate) has_dead_letters: bool,
    pub(crate) paused: Option<bool>,
    pub(crate) blocked: Option<bool>,
    /// All labels that are asked for, as a JSON object; `None` if there are none.
    pub(crate) labels: Option<String>,
    /// The first of them.
    pub(crate) label: (String, String),
}

/// The bit of a status in [`Criteria::status_bits`]; the statements below say the same.
pub(crate) fn status_bit(status: InstanceStatus) -> i64 {
    match status {
        InstanceStatus::Running => 1,
        InstanceStatus::ContinuedAsNew => 2,
        InstanceStatus::Completed => 4,
        InstanceStatus::Failed => 8,
        InstanceStatus::Unknown => 16,
    }
}

macro_rules! joined {
    ($source:literal) => {
        concat!(
            $source,
            " LEFT JOIN executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id"
        )
    };
}

macro_rules! admitted {
    () => {
        " WHERE (?1 & CASE e.status WHEN 'Running' THEN 1 WHEN 'ContinuedAsNew' THEN 2 WHEN 'Completed' THEN 4
                 WHEN 'Failed' THEN 8 ELSE 16 END) <> 0
           AND (?2 IS NULL OR i.orchestration_name = ?2)
           AND (?3 IS NULL OR COALESCE(i.orchestration_version, 'unknown') = ?3)
           AND i.instance_id >= ?4 AND (?5 IS NULL OR i.instance_id < ?5)
           AND (?6 IS NULL OR (i.parent_instance_id = ?6 AND NOT EXISTS
                 (SELECT 1 FROM instances AS p WHERE p.instance_id = ?6 AND p.incarnation <> i.parent_incarnation)))
           AND (?7 = 0 OR i.parent_instance_id IS NULL OR NOT EXISTS
                 (SELECT 1 FROM instances AS p WHERE p.instance_id = i.parent_instance_id
                  AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation)))
           AND i.created_at >= ?8 AND i.created_at < ?9
           AND i.updated_at >= ?10 AND i.updated_at < ?11
           AND (?12 IS NULL OR (e.status IN ('Completed', 'Failed') AND e.completed_at >= ?12 AND e.completed_at < ?13))
           AND (?15 = 0 OR EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.instance_id = i.instance_id))
           AND (?16 IS NULL OR ?16 = EXISTS (SELECT 1 FROM pauses AS u WHERE u.instance_id = i.instance_id))
           AND (?17 IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(?17) AS w WHERE NOT EXISTS
                 (SELECT 1 FROM labels AS b WHERE b.key = w.key AND b.value = w.value AND b.created_at = i.created_at
                  AND b.instance_id = i.instance_id)))
           AND (?20 IS NULL OR ?20 = EXISTS (SELECT 1 FROM blocked AS k WHERE k.instance_id = i.instance_id
                  AND k.incarnation IS i.incarnation AND k.execution_id = i.current_execution_id
                  AND e.status NOT IN ('Completed', 'Failed')
                  AND CASE WHEN k.last_event_id < 0 THEN i.updated_at <= k.noted_at ELSE k.last_event_id =
                  (SELECT MAX(h.event_id) FROM history AS h
                   WHERE h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id) END))"
    };
}

/// The page in an inner query, so that events are counted for its rows only.
macro_rules! page {
    ($source:literal, $key:literal, $way:literal, $beyond:literal) => {
        page!($source, "i.", $key, $way, $beyond)
    };
    ($source:literal, $of:literal, $key:literal, $way:literal, $beyond:literal) => {
        page!(
            $source,
            "executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id",
            "(SELECT COUNT(*) FROM history AS h WHERE h.instance_id = id AND h.execution_id = execution)",
            "(SELECT p.instance_id FROM instances AS p WHERE p.instance_id = i.parent_instance_id
                  AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation))",
            $of, $key, $way, $beyond
        )
    };
    ($source:literal, $executions:literal, $events:literal, $parent:literal,
     $of:literal, $key:literal, $way:literal, $beyond:literal) => {
        concat!(
            "SELECT id, name, version, status, custom_status, execution, created_at, updated_at, completed_at, parent,
                 (SELECT u.paused_at FROM pauses AS u WHERE u.instance_id = id),
                 COALESCE(labels, '{}'), ", $events, ", memo, incarnation
             FROM (SELECT i.instance_id AS id, i.orchestration_name AS name,
                 COALESCE(i.orchestration_version, 'unknown') AS version, COALESCE(e.status, 'Unknown') AS status,
                 i.custom_status AS custom_status, i.current_execution_id AS execution, i.created_at AS created_at,
                 i.updated_at AS updated_at, e.completed_at AS completed_at, i.memo AS memo, i.labels AS labels,
                 i.incarnation AS incarnation, ", $parent, " AS parent
             FROM ", $source, " LEFT JOIN ", $executions, admitted!(),
            " AND (", $of, $key, ", ", $of, "instance_id) ", $beyond, " (?21, ?22)
             ORDER BY ", $of, $key, " ", $way, ", ", $of, "instance_id ", $way, " LIMIT ?23)"
        )
    };
}

macro_rules! pages {
    ($order:expr, $source:literal) => {
        match $order {
            PageOrder::CreatedDown => page!($source, "created_at", "DESC", "<"),
            PageOrder::CreatedUp => page!($source, "created_at", "ASC", ">"),
            PageOrder::UpdatedDown => page!($source, "updated_at", "DESC", "<"),
            PageOrder::UpdatedUp => page!($source, "updated_at", "ASC", ">"),
        }
    };
}

macro_rules! counts {
    ($source:literal) => {
        concat!(
            "SELECT CASE ?21 WHEN 0 THEN '' WHEN 1 THEN CASE WHEN e.status IN
                 ('Running', 'ContinuedAsNew', 'Completed', 'Failed') THEN e.status ELSE 'Unknown' END
                 WHEN 2 THEN i.orchestration_name ELSE COALESCE(i.orchestration_version, 'unknown') END AS key,
                 COUNT(*) AS n
             FROM ", joined!($source), admitted!(), " GROUP BY 1 ORDER BY n DESC, key"
        )
    };
}

/// Instances with one label: along the index where the order is that of their creation.
macro_rules! labelled {
    (pages, $order:expr) => {
        match $order {
            PageOrder::CreatedDown => labelled!("l.", "created_at", "DESC", "<"),
            PageOrder::CreatedUp => labelled!("l.", "created_at", "ASC", ">"),
            PageOrder::UpdatedDown => labelled!("i.", "updated_at", "DESC", "<"),
            PageOrder::UpdatedUp => labelled!("i.", "updated_at", "ASC", ">"),
        }
    };
    (counts) => {
        counts!(
            "labels AS l CROSS JOIN instances AS i
                 ON l.key = ?18 AND l.value = ?19 AND i.instance_id = l.instance_id"
        )
    };
    ($of:literal, $key:literal, $way:literal, $beyond:literal) => {
        page!(
            "labels AS l CROSS JOIN instances AS i
                 ON l.key = ?18 AND l.value = ?19 AND i.instance_id = l.instance_id",
            $of,
            $key,
            $way,
            $beyond
        )
    };
}

/// Picks one of the statements of a macro by its source.
macro_rules! by_source {
    ($source:expr, $make:ident $(, $order:expr)?) => {
        match $source {
            Source::Created => $make!($($order,)? "instances AS i INDEXED BY idx_instances_created"),
            Source::Updated => $make!($($order,)? "instances AS i INDEXED BY idx_instances_updated"),
            Source::Handler => $make!(
                $($order,)?
                "(SELECT * FROM instances INDEXED BY idx_instances_handler
                     WHERE orchestration_name = ?2 AND COALESCE(orchestration_version, 'unknown') = ?3) AS i"
            ),
            Source::Prefix => $make!(
                $($order,)?
                "(SELECT * FROM instances INDEXED BY sqlite_autoindex_instances_1
                     WHERE instance_id >= ?4 AND instance_id < ?5) AS i"
            ),
            Source::Open => $make!($($order,)? "executions AS s INDEXED BY idx_executions_open CROSS JOIN instances AS i
                 ON i.instance_id = s.instance_id AND i.current_execution_id = s.execution_id
                    AND s.status <> 'Completed' AND s.status IN
                     (SELECT 'Running' WHERE ?1 & 1 UNION ALL SELECT 'ContinuedAsNew' WHERE ?1 & 2
                      UNION ALL SELECT 'Failed' WHERE ?1 & 8)"),
            Source::Ended => $make!($($order,)? "executions AS s INDEXED BY idx_executions_ended CROSS JOIN instances AS i
                 ON i.instance_id = s.instance_id AND i.current_execution_id = s.execution_id
                    AND s.status IN ('Completed', 'Failed') AND s.completed_at >= ?12 AND s.completed_at < ?13"),
            Source::Parent => $make!($($order,)? "(SELECT * FROM instances INDEXED BY idx_instances_parent
                 WHERE parent_instance_id = ?6) AS i"),
            Source::Root => $make!(
                $($order,)?
                "(WITH RECURSIVE family (id) AS (
                     SELECT ?14
                     UNION
                     SELECT c.instance_id FROM family JOIN instances AS c ON c.parent_instance_id = family.id
                     LEFT JOIN instances AS p ON p.instance_id = c.parent_instance_id
                     WHERE c.parent_incarnation IS NULL OR p.incarnation IS NULL
                        OR c.parent_incarnation = p.incarnation)
                 SELECT id FROM family) AS f CROSS JOIN instances AS i ON i.instance_id = f.id"
            ),
            Source::DeadLetters => $make!($($order,)? "(SELECT DISTINCT instance_id AS id FROM dead_letters
                 WHERE instance_id IS NOT NULL) AS l CROSS JOIN instances AS i ON i.instance_id = l.id"),
            Source::Paused => $make!(
                $($order,)? "pauses AS l CROSS JOIN instances AS i ON i.instance_id = l.instance_id"
            ),
            Source::Blocked => $make!(
                $($order,)? "blocked AS l CROSS JOIN instances AS i ON i.instance_id = l.instance_id"
            ),
            Source::Label => labelled!($make $(, $order)?),
        }
    };
}

/// Where a page begins: beyond this time and id.
pub(crate) type Beyond<'a> = (i64, &'a str);

/// At most `limit` instances in this order.
pub(crate) fn page(
    tx: &Tx<'_>,
    source: Source,
    criteria: &Criteria,
    order: PageOrder,
    beyond: Beyond<'_>,
    limit: u32,
) -> Result<Vec<InstanceSummary>> {
    let sql = by_source!(source, pages, order);
    let mut values = criteria.values();
    let (at, id) = beyond;
    values.extend([&at as &dyn ToSql, &id, &limit]);
    tx.all(sql, params_from_iter(values), summary)
}

/// How many instances there are in each group, the largest first.
pub(crate) fn counts(
    tx: &Tx<'_>,
    source: Source,
    criteria: &Criteria,
    group: Group,
) -> Result<Vec<(String, u64)>> {
    let sql = by_source!(source, counts);
    let mut values = criteria.values();
    let group = group as i64;
    values.push(&group);
    tx.all(sql, params_from_iter(values), |row| {
        Ok((row.get(0)?, unsigned(row, 1)?))
    })
}

/// How many of the admitted instances have each value of a label, the largest group first.
pub(crate) fn counts_by_label(
    tx: &Tx<'_>,
    criteria: &Criteria,
    key: &str,
) -> Result<Vec<(String, u64)>> {
    let sql = concat!(
        "SELECT g.value AS key, COUNT(*) AS n
         FROM labels AS g CROSS JOIN ",
        joined!("instances AS i ON i.instance_id = g.instance_id"),
        admitted!(),
        " AND g.key = ?21 GROUP BY 1 ORDER BY n DESC, key"
    );
    let mut values = criteria.values();
    values.push(&key);
    tx.all(sql, params_from_iter(values), |row| {
        Ok((row.get(0)?, unsigned(row, 1)?))
    })
}

impl Criteria {
    /// The first twenty parameters.
    fn values(&self) -> Vec<&dyn ToSql> {
        let (ended_from, ended_until) = match &self.ended {
            Some((from, until)) => (from as &dyn ToSql, until as &dyn ToSql),
            None => (
                &rusqlite::types::Null as &dyn ToSql,
                &rusqlite::types::Null as &dyn ToSql,
            ),
        };
        vec![
            &self.status_bits,
            &self.name,
            &self.version,
            &self.prefix,
            &self.prefix_end,
            &self.parent,
            &self.roots_only,
            &self.created.0,
            &self.created.1,
            &self.updated.0,
            &self.updated.1,
            ended_from,
            ended_until,
            &self.root,
            &self.has_dead_letters,
            &self.paused,
            &self.labels,
            &self.label.0,
            &self.label.1,
            &self.blocked,
        ]
    }
}

fn summary(row: &Row<'_>) -> rusqlite::Result<InstanceSummary> {
    let (id, name, version): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let mut summary = InstanceSummary::new(id, name, version);
    summary.status = InstanceStatus::of_stored(&row.get::<_, String>(3)?);
    summary.custom_status = row.get(4)?;
    summary.execution_id = unsigned(row, 5)?;
    summary.created_at_ms = shown_ms(row.get(6)?);
    summary.updated_at_ms = shown_ms(row.get(7)?);
    let completed_at: Option<i64> = row.get(8)?;
    summary.ended_at_ms = completed_at
        .filter(|_| summary.status.is_ended())
        .map(shown_ms);
    summary.parent = row.get(9)?;
    summary.paused_at_ms = row.get::<_, Option<i64>>(10)?.map(shown_ms);
    let labels: String = row.get(11)?;
    // We wrote the object of texts.
    summary.labels = serde_json::from_str(&labels).unwrap_or_default();
    summary.event_count = unsigned(row, 12)?;
    summary.memo = row.get(13)?;
    let incarnation: Option<i64> = row.get(14)?;
    summary.incarnation = incarnation.and_then(Incarnation::from_stored);
    Ok(summary)
}

// After the macros, which they use.
pub(crate) mod one_by_one;
#[cfg(test)]
mod tests;
