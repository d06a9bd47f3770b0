//! What a query asks for, in the terms of the tables: `i` is the instance, `e` its current execution. In: a query of
//! the contract. Out: the conditions it sets and no others, so that the server can choose the index, and their values.

use duroxide_core::provider::{InstanceQuery, InstanceStatus, TimeRange};
use tokio_postgres::types::{ToSql, Type};

use crate::text;
use crate::time::stored_ms;

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
    pub(crate) fn value(
        &mut self,
        value: impl ToSql + Sync + Send + 'static,
        kind: Type,
    ) -> String {
        self.values.push((Box::new(value), kind));
        format!("${}", self.values.len())
    }

    pub(crate) fn text(&mut self, value: &str) -> String {
        self.value(text::owned(value), Type::TEXT)
    }

    pub(crate) fn and(&mut self, condition: String) {
        self.sql.push(condition);
    }

    fn range(&mut self, column: &str, range: TimeRange) {
        let bounds = self.in_range(column, range);
        self.sql.extend(bounds);
    }

    /// The conditions of a range, with their values kept and not joined to the others.
    pub(crate) fn in_range(&mut self, column: &str, range: TimeRange) -> Vec<String> {
        let bounds = [(">=", range.from_ms), ("<", range.until_ms)];
        let mut conditions = Vec::new();
        for (compared, bound) in bounds {
            if let Some(bound) = bound {
                let bound = self.value(stored_ms(bound), Type::INT8);
                conditions.push(format!("{column} {compared} {bound}"));
            }
        }
        conditions
    }

    pub(crate) fn joined(&self) -> String {
        if self.sql.is_empty() {
            return "true".to_owned();
        }
        self.sql.join(" AND ")
    }

    pub(crate) fn params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let pairs = self.values.iter();
        pairs
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect()
    }
}

/// All conditions of a query but two: the code that instances run, and their last update, which depends on whether they
/// have ended.
pub(crate) fn conditions(query: &InstanceQuery) -> Conditions {
    let mut all = Conditions::default();
    statuses(query, &mut all);
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
    // Nothing is updated or ends before it is created: a walk by age begins there.
    for until in [query.updated.until_ms, query.ended.until_ms] {
        all.range(
            "i.created_at",
            TimeRange {
                from_ms: None,
                until_ms: until,
            },
        );
    }
    if query.ended.is_bounded() {
        all.and("e.status IN ('Completed', 'Failed')".to_owned());
        all.range("e.completed_at", query.ended);
    }
    if let Some(paused) = query.paused {
        let how = if paused { "IS NOT NULL" } else { "IS NULL" };
        all.and(format!("i.paused_at {how}"));
    }
    if let Some(blocked) = query.blocked {
        let how = if blocked {
            "i.instance_id IN (SELECT b.instance_id FROM {s}.blocked AS b) AND EXISTS"
        } else {
            "NOT EXISTS"
        };
        all.and(format!("{how} ({BLOCKED})"));
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

/// A note about an instance that holds; `blocked.rs` says the same of one.
pub(crate) const BLOCKED: &str = "SELECT 1 FROM {s}.blocked AS k WHERE k.instance_id = i.instance_id
    AND k.incarnation IS NOT DISTINCT FROM i.incarnation AND k.execution_id = i.current_execution_id
    AND e.status NOT IN ('Completed', 'Failed') AND k.last_event_id = (SELECT max(h.event_id) FROM {s}.history AS h
        WHERE h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id)";

/// The version of an instance, as the index of handlers has it.
pub(crate) const VERSION: &str = "coalesce(i.orchestration_version, 'unknown')";

pub(crate) const STATUS: &str = "CASE WHEN e.status IN ('Running', 'ContinuedAsNew', 'Completed', 'Failed') THEN e.status ELSE 'Unknown' END";

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
