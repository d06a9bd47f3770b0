//! The schema. In: a connection and a policy. Out: a schema of exactly the version of this build, or a refusal.
//!
//! Migrations are numbered files, applied in order in one transaction under an advisory lock, so that any number of
//! processes may start at once. Each is recorded with a checksum of its text.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage, Transaction};

use crate::connection::schema::Schema;
use crate::error::{PgError, Result};
use crate::options::MigrationPolicy;

struct Migration {
    number: i32,
    name: &'static str,
    sql: &'static str,
}

macro_rules! migrations {
    ($($number:literal $name:literal;)*) => {
        &[$(Migration {
            number: $number,
            name: $name,
            sql: include_str!(concat!("../../migrations/", $name, ".sql")),
        }),*]
    };
}

const MIGRATIONS: &[Migration] = migrations! {
    1 "0001_tables";
    2 "0002_clock";
    3 "0003_enqueue";
    4 "0004_commit";
    5 "0005_inboxes";
    6 "0006_claim_turns";
    7 "0007_hold_turns";
    8 "0008_work";
    9 "0009_admin";
    10 "0010_public";
    11 "0011_pauses";
    12 "0012_heartbeats";
    13 "0013_operate";
    14 "0014_rests";
    15 "0015_starts";
    16 "0016_snapshots";
    17 "0017_submissions";
    18 "0018_early";
    19 "0019_pages";
    20 "0020_plain";
    21 "0021_blocked";
    22 "0022_lives";
    23 "0023_unreadable";
    24 "0024_checks";
    25 "0025_held";
};

/// Functions that others call, with the path of the caller: one path for each call from outside is enough.
const INNER: &str = "'server_ms', 'store_ms', 'enqueued_ms', 'now_ms', 'due_ms', 'terminates', 'carries', 'settle_inboxes', 'merge_keys', 'refuse_early', 'arrivals_wait'";

/// The version of this build.
fn newest() -> i32 {
    MIGRATIONS.last().map_or(0, |last| last.number)
}

/// Brings the schema to the version of this build, or checks that it has it.
pub(crate) async fn run(
    client: &mut Client,
    schema: &Schema,
    policy: MigrationPolicy,
) -> Result<()> {
    // The usual case needs no lock, and one round trip.
    let found = applied_at_once(client, schema).await?;
    check(schema, &found)?;
    let version = found.last().map_or(0, |(number, _)| *number);
    if version == newest() {
        return Ok(());
    }
    if policy == MigrationPolicy::VerifyOnly {
        return Err(PgError::NeedsMigration {
            schema: schema.name().to_owned(),
            found: version,
            needed: newest(),
        });
    }
    let tx = client.transaction().await?;
    tx.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('duroxide.migrate.' || $1, 0))",
        &[&schema.name()],
    )
    .await?;
    // Creating one needs a right on the database that the owner of a schema need not have.
    let is_there = tx
        .query_one(
            "SELECT to_regnamespace($1) IS NOT NULL",
            &[&schema.quoted()],
        )
        .await?;
    if !is_there.try_get::<_, bool>(0)? {
        tx.batch_execute(&create(schema)).await?;
    }
    tx.batch_execute(&preamble(schema)).await?;
    let found = applied(&tx, schema).await?;
    check(schema, &found)?;
    let version = found.last().map_or(0, |(number, _)| *number);
    tx.batch_execute(&sql_from(schema, version)).await?;
    tx.commit().await?;
    Ok(())
}

/// The statements that create the schema or bring an older one up to date, for a person who applies them by hand.
#[must_use]
pub(crate) fn print(schema: &Schema) -> String {
    format!(
        "BEGIN;\n{}\n{}\n{}\nCOMMIT;\n",
        create(schema),
        preamble(schema),
        sql_from(schema, 0)
    )
}

fn create(schema: &Schema) -> String {
    format!("CREATE SCHEMA IF NOT EXISTS {};", schema.quoted())
}

fn preamble(schema: &Schema) -> String {
    let name = schema.quoted();
    format!(
        "SET LOCAL search_path = {name}, pg_temp;
CREATE TABLE IF NOT EXISTS migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);"
    )
}

/// Everything after a version, as one batch.
fn sql_from(schema: &Schema, version: i32) -> String {
    let mut sql = String::new();
    for migration in MIGRATIONS.iter().filter(|it| it.number > version) {
        sql.push_str(migration.sql);
        sql.push_str(&format!(
            "\nINSERT INTO migrations (number, name, checksum) VALUES ({}, '{}', '{}');\n",
            migration.number,
            migration.name,
            checksum(migration.sql)
        ));
    }
    if !sql.is_empty() {
        sql.push_str(&pin_path(schema));
    }
    sql
}

/// Functions see this schema and nothing a caller puts before it.
fn pin_path(schema: &Schema) -> String {
    let name = schema.quoted();
    format!(
        "DO $pin$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT p.oid::regprocedure FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
             WHERE n.nspname = '{}' AND p.proname NOT IN ({INNER}) LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = {name}, pg_temp', f);
    END LOOP;
END $pin$;\n",
        schema.name()
    )
}

/// What was applied, asked outside of a transaction, where a table that is not there may be an error.
async fn applied_at_once(client: &Client, schema: &Schema) -> Result<Vec<(i32, String)>> {
    let sql = format!(
        "SELECT number, checksum FROM {}.migrations ORDER BY number",
        schema.quoted()
    );
    let answers = match client.simple_query(&sql).await {
        Ok(answers) => answers,
        Err(error)
            if error.code() == Some(&SqlState::UNDEFINED_TABLE)
                || error.code() == Some(&SqlState::INVALID_SCHEMA_NAME) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for answer in answers {
        if let SimpleQueryMessage::Row(row) = answer {
            let number = row.get(0).and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| PgError::Database {
                why: "the table of migrations cannot be read".to_owned(),
            })?;
            found.push((number, row.get(1).unwrap_or_default().to_owned()));
        }
    }
    Ok(found)
}

async fn applied(
    client: &impl tokio_postgres::GenericClient,
    schema: &Schema,
) -> Result<Vec<(i32, String)>> {
    let table = format!("{}.migrations", schema.quoted());
    let is_there = client
        .query_one("SELECT to_regclass($1::text) IS NOT NULL", &[&table])
        .await?;
    if !is_there.try_get::<_, bool>(0)? {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT number, checksum FROM {table} ORDER BY number");
    let rows = client.query(&sql, &[]).await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

fn check(schema: &Schema, found: &[(i32, String)]) -> Result<()> {
    for (number, sum) in found {
        let known = MIGRATIONS.iter().find(|it| it.number == *number);
        let Some(known) = known else {
            return Err(PgError::NewerSchema {
                schema: schema.name().to_owned(),
                found: *number,
                known: newest(),
            });
        };
        if *sum != checksum(known.sql) {
            return Err(PgError::ChangedMigration {
                schema: schema.name().to_owned(),
                number: *number,
            });
        }
    }
    Ok(())
}

/// Removes the schema with everything in it.
pub(crate) async fn drop_schema(tx: &Transaction<'_>, schema: &Schema) -> Result<()> {
    let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", schema.quoted());
    tx.batch_execute(&sql).await?;
    Ok(())
}

/// FNV-1a: notices a changed text, and is no protection against an attacker.
fn checksum(text: &str) -> String {
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_a_gap() {
        for (place, migration) in (1..).zip(MIGRATIONS) {
            assert_eq!(migration.number, place);
            assert!(migration.name.starts_with(&format!("{place:04}_")));
        }
    }

    #[test]
    fn the_printed_sql_is_one_transaction_with_every_migration() {
        let sql = print(&Schema::parse("tenant_7").unwrap());
        assert!(sql.starts_with("BEGIN;") && sql.ends_with("COMMIT;\n"));
        for migration in MIGRATIONS {
            assert!(sql.contains(migration.sql), "{}", migration.name);
        }
    }
}
