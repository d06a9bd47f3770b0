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

/// A statement that reads instances and executions page by page, and leaves out those that cannot be read
/// (`0023_unreadable.sql`).
fn of_readable(sql: &str) -> String {
    let sql = sql.replace("{s}.instances AS", "{s}.readable_instances() AS");
    sql.replace("{s}.executions AS", "{s}.readable_executions() AS")
}

impl Store {
    pub(crate) async fn ask(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        let sql = whole(sql);
        match self.db.rows_once(&sql, params).await {
            Err(error @ PgError::Unreadable { .. }) => {
                self.ask_of_readable(&sql, params, &error).await
            }
            rows => rows,
        }
    }

    /// The first rows of an order.
    pub(crate) async fn ask_first(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        let sql = whole(sql);
        match self.db.first_rows(&sql, params).await {
            Err(error @ PgError::Unreadable { .. }) => {
                self.ask_of_readable(&sql, params, &error).await
            }
            rows => rows,
        }
    }

    /// One row that cannot be read must not cost a listing the others.
    async fn ask_of_readable(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
        error: &PgError,
    ) -> Result<Vec<Row>> {
        tracing::error!(target: "duroxide::providers::postgres", code = error.code(), %error, "a listing met rows that cannot be read; it says so in their place or leaves them out");
        self.db.rows_once(&of_readable(sql), params).await
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
}

pub(crate) fn only(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(|| PgError::Database {
        why: "an answer has no row".to_owned(),
    })
}
