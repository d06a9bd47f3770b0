//! `move`, `export` and `import`: instances of every state come over whole, from any store to any other, and go on; killed at any
//! moment, the next call finishes what was begun.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::redb::RedbProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{Client, OrchestrationStatus};

use crate::support::{Answer, Kind, Store, answer, binary, start};

fn run(arguments: &[&str]) -> Answer {
    answer(binary().args(arguments).output().unwrap())
}

/// The binary, killed the n-th time it passes a point; whether it was.
#[cfg(feature = "kill-points")]
fn killed(arguments: &[&str], point: &str, nth: u32) -> bool {
    let mut command = binary();
    command.env("DUROXIDE_KILL_AT", format!("{point}:{nth}"));
    let output = command.args(arguments).output().unwrap();
    output.status.code().is_none()
}

async fn open(address: &str) -> Arc<dyn Provider> {
    match address.split_once(':').unwrap() {
        ("redb", path) => Arc::new(RedbProvider::open(path).unwrap()),
        _ => Arc::new(SqliteProvider::new(address, None).await.unwrap()),
    }
}

/// What is in a store, without a runtime: the lines of its export, in the order of ids.
fn contents(address: &str) -> Vec<serde_json::Value> {
    let told = run(&["--store", address, "export"]);
    assert_eq!(told.code, 0, "{told:?}");
    let parse = |line| serde_json::from_str(line).unwrap();
    let mut lines: Vec<serde_json::Value> = told.out.lines().map(parse).collect();
    lines.sort_by_key(|line| line["instance_id"].to_string());
    lines
}

fn digests(address: &str) -> Vec<(String, String)> {
    let pair = |line: &serde_json::Value| {
        (
            line["instance_id"].as_str().unwrap().to_owned(),
            line["digest"].as_str().unwrap().to_owned(),
        )
    };
    contents(address).iter().map(pair).collect()
}

/// Everything that waited goes on.
async fn goes_on(address: &str) {
    let store = open(address).await;
    let runtime = start(store.clone()).await;
    let client = Client::new(store);
    for id in ["ask", "family::sub::2"] {
        client.raise_event(id, "approved", "yes").await.unwrap();
    }
    for id in ["ask", "family"] {
        let minute = Duration::from_secs(60);
        let ended = client.wait_for_orchestration(id, minute).await.unwrap();
        assert!(
            matches!(&ended, OrchestrationStatus::Completed { output, .. } if output == "yes"),
            "{id}: {ended:?}"
        );
    }
    let why = client.explain("nap").await.unwrap().to_string();
    assert!(why.contains("timer"), "{why}");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_moves_and_goes_on() {
    let store = Store::filled(Kind::Sqlite).await;
    let (from, folder) = (store.address(), tempfile::tempdir().unwrap());
    let other = format!("redb:{}", folder.path().join("b.redb").display());
    let back = format!("sqlite:{}", folder.path().join("c.db").display());
    let before = digests(&from);
    assert_eq!(before.len(), 7, "{before:?}");

    let looked = run(&["move", &from, &other, "--dry-run"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    assert!(looked.out.contains("7 ids"), "{looked:?}");
    assert_eq!(run(&["move", &from, &other]).code, 6);
    assert!(!folder.path().join("b.redb").exists(), "nothing was done");

    let moved = run(&["move", &from, &other, "--yes"]);
    assert_eq!((moved.code, moved.err.as_str()), (0, ""));
    assert!(
        moved.out.starts_with("6 instances with 6 executions"),
        "{moved:?}"
    );
    assert_eq!(digests(&other), before, "nothing was lost or changed");
    assert_eq!(digests(&from), before, "the source can still be read");
    let refused = run(&["--store", &from, "start", "order", "late"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains(&format!("moved to {other}")),
        "{refused:?}"
    );
    let again = run(&["move", &from, &other, "--yes", "--json"]);
    assert!(again.out.contains("was_moved_before"), "{again:?}");

    let moved = run(&["move", &other, &back, "--yes"]);
    assert_eq!((moved.code, moved.err.as_str()), (0, ""));
    assert_eq!(digests(&back), before);
    goes_on(&back).await;
}

/// The tests' server may be given as words: `host=… user=…`.
fn as_url(server: &str) -> String {
    if server.starts_with("postgres") {
        return server.to_owned();
    }
    format!("postgres:///?{}", server.replace(' ', "&"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_through_postgres_keeps_everything() {
    let Ok(server) = std::env::var("DUROXIDE_TEST_POSTGRES_URL") else {
        println!("skipped: DUROXIDE_TEST_POSTGRES_URL is not set");
        return;
    };
    let url = as_url(&server);
    let store = Store::filled(Kind::Redb).await;
    let (from, folder) = (store.address(), tempfile::tempdir().unwrap());
    let back = format!("sqlite:{}", folder.path().join("c.db").display());
    let schema = format!("move_{}", std::process::id());
    let before = digests(&from);
    let moved = run(&["move", &from, &url, "--to-schema", &schema, "--yes"]);
    assert_eq!((moved.code, moved.err.as_str()), (0, ""));
    let moved = run(&["--schema", &schema, "move", &url, &back, "--yes"]);
    assert_eq!((moved.code, moved.err.as_str()), (0, ""));
    assert_eq!(digests(&back), before);
    goes_on(&back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_empty_store_is_moved_into() {
    let store = Store::filled(Kind::Sqlite).await;
    let taken = Store::filled(Kind::Redb).await;
    let refused = run(&["move", &store.address(), &taken.address(), "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("is not empty"), "{refused:?}");
    assert_eq!(
        run(&["--store", &store.address(), "start", "order", "new"]).code,
        0
    );
    assert_eq!(
        run(&["--store", &taken.address(), "start", "order", "new"]).code,
        0
    );
    let same = run(&["move", &store.address(), &store.address(), "--yes"]);
    assert_eq!(same.code, 2, "{same:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_not_moved_under_its_nodes() {
    let store = Store::filled(Kind::Sqlite).await;
    let folder = tempfile::tempdir().unwrap();
    let to = format!("redb:{}", folder.path().join("b.redb").display());
    let runtime = start(store.open().await).await;
    let client = runtime.client();
    let mut wait = tokio::time::interval(Duration::from_millis(10));
    while client.nodes().await.unwrap().unwrap().is_empty() {
        wait.tick().await;
    }
    let refused = run(&["move", &store.address(), &to, "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("1 nodes run on the source"),
        "{refused:?}"
    );
    let forced = run(&["move", &store.address(), &to, "--yes", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    let refused = client.start_orchestration("late", "order", "{}").await;
    assert!(refused.unwrap_err().to_string().contains("moved to"));
    runtime.shutdown(None).await;
    drop(client);
    goes_on(&to).await;
}

#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let moments = [
        ("file_made", 1),
        ("move_target_closed", 1),
        ("move_source_closed", 1),
        ("before_restore", 1),
        ("before_restore", 4),
        ("move_copied", 1),
        ("move_copied", 5),
        ("move_all_copied", 1),
        ("move_source_told", 1),
        ("move_target_opened", 1),
    ];
    for (n, (point, nth)) in moments.into_iter().enumerate() {
        let store = Store::filled(Kind::Redb).await;
        let from = store.address();
        let before = digests(&from);
        let to = format!("sqlite:{}", folder.path().join(format!("{n}.db")).display());
        let arguments = ["move", from.as_str(), to.as_str(), "--yes"];
        assert!(killed(&arguments, point, nth), "{point} is passed");
        // Once more, at the same place: the second try may not come there.
        killed(&arguments, point, nth);
        let last = run(&arguments);
        assert_eq!(last.code, 0, "{point}: {last:?}");
        assert_eq!(digests(&to), before, "{point}");
        let refused = run(&["--store", &from, "start", "order", "late"]);
        assert_eq!(refused.code, 1, "{point}: {refused:?}");
        goes_on(&to).await;
    }
}

#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn a_half_moved_store_runs_nowhere() {
    let store = Store::filled(Kind::Redb).await;
    let folder = tempfile::tempdir().unwrap();
    let to = format!("sqlite:{}", folder.path().join("b.db").display());
    let from = store.address();
    assert!(killed(&["move", &from, &to, "--yes"], "move_copied", 3));
    for half in [&from, &to] {
        let refused = run(&["--store", half, "start", "order", "late"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("is not finished"), "{refused:?}");
    }
    let elsewhere = format!("sqlite:{}", folder.path().join("c.db").display());
    let refused = run(&["move", &from, &elsewhere, "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    // Given up: the source is opened again, and the half of it stays closed.
    assert_eq!(run(&["--store", &from, "reopen"]).code, 6);
    assert_eq!(run(&["--store", &from, "reopen", "--yes"]).code, 0);
    goes_on(&from).await;
}

fn exported(store: &Store, folder: &Path) -> String {
    let file = folder.join("all.jsonl").display().to_string();
    let told = store.run(&["export", "-o", &file]);
    assert_eq!(told.code, 0, "{told:?}");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_imported_whole_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [Kind::Sqlite, Kind::Redb] {
        let file = exported(&Store::filled(Kind::Sqlite).await, folder.path());
        let target = Store::empty(kind).await;
        let address = target.address();
        let looked = run(&["--store", &address, "import", &file, "--dry-run"]);
        assert_eq!(looked.code, 0, "{looked:?}");
        assert!(looked.out.contains("6 instances"), "{looked:?}");
        assert!(contents(&address).is_empty(), "nothing came in");
        let done = run(&["--store", &address, "import", &file]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(contents(&address).len(), 7);
        let twice = run(&["--store", &address, "import", &file]);
        assert_eq!(twice.code, 7, "{twice:?}");
        assert!(twice.err.contains("is there already"), "{twice:?}");
        goes_on(&address).await;
        std::fs::remove_file(&file).unwrap();
    }
}

#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = exported(&Store::filled(Kind::Redb).await, folder.path());
    let target = Store::empty(Kind::Sqlite).await;
    let address = target.address();
    let begin = ["--store", &address, "import", &file, "--resume", "42"];
    assert!(killed(&begin, "import_line", 3));
    assert_eq!(contents(&address).len(), 3);
    let done = run(&[&begin[..], &["--json"]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told["imported"]["were_there"], 3, "{told}");
    assert_eq!(told["imported"]["ids"], 7, "{told}");
    goes_on(&address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_cannot_be_imported_are_told_and_the_rest_comes() {
    let folder = tempfile::tempdir().unwrap();
    let file = exported(&Store::filled(Kind::Sqlite).await, folder.path());
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1] = lines[1].replace("\"format\":2", "\"format\":1");
    lines[2] = "no json".to_owned();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let target = Store::empty(Kind::Sqlite).await;
    let told = target.run(&["import", &file]);
    assert_eq!(told.code, 7, "{told:?}");
    assert!(told.err.contains("line 2: "), "{told:?}");
    assert!(told.err.contains("export it again"), "{told:?}");
    assert!(told.err.contains("line 3: "), "{told:?}");
    assert_eq!(contents(&target.address()).len(), 5);
}

/// The same ids live again in the store that they came from: nothing remembers the life before.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_imported_again_is_another_life() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::filled(Kind::Sqlite).await;
    let file = exported(&store, folder.path());
    let life = |line: &serde_json::Value| line["snapshot"]["record"]["life"].clone();
    let before = contents(&store.address());
    for id in ["ask", "family", "nap"] {
        let gone = store.run(&["delete", id, "--force", "--yes"]);
        assert_eq!(gone.code, 0, "{gone:?}");
    }
    assert_eq!(
        store.run(&["import", &file]).code,
        7,
        "some were never deleted"
    );
    let after = contents(&store.address());
    assert_eq!(after.len(), before.len());
    for (before, after) in before.iter().zip(&after) {
        let id = before["instance_id"].as_str().unwrap();
        let comes_again = ["ask", "family", "family::sub::2", "nap"].contains(&id);
        assert_eq!(life(before) != life(after), comes_again, "{id}");
    }
    goes_on(&store.address()).await;
}
