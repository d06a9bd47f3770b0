//! A schema that the published `duroxide-pg` 0.1.38 wrote, with instances in every state, goes on here.
//! `compat/published-schema` made it; `tests/published/README.md` says how.

use std::path::Path;
use std::sync::Arc;

use duroxide::providers::Provider;
use duroxide::providers::redb::RedbProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{Client, OrchestrationStatus, Runtime};
use duroxide_pg::PostgresProvider;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::importing::{MINUTE, everything_ends, handlers, is_output};
use crate::moving::{contents, run};
use crate::support::{Answer, answer, binary};
use crate::through_postgres::{server, server_url};

/// The schema's name in the dump.
const DUMPED: &str = "published_0_1_38";

/// Runs statements; returns the first column of the rows.
fn shell(sql: &str) -> Vec<String> {
    let sql = sql.to_owned();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
            tokio::spawn(connection);
            let answers = client.simple_query(&sql).await.unwrap();
            let first = |answer| match answer {
                SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
                _ => None,
            };
            answers.into_iter().filter_map(first).collect()
        })
    };
    std::thread::spawn(run).join().unwrap()
}

/// A schema that goes with the test.
pub(crate) struct Schema(pub(crate) String);

impl Schema {
    pub(crate) fn named() -> Self {
        Self(format!("t_{}", uuid::Uuid::new_v4().simple()))
    }

    /// What the published crate left.
    fn published() -> Self {
        let schema = Self::named();
        let dump = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/published/0.1.38.sql");
        let dump = std::fs::read_to_string(dump).unwrap();
        shell(&format!("CREATE SCHEMA {}", schema.0));
        shell(&dump.replace(DUMPED, &schema.0));
        schema
    }

    fn shell(&self, sql: &str) -> Vec<String> {
        shell(&sql.replace("{s}", &self.0))
    }

    /// Every row of every table.
    fn rows(&self) -> Vec<String> {
        let tables = self.shell(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = '{s}' ORDER BY 1",
        );
        assert!(tables.len() > 8, "{tables:?}");
        let rows = |table: &String| {
            self.shell(&format!(
                "SELECT '{table} ' || t::text FROM {{s}}.{table} AS t ORDER BY 1"
            ))
        };
        tables.iter().flat_map(rows).collect()
    }

    fn import(&self, new: &[&str]) -> Answer {
        self.import_killed_at(None, new)
    }

    /// The binary, which a test may kill at a point.
    fn import_killed_at(&self, point: Option<&str>, new: &[&str]) -> Answer {
        let mut command = binary();
        if let Some(point) = point {
            command.env("DUROXIDE_KILL_AT", point);
        }
        let old = server_url();
        command.args(["--schema", &self.0, "import-published", &old]);
        let output = command.args(new).output().unwrap();
        match output.status.code() {
            Some(_) => answer(output),
            None => Answer {
                code: -1,
                out: String::new(),
                err: String::new(),
            },
        }
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        shell(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.0));
    }
}

/// Every instance that was on its way ends as it should.
async fn all_end(store: Arc<dyn Provider>) {
    let client = Client::new(store.clone());
    let asking = client.get_orchestration_status("asking").await.unwrap();
    assert!(
        matches!(&asking, OrchestrationStatus::Running { custom_status: Some(said), .. } if said == "asked"),
        "{asking:?}"
    );
    let kept = client.get_kv_all_values("counting").await.unwrap();
    assert_eq!(kept.len(), 3, "of three executions: {kept:?}");
    for (id, waits) in [
        ("holding", "waits for activity hold"),
        ("sleeping", "timer"),
        ("raising", "raising::sub::2"),
        ("serving", "waits for activity hold"),
    ] {
        let why = client.explain(id).await.unwrap().to_string();
        assert!(why.contains(waits), "{id}: {why}");
    }
    let runtime = Runtime::start_with_store(
        store,
        handlers::activities(false),
        handlers::orchestrations(),
    )
    .await;
    everything_ends(&client).await;
    let served = client.wait_for_orchestration("serving", MINUTE).await;
    is_output(&served.unwrap(), "held soup");
    let failed = client.get_orchestration_status("failed").await.unwrap();
    assert!(
        matches!(failed, OrchestrationStatus::Failed { .. }),
        "{failed:?}"
    );
    runtime.shutdown(None).await;
}

fn is_whole(told: &Answer) {
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{told:?}");
    assert!(
        told.out.starts_with("10 instances with 12 executions"),
        "{}",
        told.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_schema_comes_into_sqlite_and_goes_on() {
    let old = Schema::published();
    let before = old.rows();
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("new.db").display());
    is_whole(&old.import(&[&address]));
    assert_eq!(old.rows(), before, "the old schema is as it was");
    let again = old.import(&[&address]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("is not empty"), "{again:?}");

    // A timer keeps its time, and what was claimed is free.
    let due = old.shell(
        "SELECT (extract(epoch FROM visible_at) * 1000)::bigint FROM {s}.orchestrator_queue WHERE instance_id = 'sleeping'",
    );
    let lines = contents(&address);
    let of = |id: &str| lines.iter().find(|it| it["instance_id"] == id).unwrap();
    let timer = &of("sleeping")["snapshot"]["messages"][0];
    assert_eq!(timer["visible_at_ms"].to_string(), due[0]);
    assert_eq!(of("holding")["snapshot"]["activities"][0]["attempts"], 1);
    assert_eq!(
        of("serving")["snapshot"]["activities"][0]["session"],
        "desk"
    );
    all_end(Arc::new(SqliteProvider::new(&address, None).await.unwrap())).await;
    let check = run(&["--store", &address, "check"]);
    assert!(check.out.ends_with(" 0 problems\n"), "{check:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_schema_comes_into_postgres_and_goes_on() {
    let (old, new) = (Schema::published(), Schema::named());
    let url = server_url();
    is_whole(&old.import(&[&url, "--to-schema", &new.0]));
    let store = PostgresProvider::new_with_schema(&server(), Some(&new.0)).await;
    all_end(Arc::new(store.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_schema_comes_into_redb_and_goes_on() {
    let old = Schema::published();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.redb");
    is_whole(&old.import(&[&format!("redb:{}", path.display())]));
    all_end(Arc::new(RedbProvider::open(&path).unwrap())).await;
}

/// The target stays closed, and says for what; an old schema that has changed meanwhile does not mix with what came
/// before.
#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_a_published_schema_that_is_killed_goes_on() {
    let old = Schema::published();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let address = format!("sqlite:{}", path.display());
    for at in ["import_published_begun:1", "move_copied:4"] {
        let killed = old.import_killed_at(Some(at), &[&address]);
        assert_eq!(killed.code, -1, "{at}: {killed:?}");
    }
    let refused = run(&["--store", &address, "start", "a", "b"]);
    assert!(refused.err.contains("is not finished"), "{refused:?}");
    // One that went over already; others may go over before its difference is found.
    let copied: String = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT instance_id FROM instances", [], |row| row.get(0))
        .unwrap();
    let change = |from: &str, to: &str| {
        old.shell(&format!(
            "UPDATE {{s}}.history SET event_data = replace(event_data, '{from}', '{to}') WHERE instance_id = '{copied}'"
        ));
    };
    change("0.1.32", "0.1.31");
    let mixed = old.import(&[&address]);
    assert_eq!(mixed.code, 1, "{mixed:?}");
    assert!(
        mixed.err.contains("is not the same on both sides"),
        "{mixed:?}"
    );
    change("0.1.31", "0.1.32");
    is_whole(&old.import(&[&address]));
    all_end(Arc::new(SqliteProvider::new(&address, None).await.unwrap())).await;
}

/// What a program does after the moment that is read would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_a_program_works_on_is_refused() {
    let old = Schema::published();
    old.shell(
        "UPDATE {s}.worker_queue SET locked_until = (extract(epoch FROM now()) * 1000)::bigint + 60000
         WHERE lock_token IS NOT NULL",
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let address = format!("sqlite:{}", path.display());
    let refused = old.import(&[&address]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("are leased to a program"),
        "{refused:?}"
    );
    assert!(!path.exists(), "nothing was made");
    is_whole(&old.import(&[&address, "--force"]));
    all_end(Arc::new(SqliteProvider::new(&address, None).await.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_published_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let address = format!("sqlite:{}", path.display());
    let refused = |schema: &Schema, words: &str| {
        let told = schema.import(&[&address]);
        assert_eq!(told.code, 8, "{told:?}");
        assert!(told.err.contains(words), "{words}: {told:?}");
        assert!(!path.exists(), "nothing was made");
    };
    refused(&Schema::named(), "there are no tables in it");
    let foreign = Schema::named();
    foreign.shell("CREATE SCHEMA {s}; CREATE TABLE {s}.instances (id int)");
    refused(&foreign, "duroxide-pg did not make it");
    let ours = Schema::named();
    let store = PostgresProvider::new_with_schema(&server(), Some(&ours.0)).await;
    drop(store.unwrap());
    refused(&ours, "`duroxide move` moves it");
    for (sql, words) in [
        (
            "INSERT INTO {s}._duroxide_migrations (version, name) VALUES (27, 'later')",
            "migration 27 is not of duroxide-pg 0.1.38",
        ),
        (
            "DELETE FROM {s}._duroxide_migrations WHERE version > 20",
            "open it once with duroxide-pg 0.1.38",
        ),
        (
            "DELETE FROM {s}._duroxide_migrations",
            "its last migration is 0",
        ),
        ("DROP TABLE {s}.kv_delta", "there is no table kv_delta"),
        (
            "ALTER TABLE {s}.executions DROP COLUMN output",
            "executions has no column output",
        ),
        (
            "ALTER TABLE {s}.worker_queue ALTER COLUMN session_id TYPE bigint USING NULL",
            "worker_queue.session_id is bigint and not text",
        ),
    ] {
        let schema = Schema::published();
        schema.shell(sql);
        refused(&schema, words);
    }
    let old = Schema::published();
    let url = server_url();
    let same = old.import(&[&url, "--to-schema", &old.0]);
    assert_eq!(same.code, 2, "{same:?}");
}

/// What cannot be read comes along, and what lies in the wrong place is there as a dead letter: nothing vanishes.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_nobody_could_use_come_along() {
    let old = Schema::published();
    let item = |sql: &str| old.shell(sql).remove(0);
    let activity = item("SELECT work_item FROM {s}.worker_queue WHERE instance_id = 'holding'");
    let start = item("SELECT work_item FROM {s}.orchestrator_queue WHERE instance_id = 'unbegun'");
    let activity = activity.replace('\'', "''");
    let start = start.replace('\'', "''");
    old.shell(&format!(
        "INSERT INTO {{s}}.orchestrator_queue (instance_id, work_item, visible_at, created_at) VALUES
             ('holding', 'no json', now(), now()), ('holding', '{activity}', now(), now()),
             ('reading', '{start}', now(), now());
         INSERT INTO {{s}}.worker_queue (work_item, visible_at, created_at) VALUES ('nobody''s', now(), now())"
    ));
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("new.db").display());
    is_whole(&old.import(&[&address]));
    let told = run(&["--store", &address, "dead-letters", "list", "--json"]);
    assert_eq!(told.code, 0, "{told:?}");
    for words in [
        "does not belong on the orchestrator queue",
        "it is for `unbegun` and lay with `reading`",
        "does not decode",
    ] {
        assert!(told.out.contains(words), "{words}: {told:?}");
    }
    let lines = contents(&address);
    let holding = lines.iter().find(|it| it["instance_id"] == "holding");
    let holding = &holding.unwrap()["snapshot"];
    assert_eq!(holding["messages"][0]["json"], "no json");
    all_end(Arc::new(SqliteProvider::new(&address, None).await.unwrap())).await;
}
