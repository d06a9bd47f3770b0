//! Which code a query asks about. In: a query that names an orchestration, a version or both. Out: the pairs of both
//! that instances have, read from the index of handlers by leaps from one pair to the next, so that what no instance
//! has is missing at once.

use duroxide_core::provider::{InstanceQuery, InstanceStatus, SortKey};
use tokio_postgres::types::Type;

use super::conditions::{Conditions, VERSION};
use crate::error::Result;
use crate::store::Store;
use crate::text;

/// More pairs than this are not listed.
const PAIRS_MAX: i64 = 100;
/// More pairs than this do not get a walk of their own: the server plans each.
const WALKS_MAX: usize = 16;

/// Versions of a name, one leap each.
pub(super) const VERSIONS: &str = "WITH RECURSIVE v AS (
        (SELECT coalesce(i.orchestration_version, 'unknown') AS version FROM {s}.instances AS i
         WHERE i.orchestration_name = $1 ORDER BY 1 LIMIT 1)
        UNION ALL
        SELECT (SELECT coalesce(i.orchestration_version, 'unknown') FROM {s}.instances AS i
                WHERE i.orchestration_name = $1 AND coalesce(i.orchestration_version, 'unknown') > v.version
                ORDER BY 1 LIMIT 1)
        FROM v WHERE v.version IS NOT NULL)
    SELECT v.version, true FROM v WHERE v.version IS NOT NULL LIMIT $2";

/// Names, one leap each, and whether an instance of it has the version.
pub(super) const NAMES: &str = "WITH RECURSIVE n AS (
        (SELECT i.orchestration_name AS name FROM {s}.instances AS i ORDER BY 1 LIMIT 1)
        UNION ALL
        SELECT (SELECT i.orchestration_name FROM {s}.instances AS i WHERE i.orchestration_name > n.name ORDER BY 1 LIMIT 1)
        FROM n WHERE n.name IS NOT NULL)
    SELECT m.name, EXISTS (SELECT 1 FROM {s}.instances AS i
        WHERE i.orchestration_name = m.name AND coalesce(i.orchestration_version, 'unknown') = $1)
    FROM (SELECT n.name FROM n WHERE n.name IS NOT NULL LIMIT $2) AS m";

/// The pairs of name and version that instances have and a query admits, as they are stored.
#[derive(Debug)]
pub(crate) enum Handlers {
    /// The query does not ask, or there are too many to look at in turn.
    Any,
    These(Vec<(String, String)>),
}

impl Handlers {
    /// Whether no instance can be meant.
    pub(crate) fn are_missing(&self) -> bool {
        matches!(self, Self::These(pairs) if pairs.is_empty())
    }

    /// What the query says of the code, for a statement that reads all pairs at once.
    pub(crate) fn condition(&self, query: &InstanceQuery, all: &mut Conditions) -> String {
        let mut conditions = Vec::new();
        match (self, &query.name) {
            (Self::These(pairs), None) if pairs.len() == 1 => {
                // Said so that the index gives them in its order.
                let name = all.value(pairs[0].0.clone(), Type::TEXT);
                conditions.push(format!("i.orchestration_name = {name}"));
            }
            (Self::These(pairs), None) if !pairs.is_empty() => {
                let names: Vec<String> = pairs.iter().map(|(name, _)| name.clone()).collect();
                let names = all.value(names, Type::TEXT_ARRAY);
                conditions.push(format!("i.orchestration_name = ANY ({names})"));
            }
            (_, Some(name)) => {
                let name = all.text(name);
                conditions.push(format!("i.orchestration_name = {name}"));
            }
            (_, None) => {}
        }
        if let Some(version) = &query.version {
            let version = all.text(version);
            conditions.push(format!("{VERSION} = {version}"));
        }
        if conditions.is_empty() {
            "true".to_owned()
        } else {
            conditions.join(" AND ")
        }
    }

    /// What a page says of the code: for several pairs, each of which has an order of its own in the index, a walk for
    /// each.
    pub(crate) fn walks(&self, query: &InstanceQuery, all: &mut Conditions) -> Vec<String> {
        let pairs = match self {
            Self::These(pairs) if pairs.len() <= WALKS_MAX && walks_by_age(query) => pairs,
            _ => return vec![self.condition(query, all)],
        };
        let mut walks = Vec::new();
        for (name, version) in pairs {
            let name = all.value(name.clone(), Type::TEXT);
            let version = all.value(version.clone(), Type::TEXT);
            walks.push(format!(
                "i.orchestration_name = {name} AND {VERSION} = {version}"
            ));
        }
        walks
    }
}

/// Whether the index of handlers is what a page walks along: nothing else narrows it, and the order is that of the
/// index.
fn walks_by_age(query: &InstanceQuery) -> bool {
    let admits_most =
        query.statuses.is_empty() || query.statuses.contains(&InstanceStatus::Completed);
    let is_narrow = query.id_prefix.is_some()
        || query.parent.is_some()
        || query.root.is_some()
        || query.updated.is_bounded()
        || query.ended.is_bounded()
        || query.paused == Some(true)
        || query.blocked == Some(true)
        || query.has_dead_letters
        || !query.labels.is_empty();
    query.sort.by == SortKey::Created && admits_most && !is_narrow
}

impl Store {
    /// The pairs that a query is about.
    pub(crate) async fn handlers(&self, query: &InstanceQuery) -> Result<Handlers> {
        let (leaps, asked) = match (&query.name, &query.version) {
            (None, None) => return Ok(Handlers::Any),
            (Some(name), Some(version)) => {
                let pair = (text::owned(name), text::owned(version));
                return Ok(Handlers::These(vec![pair]));
            }
            (Some(name), None) => (VERSIONS, text::owned(name)),
            (None, Some(version)) => (NAMES, text::owned(version)),
        };
        let limit = PAIRS_MAX + 1;
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&asked, Type::TEXT), (&limit, Type::INT8)];
        let rows = self.list(leaps, &params).await?;
        if rows.len() as i64 == limit {
            return Ok(Handlers::Any);
        }
        let mut pairs = Vec::new();
        for row in &rows {
            let found: String = row.try_get(0)?;
            if row.try_get(1)? {
                pairs.push(match query.name {
                    Some(_) => (asked.clone(), found),
                    None => (found, asked.clone()),
                });
            }
        }
        Ok(Handlers::These(pairs))
    }
}
