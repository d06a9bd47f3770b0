//! Statements of administrative reads, with names for what many of them need: `{now}`, `{current}`, `{updated}`. In:
//! such a statement. Out: its rows.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{PgError, Result};
use crate::store::Store;
use crate::text;

/// The time of the store, in a statement.
const NOW: &str = "(SELECT {s}.server_ms(clock_timestamp()) + c.ahead_ms FROM {s}.clock AS c)";

/// An instance with its current execution.
const WITH_CURRENT: &str = "{s}.instances AS i LEFT JOIN {s}.executions AS e
    ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id";

/// When an instance was last updated. Nothing changes what has ended: a turn that only drops what came too late does
/// not count.
pub(crate) const UPDATED: &str = "CASE WHEN e.status IN ('Completed', 'Failed') THEN coalesce(e.completed_at, i.updated_at) ELSE i.updated_at END";

/// A statement with what its names stand for.
pub(crate) fn whole(sql: &str) -> String {
    let sql = sql.replace("{now}", NOW).replace("{current}", WITH_CURRENT);
    sql.replace("{updated}", UPDATED)
}

/// How many events each execution of a page `p` has, and how many there are at all.
pub(crate) const EVENTS: &str = "(SELECT count(*) FROM {s}.history AS h WHERE h.instance_id = p.id AND h.execution_id = p.execution)";
pub(crate) const ALL_EVENTS: &str = "(SELECT count(*) FROM {s}.history)";

/// A statement that reads instances and executions page by page, leaves out those that cannot be read, and counts as
/// many events as can be (`0023_unreadable.sql`).
fn of_readable(sql: &str) -> String {
    let sql = sql.replace(EVENTS, "{s}.events_of(p.id, p.execution)").replace(
        ALL_EVENTS,
        "(SELECT coalesce(sum({s}.events_of(v.instance_id, v.execution_id)), 0)::bigint FROM {s}.executions AS v)",
    );
    let sql = sql.replace("{s}.instances AS", "{s}.readable_instances() AS");
    sql.replace("{s}.executions AS", "{s}.readable_executions() AS")
}

impl Store {
    /// What must be read whole, or not at all: who acts on it must not take what cannot be read for what is not there.
    pub(crate) async fn ask(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        self.db.rows_once(&whole(sql), params).await
    }

    /// A listing. It is answered without the rows that cannot be read, and the log says so.
    pub(crate) async fn list(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        let sql = whole(sql);
        match self.db.rows_once(&sql, params).await {
            Err(error @ PgError::Unreadable { .. }) => {
                self.list_readable(&sql, params, &error).await
            }
            rows => rows,
        }
    }

    /// The first rows of an order, as a listing.
    pub(crate) async fn list_first(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        let sql = whole(sql);
        match self.db.first_rows(&sql, params).await {
            Err(error @ PgError::Unreadable { .. }) => {
                self.list_readable(&sql, params, &error).await
            }
            rows => rows,
        }
    }

    /// One instance: its texts may say that they cannot be read, but what cannot be found then is not missing.
    pub(crate) async fn ask_one(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        let sql = whole(sql);
        match self.db.rows_once(&sql, params).await {
            Err(error @ PgError::Unreadable { .. }) => {
                let rows = self.list_readable(&sql, params, &error).await?;
                if rows.is_empty() {
                    return Err(error);
                }
                Ok(rows)
            }
            rows => rows,
        }
    }

    /// One row that cannot be read must not cost a listing the others.
    async fn list_readable(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
        error: &PgError,
    ) -> Result<Vec<Row>> {
        tracing::error!(target: "duroxide::providers::postgres", code = error.code(), %error, "rows cannot be read; an answer says so in their place or leaves them out");
        self.db.rows_once(&of_readable(sql), params).await
    }

    /// A listing of ids.
    pub(crate) async fn ids(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<String>> {
        shown_ids(&self.list(sql, params).await?)
    }
}

/// The ids in the first column.
pub(crate) fn shown_ids(rows: &[Row]) -> Result<Vec<String>> {
    rows.iter()
        .map(|row| Ok(text::shown(row.try_get(0)?)))
        .collect()
}

pub(crate) fn only(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(|| PgError::Database {
        why: "an answer has no row".to_owned(),
    })
}

/// Whether a listing reads what is readable where the whole cannot be read.
#[cfg(test)]
pub(crate) fn has_another_way(sql: &str) -> bool {
    let sql = whole(sql);
    let readable = of_readable(&sql);
    readable != sql
        && !["instances", "executions", "history"]
            .iter()
            .any(|table| readable.contains(&format!("FROM {{s}}.{table}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{delete, inspect, list};

    #[test]
    fn every_listing_has_another_way_where_rows_cannot_be_read() {
        for sql in [
            list::ALL,
            list::WITH_STATUS,
            inspect::RUNNING,
            inspect::METRICS,
            delete::FINISHED_ROOTS,
            delete::TO_PRUNE,
        ] {
            assert!(has_another_way(sql), "{sql}");
        }
    }
}
