//! Many instances at once on PostgreSQL: the rows of one real instance, copied by the server under other ids. In: a
//! schema with the seed. Out: the same schema with so many more, as `fill` makes them in SQLite.

use tokio_postgres::{Client, NoTls};

use crate::course::SEED;
use crate::fill::APART_MS;
use crate::open::server;

/// Copies per transaction.
const CHUNK: u32 = 50_000;

/// Copies the seed so often, and lets the server look at what it has, as it would by itself after a while.
pub(crate) async fn run(schema: &str, count: u32) {
    let (client, connection) = tokio_postgres::connect(&server(), NoTls)
        .await
        .expect("connect");
    tokio::spawn(connection);
    fill(&client, schema, count).await.expect("fill the store");
}

async fn fill(client: &Client, schema: &str, count: u32) -> Result<(), tokio_postgres::Error> {
    let tables = tables(client, schema).await?;
    let mut copies = Vec::new();
    for table in &tables {
        copies.push(copy_statement(client, schema, table).await?);
    }
    client.batch_execute("SET synchronous_commit = off").await?;
    let mut done = 0;
    while done < count {
        let until = count.min(done + CHUNK);
        for copy in &copies {
            let copy = copy
                .replace("{from}", &done.to_string())
                .replace("{until}", &until.to_string())
                .replace("{count}", &count.to_string());
            client.batch_execute(&copy).await?;
        }
        done = until;
        eprintln!("  {done} of {count} instances");
    }
    for table in &tables {
        let look = format!("VACUUM ANALYZE \"{schema}\".{table}");
        client.batch_execute(&look).await?;
    }
    client.batch_execute("CHECKPOINT").await
}

/// Tables whose rows belong to an instance.
async fn tables(client: &Client, schema: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let sql = "SELECT table_name::text FROM information_schema.columns
               WHERE table_schema = $1 AND column_name = 'instance_id' ORDER BY 1";
    let rows = client.query(sql, &[&schema]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// Copies the seed's rows of a table, with the id of the copy wherever the seed's id stands. Numbers are given anew.
async fn copy_statement(
    client: &Client,
    schema: &str,
    table: &str,
) -> Result<String, tokio_postgres::Error> {
    let sql = "SELECT column_name::text, data_type::text FROM information_schema.columns
               WHERE table_schema = $1 AND table_name = $2 AND is_identity = 'NO' AND is_generated = 'NEVER'";
    let mut columns: Vec<String> = Vec::new();
    let mut values = Vec::new();
    for row in client.query(sql, &[&schema, &table]).await? {
        let (column, kind): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        values.push(match kind.as_str() {
            "text" => {
                format!("replace(s.{column}, '{SEED}', 'fill-' || lpad(n::text, 7, '0'))")
            }
            "bigint" if column.ends_with("_at") => {
                format!("s.{column} - ({{count}} - n) * {APART_MS}")
            }
            _ => format!("s.{column}"),
        });
        columns.push(column);
    }
    Ok(format!(
        "INSERT INTO \"{schema}\".{table} ({}) SELECT {} FROM generate_series({{from}}, {{until}} - 1) AS n
         CROSS JOIN (SELECT * FROM \"{schema}\".{table} WHERE instance_id = '{SEED}') AS s",
        columns.join(", "),
        values.join(", ")
    ))
}
