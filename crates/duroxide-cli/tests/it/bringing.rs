//! `export` and `import`: families come out of one state and in together, or wait; nobody runs a child before its
//! parent is there.

use std::path::Path;
use std::time::Duration;

use duroxide::Client;

#[cfg(feature = "kill-points")]
use crate::moving::killed;
use crate::moving::{contents, goes_on, run};
use crate::support::{Kind, Store, start};

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

/// Repeating is going on: the store stays closed, and says with which file; the families that were begun stay together.
#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = exported(&Store::filled(Kind::Redb).await, folder.path());
    for (resume, point, nth) in [
        (&["--resume", "42"][..], "import_line", 3),
        (&[], "import_line", 4),
        (&[], "import_line", 7),
        (&[], "import_begun", 1),
    ] {
        let target = Store::empty(Kind::Sqlite).await;
        let address = target.address();
        let begin = [&["--store", &address, "import", &file][..], resume].concat();
        assert!(killed(&begin, point, nth), "{point} {nth}");
        let came = if point == "import_line" { nth } else { 0 };
        assert_eq!(contents(&address).len(), came as usize);
        let refused = run(&["--store", &address, "start", "order", "early"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("is not finished"), "{refused:?}");
        let another = folder.path().join("another.jsonl");
        std::fs::write(&another, "\n").unwrap();
        let another = another.display().to_string();
        let refused = run(&["--store", &address, "import", &another]);
        assert_eq!(refused.code, 1, "{refused:?}");
        let done = run(&["--store", &address, "import", &file, "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(told["imported"]["were_there"], came, "{told}");
        assert_eq!(told["imported"]["ids"], 7, "{told}");
        goes_on(&address).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_lists_parents_before_their_children() {
    for kind in [Kind::Sqlite, Kind::Redb] {
        let told = Store::filled(kind).await.run(&["export"]);
        let parse = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let lines: Vec<_> = told.out.lines().map(parse).collect();
        let ids: Vec<_> = lines
            .iter()
            .map(|it| it["instance_id"].as_str().unwrap())
            .collect();
        let place = |id| ids.iter().position(|it| *it == id).unwrap();
        assert!(place("family") < place("family::sub::2"), "{ids:?}");
        assert_eq!(ids.len(), 7, "{ids:?}");
    }
}

/// With a filter, of a family those that it admits.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_admits_parts_of_a_family() {
    let store = Store::filled(Kind::Sqlite).await;
    let ids = |arguments: &[&str]| {
        let told = store.run(&[&["export"][..], arguments].concat());
        assert_eq!(told.code, 0, "{told:?}");
        let id = |line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["instance_id"].as_str().unwrap().to_owned()
        };
        let mut ids: Vec<String> = told.out.lines().map(id).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&["--name", "approval"]), ["ask", "family::sub::2"]);
    assert_eq!(ids(&["family"]), ["family", "family::sub::2"]);
    assert_eq!(ids(&["family::sub::2"]), ["family::sub::2"]);
    assert_eq!(ids(&["--status", "failed"]), ["refused"]);
}

async fn nodes_run(client: &Client) {
    let mut wait = tokio::time::interval(Duration::from_millis(10));
    while client.nodes().await.unwrap().unwrap().is_empty() {
        wait.tick().await;
    }
}

/// Beside nodes an export has to be asked for, and its import says what that means.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_beside_nodes_is_asked_for_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.jsonl").display().to_string();
    let store = Store::filled(Kind::Sqlite).await;
    let runtime = start(store.open().await).await;
    nodes_run(&runtime.client()).await;
    let refused = store.run(&["export", "-o", &file]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("1 nodes run on the store"),
        "{refused:?}"
    );
    let forced = store.run(&["export", "--force", "-o", &file]);
    assert_eq!(forced.code, 0, "{forced:?}");
    runtime.shutdown(None).await;
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.lines()
            .all(|line| line.contains("\"beside_nodes\":true"))
    );
    let target = Store::empty(Kind::Redb).await;
    let done = target.run(&["import", &file]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.err.contains("7 lines were exported while nodes ran"),
        "{done:?}"
    );
    goes_on(&target.address()).await;
}

/// An import closes the store until everything is in: not under nodes, unless that is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_waits_until_no_node_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = exported(&Store::filled(Kind::Redb).await, folder.path());
    let target = Store::empty(Kind::Sqlite).await;
    let runtime = start(target.open().await).await;
    let client = runtime.client();
    nodes_run(&client).await;
    let refused = target.run(&["import", &file]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("1 nodes run on the store"),
        "{refused:?}"
    );
    assert!(
        client.list_all_instances().await.unwrap().is_empty(),
        "nothing came in"
    );
    let forced = target.run(&["import", &file, "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    for id in ["ask", "family::sub::2"] {
        client.raise_event(id, "approved", "yes").await.unwrap();
    }
    let minute = Duration::from_secs(60);
    for id in ["ask", "family"] {
        let ended = client.wait_for_orchestration(id, minute).await.unwrap();
        assert!(
            format!("{ended:?}").starts_with("Completed"),
            "{id}: {ended:?}"
        );
    }
    runtime.shutdown(None).await;
}

/// A parent that is there as another life keeps its own children: those of the file stay out, and are told.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_does_not_come_without_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let file = exported(&Store::filled(Kind::Sqlite).await, folder.path());
    let text = std::fs::read_to_string(&file).unwrap();
    let is_child = |line: &&str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["instance_id"] == "family::sub::2"
    };
    let parents: Vec<&str> = text.lines().filter(|it| !is_child(it)).collect();
    assert_eq!(parents.len(), 6);
    let part = folder.path().join("parents.jsonl").display().to_string();
    std::fs::write(&part, parents.join("\n")).unwrap();
    let target = Store::empty(Kind::Redb).await;
    assert_eq!(target.run(&["import", &part]).code, 0);
    let before = contents(&target.address()).len();
    let told = target.run(&["import", &file]);
    assert_eq!(told.code, 7, "{told:?}");
    assert!(told.err.contains("is a child of `family`"), "{told:?}");
    assert_eq!(contents(&target.address()).len(), before);
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
    let incarnation = |line: &serde_json::Value| line["snapshot"]["record"]["life"].clone();
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
        assert_eq!(
            incarnation(before) != incarnation(after),
            comes_again,
            "{id}"
        );
    }
    goes_on(&store.address()).await;
}

/// What the store did not take for certain may be in: it stays closed, and the next call goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_first_line_fails_leaves_the_store_closed() {
    let folder = tempfile::tempdir().unwrap();
    let file = exported(&Store::filled(Kind::Redb).await, folder.path());
    let target = Store::empty(Kind::Sqlite).await;
    target.sql(
        "CREATE TRIGGER no_instance BEFORE INSERT ON instances BEGIN SELECT RAISE(ABORT, 'no room'); END;
         CREATE TRIGGER no_message BEFORE INSERT ON orchestrator_queue BEGIN SELECT RAISE(ABORT, 'no room'); END",
    );
    let failed = target.run(&["import", &file]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.err.contains("no room"), "{failed:?}");
    assert!(failed.err.contains("stays closed"), "{failed:?}");
    let refused = target.run(&["start", "order", "early"]);
    assert!(refused.err.contains("is not finished"), "{refused:?}");
    target.sql("DROP TRIGGER no_instance; DROP TRIGGER no_message");
    let done = target.run(&["import", &file]);
    assert_eq!(done.code, 0, "{done:?}");
    goes_on(&target.address()).await;
}
