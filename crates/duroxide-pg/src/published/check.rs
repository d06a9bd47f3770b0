//! Whether a schema is one of the published `duroxide-pg` 0.1.38, and whole. In: its migrations, tables and columns.
//! Out: nothing, or what is wrong in words.

use std::collections::BTreeMap;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connection::schema::Schema;
use crate::error::{PgError, Result};

/// The table in which the published crate records its migrations.
const LEDGER: &str = "_duroxide_migrations";

/// The migrations that 0.1.38 applies.
const MIGRATIONS: &[i64] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25, 26,
];

/// What is read, with the types that the reading statements rely on.
const COLUMNS: &[(&str, &[(&str, &str)])] = &[
    (
        "instances",
        &[
            ("instance_id", "text"),
            ("orchestration_name", "text"),
            ("orchestration_version", "text"),
            ("current_execution_id", "bigint"),
            ("parent_instance_id", "text"),
            ("custom_status", "text"),
            ("custom_status_version", "integer"),
            ("created_at", "timestamp with time zone"),
            ("updated_at", "timestamp with time zone"),
        ],
    ),
    (
        "executions",
        &[
            ("instance_id", "text"),
            ("execution_id", "bigint"),
            ("status", "text"),
            ("output", "text"),
            ("started_at", "timestamp with time zone"),
            ("completed_at", "timestamp with time zone"),
            ("duroxide_version_major", "integer"),
            ("duroxide_version_minor", "integer"),
            ("duroxide_version_patch", "integer"),
        ],
    ),
    (
        "history",
        &[
            ("instance_id", "text"),
            ("execution_id", "bigint"),
            ("event_id", "bigint"),
            ("event_data", "text"),
        ],
    ),
    (
        "orchestrator_queue",
        &[
            ("id", "bigint"),
            ("instance_id", "text"),
            ("work_item", "text"),
            ("visible_at", "timestamp with time zone"),
            ("attempt_count", "integer"),
        ],
    ),
    (
        "worker_queue",
        &[
            ("id", "bigint"),
            ("instance_id", "text"),
            ("execution_id", "bigint"),
            ("activity_id", "bigint"),
            ("work_item", "text"),
            ("visible_at", "timestamp with time zone"),
            ("attempt_count", "integer"),
            ("session_id", "text"),
            ("tag", "text"),
            ("lock_token", "text"),
            ("locked_until", "bigint"),
        ],
    ),
    (
        "instance_locks",
        &[("instance_id", "text"), ("locked_until", "bigint")],
    ),
    (
        "kv_store",
        &[
            ("instance_id", "text"),
            ("key", "text"),
            ("value", "text"),
            ("last_updated_at_ms", "bigint"),
        ],
    ),
    (
        "kv_delta",
        &[
            ("instance_id", "text"),
            ("key", "text"),
            ("value", "text"),
            ("last_updated_at_ms", "bigint"),
        ],
    ),
];

pub(super) async fn is_published(client: &Client, schema: &Schema) -> Result<()> {
    let refused = |why: String| PgError::NotPublished {
        schema: schema.name().to_owned(),
        why,
    };
    let tables = tables(client, schema).await?;
    if !tables.contains_key(LEDGER) {
        return Err(refused(strange(&tables)));
    }
    let sql = format!(
        "SELECT version::bigint FROM {}.{LEDGER} ORDER BY 1",
        schema.quoted()
    );
    let rows = client.query_typed(&sql, &[]).await?;
    let found: Vec<i64> = rows
        .iter()
        .map(|row| Ok(row.try_get(0)?))
        .collect::<Result<_>>()?;
    if let Some(why) = other_version(&found) {
        return Err(refused(why));
    }
    match missing(&tables) {
        gone if gone.is_empty() => Ok(()),
        gone => Err(refused(format!(
            "its migrations are those of duroxide-pg 0.1.38, but it is not whole: {}",
            gone.join(", ")
        ))),
    }
}

/// The tables of a schema: columns with their types.
type Tables = BTreeMap<String, BTreeMap<String, String>>;

async fn tables(client: &Client, schema: &Schema) -> Result<Tables> {
    let sql = "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns
               WHERE table_schema = $1";
    let name = schema.name();
    let rows = client.query_typed(sql, &[(&name, Type::TEXT)]).await?;
    let mut tables = Tables::new();
    for row in rows {
        let columns = tables.entry(row.try_get(0)?).or_default();
        columns.insert(row.try_get(1)?, row.try_get(2)?);
    }
    Ok(tables)
}

/// What a schema is that the published crate has not made, or that this role cannot see.
fn strange(tables: &Tables) -> String {
    if tables.is_empty() {
        return "there are no tables in it that this role may read".to_owned();
    }
    if tables.contains_key("migrations") && tables.contains_key("instances") {
        return "it is a store of this implementation; `duroxide move` moves it".to_owned();
    }
    format!("it has no table {LEDGER}, so duroxide-pg did not make it")
}

/// Why these are not the migrations of 0.1.38.
fn other_version(found: &[i64]) -> Option<String> {
    if found == MIGRATIONS {
        return None;
    }
    let unknown: Vec<String> = found
        .iter()
        .filter(|it| !MIGRATIONS.contains(it))
        .map(ToString::to_string)
        .collect();
    if !unknown.is_empty() {
        return Some(format!(
            "migration {} is not of duroxide-pg 0.1.38, which is the version that is understood",
            unknown.join(", ")
        ));
    }
    let last = found.last().map_or(0, |last| *last);
    Some(format!(
        "its last migration is {last}, and {} of {} are there; open it once with duroxide-pg 0.1.38, which brings it up to date. \
         A schema of duroxide-pg-opt cannot be brought over",
        found.len(),
        MIGRATIONS.len()
    ))
}

/// What of the tables is not there, or has another type.
fn missing(tables: &Tables) -> Vec<String> {
    let mut gone = Vec::new();
    for (table, columns) in COLUMNS {
        let Some(found) = tables.get(*table) else {
            gone.push(format!("there is no table {table}"));
            continue;
        };
        for (column, kind) in *columns {
            match found.get(*column) {
                None => gone.push(format!("{table} has no column {column}")),
                Some(other) if other != kind => {
                    gone.push(format!("{table}.{column} is {other} and not {kind}"));
                }
                Some(_) => {}
            }
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_told_apart() {
        assert_eq!(other_version(MIGRATIONS), None);
        let newer = [MIGRATIONS, &[27]].concat();
        let told = other_version(&newer).unwrap();
        assert!(told.starts_with("migration 27 is not of"), "{told}");
        let older = other_version(&MIGRATIONS[..20]).unwrap();
        assert!(
            older.contains("last migration is 20, and 20 of 24"),
            "{older}"
        );
        assert!(other_version(&[]).unwrap().contains("is 0, and 0 of 24"));
    }
}
