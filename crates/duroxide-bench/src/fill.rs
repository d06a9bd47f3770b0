//! Many instances at once: the rows of one real instance, copied by SQLite itself under other ids. In: a file with the
//! seed. Out: the same file with so many more, the newest as old as the seed and each 10 ms older than the next one.
//! Knows no table by name, so it fills the published crate's file too.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::course::SEED;

/// Copies per transaction.
const CHUNK: u32 = 50_000;
/// How much older each copy is than the next one.
pub(crate) const APART_MS: u32 = 10;

/// Copies the seed so often.
pub(crate) fn run(file: &Path, count: u32) {
    fill(file, count).expect("fill the store");
    // What is measured next must not pay for writing this to the disk.
    std::fs::File::open(file)
        .and_then(|file| file.sync_all())
        .expect("sync the store");
}

fn fill(file: &Path, count: u32) -> rusqlite::Result<()> {
    let mut db = Connection::open(file)?;
    db.execute_batch("PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF; PRAGMA cache_size=-65536;")?;
    let copies = tables(&db)?
        .iter()
        .map(|table| copy_statement(&db, table, count))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut done = 0;
    while done < count {
        let until = count.min(done + CHUNK);
        let write = db.transaction()?;
        for copy in &copies {
            write
                .prepare_cached(copy)?
                .execute(params![done, until, SEED])?;
        }
        write.commit()?;
        done = until;
        eprintln!("  {done} of {count} instances");
    }
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")
}

/// Tables whose rows belong to an instance.
fn tables(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut find = db.prepare(
        "SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) c
         WHERE m.type = 'table' AND c.name = 'instance_id' ORDER BY m.name",
    )?;
    let names = find.query_map([], |row| row.get(0))?;
    names.collect()
}

/// Copies the seed's rows of a table, with the id of the copy wherever the seed's id stands. Row numbers are given
/// anew.
fn copy_statement(db: &Connection, table: &str, count: u32) -> rusqlite::Result<String> {
    let mut find = db.prepare(
        "SELECT name FROM pragma_table_info(?1)
         WHERE NOT (pk = 1 AND upper(type) = 'INTEGER'
                    AND 1 = (SELECT count(*) FROM pragma_table_info(?1) WHERE pk > 0))",
    )?;
    let columns: Vec<String> = find
        .query_map([table], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let values: Vec<String> = columns
        .iter()
        .map(|c| {
            let integer = if c.ends_with("_at") {
                format!("s.{c} - ({count} - n.i) * {APART_MS}")
            } else {
                format!("s.{c}")
            };
            format!(
                "CASE typeof(s.{c}) WHEN 'text' THEN replace(s.{c}, ?3, printf('fill-%07d', n.i)) WHEN 'integer' THEN {integer}
                 ELSE s.{c} END"
            )
        })
        .collect();
    let seed = format!("seed_{table}");
    db.execute_batch(&format!(
        "CREATE TEMP TABLE {seed} AS SELECT * FROM main.{table} WHERE instance_id = '{SEED}'"
    ))?;
    Ok(format!(
        "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
         INSERT INTO main.{table} ({}) SELECT {} FROM n CROSS JOIN temp.{seed} s",
        columns.join(", "),
        values.join(", ")
    ))
}
