//! The floor: the rows that one `hello` writes, done by a bare rusqlite loop with the same batching. What an engine
//! costs above this is its own doing.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::measure::{Latencies, Sample};
use crate::report::Row;
use crate::system::Subject;

/// Name of the workload.
pub(crate) const NAME: &str = "floor";
/// Orchestrations that share one commit.
const GROUP: usize = 64;

const SCHEMA: &str = "
CREATE TABLE instances (instance_id TEXT PRIMARY KEY, name TEXT, version TEXT, execution INTEGER, created_at INTEGER) WITHOUT ROWID;
CREATE TABLE executions (instance_id TEXT, execution_id INTEGER, status TEXT, output TEXT, PRIMARY KEY (instance_id, execution_id)) WITHOUT ROWID;
CREATE TABLE history (instance_id TEXT, execution_id INTEGER, event_id INTEGER, event_data TEXT, PRIMARY KEY (instance_id, execution_id, event_id)) WITHOUT ROWID;
CREATE TABLE orchestrator_queue (id INTEGER PRIMARY KEY AUTOINCREMENT, instance_id TEXT, work_item TEXT, visible_at INTEGER, lock_token TEXT, attempt_count INTEGER DEFAULT 0);
CREATE INDEX orchestrator_by_instance ON orchestrator_queue (instance_id);
CREATE TABLE worker_queue (id INTEGER PRIMARY KEY AUTOINCREMENT, instance_id TEXT, work_item TEXT, lock_token TEXT, locked_until INTEGER, attempt_count INTEGER DEFAULT 0);
CREATE TABLE instance_locks (instance_id TEXT PRIMARY KEY, lock_token TEXT, locked_until INTEGER) WITHOUT ROWID;
";

/// Runs the loop for about so long.
pub(crate) fn run(subject: Subject, folder: &Path, time: Duration) -> Row {
    let level = match subject {
        Subject::SqliteFull | Subject::SqliteAlone => "FULL",
        _ => "NORMAL",
    };
    let db = Connection::open(folder.join("floor.db")).expect("open");
    db.execute_batch(&format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous={level}; {SCHEMA}"
    ))
    .expect("schema");
    db.set_prepared_statement_cache_capacity(64);
    let sample = Sample::begin(1);
    let until = Instant::now() + time;
    let (mut number, mut seen) = (0_u64, Vec::new());
    while Instant::now() < until {
        let started = Instant::now();
        group(&db, &mut number).expect("a group of writes");
        seen.extend(std::iter::repeat_n(started.elapsed().as_secs_f64(), GROUP));
    }
    Row::of(subject, NAME, &sample.finish(Latencies::of(seen)), folder)
}

/// Five commits, as an engine with 64 in flight makes them: start, first turn claimed and committed, activity claimed
/// and completed, second turn claimed and committed.
fn group(db: &Connection, number: &mut u64) -> rusqlite::Result<()> {
    let ids: Vec<String> = (0..GROUP)
        .map(|_| {
            *number += 1;
            format!("run-hello-{number}")
        })
        .collect();
    let item = r#"{"StartOrchestration":{"instance":"run-hello-1","orchestration":"hello","input":"0","version":null,"parent_instance":null,"parent_id":null,"execution_id":1}}"#;
    let event = r#"{"event_id":1,"source_event_id":null,"instance_id":"run-hello-1","execution_id":1,"timestamp_ms":1700000000000,"duroxide_version":"0.2.0","type":"OrchestrationStarted","name":"hello","version":"1.0.0","input":"0","parent_instance":null,"parent_id":null}"#;
    commit(db, &ids, |id| enqueue(db, id, item))?;
    commit(db, &ids, |id| claim_turn(db, id))?;
    commit(db, &ids, |id| {
        db.prepare_cached("INSERT INTO instances VALUES (?1, 'hello', '1.0.0', 1, 0)")?
            .execute([id])?;
        db.prepare_cached("INSERT INTO executions VALUES (?1, 1, 'Running', NULL)")?
            .execute([id])?;
        append(db, id, 1, event)?;
        append(db, id, 2, event)?;
        db.prepare_cached("INSERT INTO worker_queue (instance_id, work_item) VALUES (?1, ?2)")?
            .execute([id, item])?;
        release(db, id)
    })?;
    commit(db, &ids, |id| {
        db.prepare_cached("UPDATE worker_queue SET lock_token = 't', locked_until = 1, attempt_count = 1 WHERE id = (SELECT min(id) FROM worker_queue WHERE lock_token IS NULL)")?.execute([])?;
        let _ = id;
        Ok(())
    })?;
    commit(db, &ids, |id| {
        db.prepare_cached(
            "DELETE FROM worker_queue WHERE id = (SELECT min(id) FROM worker_queue)",
        )?
        .execute([])?;
        enqueue(db, id, item)
    })?;
    commit(db, &ids, |id| claim_turn(db, id))?;
    commit(db, &ids, |id| {
        append(db, id, 3, event)?;
        append(db, id, 4, event)?;
        db.prepare_cached(
            "UPDATE executions SET status = 'Completed', output = 'x' WHERE instance_id = ?1",
        )?
        .execute([id])?;
        release(db, id)
    })
}

fn commit(
    db: &Connection,
    ids: &[String],
    each: impl Fn(&String) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    for id in ids {
        each(id)?;
    }
    db.execute_batch("COMMIT")
}

fn enqueue(db: &Connection, id: &String, item: &str) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO orchestrator_queue (instance_id, work_item, visible_at) VALUES (?1, ?2, 0)",
    )?
    .execute(params![id, item])
    .map(|_| ())
}

fn claim_turn(db: &Connection, id: &String) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO instance_locks VALUES (?1, 't', 1)")?
        .execute([id])?;
    db.prepare_cached(
        "UPDATE orchestrator_queue SET lock_token = 't', attempt_count = 1 WHERE instance_id = ?1",
    )?
    .execute([id])
    .map(|_| ())
}

fn release(db: &Connection, id: &String) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM orchestrator_queue WHERE instance_id = ?1")?
        .execute([id])?;
    db.prepare_cached("DELETE FROM instance_locks WHERE instance_id = ?1")?
        .execute([id])
        .map(|_| ())
}

fn append(db: &Connection, id: &String, event_id: i64, event: &str) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO history VALUES (?1, 1, ?2, ?3)")?
        .execute(params![id, event_id, event])
        .map(|_| ())
}
