//! `move`: instances of every state come over whole, from any store to any other, and go on; killed at any moment, the
//! next call finishes what was begun, and of two calls at once one does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::redb::RedbProvider;
use duroxide::providers::sqlite::SqliteProvider;
#[cfg(feature = "kill-points")]
use duroxide::{ActivityRegistry, OrchestrationContext, OrchestrationRegistry, Runtime};
use duroxide::{Client, OrchestrationStatus};

#[cfg(feature = "kill-points")]
use crate::schema::Schema;
use crate::support::{Answer, Kind, Store, answer, binary, start};
#[cfg(feature = "kill-points")]
use crate::through_postgres::server_url;

pub(crate) fn run(arguments: &[&str]) -> Answer {
    answer(binary().args(arguments).output().unwrap())
}

/// The binary, killed the n-th time it passes a point; whether it was.
#[cfg(feature = "kill-points")]
pub(crate) fn killed(arguments: &[&str], point: &str, nth: u32) -> bool {
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
pub(crate) fn contents(address: &str) -> Vec<serde_json::Value> {
    contents_of(&["--store", address])
}

/// The same, of a store that is named by these arguments.
pub(crate) fn contents_of(store: &[&str]) -> Vec<serde_json::Value> {
    let told = run(&[store, &["export"]].concat());
    assert_eq!(told.code, 0, "{told:?}");
    let parse = |line| serde_json::from_str(line).unwrap();
    let mut lines: Vec<serde_json::Value> = told.out.lines().map(parse).collect();
    lines.sort_by_key(|line| line["instance_id"].to_string());
    lines
}

pub(crate) fn digests(address: &str) -> Vec<(String, String)> {
    digests_of(&["--store", address])
}

/// The same, of a store that is named by these arguments.
fn digests_of(store: &[&str]) -> Vec<(String, String)> {
    let pair = |line: &serde_json::Value| {
        (
            line["instance_id"].as_str().unwrap().to_owned(),
            line["digest"].as_str().unwrap().to_owned(),
        )
    };
    contents_of(store).iter().map(pair).collect()
}

/// Everything that waited goes on.
pub(crate) async fn goes_on(address: &str) {
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

/// The server keeps what was committed before the kill, and its locks end with the connection.
#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn a_move_into_postgres_or_out_of_it_that_is_killed_goes_on() {
    let (url, folder) = (server_url(), tempfile::tempdir().unwrap());
    let moments = [
        ("move_target_closed", 1),
        ("move_source_closed", 1),
        ("move_copied", 1),
        ("move_copied", 5),
        ("move_all_copied", 1),
        ("move_source_told", 1),
        ("move_target_opened", 1),
    ];
    for (n, (point, nth)) in moments.into_iter().enumerate() {
        let (store, schema) = (Store::filled(Kind::Redb).await, Schema::named());
        let from = store.address();
        let before = digests(&from);
        let back = format!("sqlite:{}", folder.path().join(format!("{n}.db")).display());
        let there = ["move", &from, &url, "--to-schema", &schema.0, "--yes"];
        let home = ["--schema", &schema.0, "move", &url, &back, "--yes"];
        let within = ["--store", &url, "--schema", &schema.0];
        for (arguments, target) in [(there, &within[..]), (home, &["--store", &back][..])] {
            assert!(killed(&arguments, point, nth), "{point} is passed");
            // Once more, at the same place: the second try may not come there.
            killed(&arguments, point, nth);
            let last = run(&arguments);
            assert_eq!(last.code, 0, "{point}: {last:?}");
            assert_eq!(digests_of(target), before, "{point}");
        }
        let late = run(&[&within[..], &["start", "order", "late"]].concat());
        assert_eq!(late.code, 1, "{point}: {late:?}");
        goes_on(&back).await;
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

/// Two operators move one store to two targets at the same moment: one of them does, and the other target stays open
/// and empty.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_moves_at_once_one_is_made() {
    for round in 0..4 {
        let store = Store::filled(Kind::Sqlite).await;
        let (from, folder) = (store.address(), tempfile::tempdir().unwrap());
        let before = digests(&from);
        let to = ["one", "two"].map(|name| {
            let file = folder.path().join(format!("{name}.db"));
            format!("sqlite:{}", file.display())
        });
        let children = to.clone().map(|to| {
            let mut command = binary();
            command.args(["move", &from, &to, "--yes"]);
            let piped = std::process::Stdio::piped;
            command.stdout(piped()).stderr(piped()).spawn().unwrap()
        });
        let answers = children.map(|child| answer(child.wait_with_output().unwrap()));
        let (done, refused) = match (answers[0].code, answers[1].code) {
            (0, 1) => (&to[0], &to[1]),
            (1, 0) => (&to[1], &to[0]),
            _ => panic!("round {round}: {answers:?}"),
        };
        assert_eq!(digests(done), before, "round {round}");
        // It came too late to be made at all, or it is open and empty.
        if Path::new(refused.trim_start_matches("sqlite:")).exists() {
            assert!(contents(refused).is_empty(), "round {round}");
            let starts = run(&["--store", refused, "start", "order", "new"]);
            assert_eq!(starts.code, 0, "round {round}: {starts:?}");
        }
        let starts = run(&["--store", &from, "start", "order", "late"]);
        assert_eq!(starts.code, 1, "round {round}: {starts:?}");
    }
}

/// The same move is called twice at the same moment: both end well, and nothing comes twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_called_twice_at_once_is_made_once() {
    for round in 0..4 {
        let store = Store::filled(Kind::Sqlite).await;
        let (from, folder) = (store.address(), tempfile::tempdir().unwrap());
        let before = digests(&from);
        let to = format!("sqlite:{}", folder.path().join("b.db").display());
        let children = [(); 2].map(|()| {
            let mut command = binary();
            command.args(["move", &from, &to, "--yes"]);
            let piped = std::process::Stdio::piped;
            command.stdout(piped()).stderr(piped()).spawn().unwrap()
        });
        let answers = children.map(|child| answer(child.wait_with_output().unwrap()));
        assert!(answers.iter().any(|it| it.code == 0), "{answers:?}");
        let last = run(&["move", &from, &to, "--yes", "--json"]);
        assert!(last.out.contains("was_moved_before"), "{last:?}");
        assert_eq!(digests(&to), before, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_moved_is_not_moved_elsewhere() {
    let store = Store::filled(Kind::Sqlite).await;
    let (from, folder) = (store.address(), tempfile::tempdir().unwrap());
    let first = format!("redb:{}", folder.path().join("b.redb").display());
    assert_eq!(run(&["move", &from, &first, "--yes"]).code, 0);
    let elsewhere = folder.path().join("c.db");
    let second = format!("sqlite:{}", elsewhere.display());
    let refused = run(&["move", &from, &second, "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains(&format!("moved to {first}")),
        "{refused:?}"
    );
    assert!(!elsewhere.exists(), "no target was made");
    // Nor is it told as moved to a target that was lost.
    std::fs::remove_file(folder.path().join("b.redb")).unwrap();
    let lost = run(&["move", &from, &first, "--yes"]);
    assert_eq!(lost.code, 8, "{lost:?}");
    assert!(!folder.path().join("b.redb").exists());
}

/// While a move is under way nobody changes what was copied, so the next call can finish it.
#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn operators_change_nothing_in_a_store_that_is_half_moved() {
    let store = Store::filled(Kind::Sqlite).await;
    let folder = tempfile::tempdir().unwrap();
    let to = format!("redb:{}", folder.path().join("b.redb").display());
    let from = store.address();
    let before = digests(&from);
    assert!(killed(&["move", &from, &to, "--yes"], "move_copied", 5));
    for change in [
        &["labels", "ask", "--set", "team=blue"][..],
        &["pause", "ask"],
        &["delete", "paid", "--yes"],
        &["retention", "--ended-for", "0s", "--yes"],
        &["cancel", "nap"],
    ] {
        let refused = store.run(change);
        assert_ne!(refused.code, 0, "{change:?}: {refused:?}");
        assert!(refused.err.contains("is not finished"), "{refused:?}");
    }
    let done = run(&["move", &from, &to, "--yes"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(digests(&to), before);
    goes_on(&to).await;
}

/// A target that waits for one source takes no other one, and can be opened again.
#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn a_target_waits_for_one_source() {
    let one = Store::filled(Kind::Sqlite).await;
    let other = Store::filled(Kind::Redb).await;
    let folder = tempfile::tempdir().unwrap();
    let to = format!("sqlite:{}", folder.path().join("b.db").display());
    for point in ["move_target_closed", "move_source_closed"] {
        let (from, _) = (
            one.address(),
            killed(&["move", &one.address(), &to, "--yes"], point, 1),
        );
        let refused = run(&["move", &other.address(), &to, "--yes"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("another source"), "{refused:?}");
        assert!(refused.err.contains(&from), "{refused:?}");
        let open = run(&["--store", &other.address(), "start", "order", point]);
        assert_eq!(open.code, 0, "{open:?}");
    }
    assert_eq!(run(&["move", &one.address(), &to, "--yes"]).code, 0);
    goes_on(&to).await;
}

/// A store with messages and an activity that nobody can read.
pub(crate) async fn with_rows_that_cannot_be_read() -> Store {
    let store = Store::filled(Kind::Sqlite).await;
    let file = rusqlite::Connection::open(store.path()).unwrap();
    let torn = file.execute(
        "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at, execution_id, operation_id, awaited_by)
         VALUES ('ask', 'ActivityFailed', 'torn {', 1, 1, 1, 9, NULL), ('ask', 'SubOrchFailed', 'torn [', 1, 1, 1, 8, NULL)",
        [],
    );
    torn.unwrap();
    let torn = file.execute(
        "INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, created_at)
         VALUES ('ask', 0, 0, 'torn (', 1, 1)",
        [],
    );
    torn.unwrap();
    store
}

/// Rows that nobody can read come along, from store to store: no message blocks the ones behind it, whatever is wrong
/// with it.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_moved_as_well() {
    let store = with_rows_that_cannot_be_read().await;
    let (from, folder) = (store.address(), tempfile::tempdir().unwrap());
    let before = digests(&from);
    let other = format!("redb:{}", folder.path().join("b.redb").display());
    let back = format!("sqlite:{}", folder.path().join("c.db").display());
    for step in [[&from, &other], [&other, &back]] {
        let moved = run(&["move", step[0], step[1], "--yes"]);
        assert_eq!((moved.code, moved.err.as_str()), (0, ""), "{step:?}");
    }
    assert_eq!(digests(&back), before);
}

/// What changes a store as a whole leaves a line in the audit trail.
#[tokio::test(flavor = "multi_thread")]
async fn moves_imports_and_reopenings_are_in_the_audit_trail() {
    let store = Store::filled(Kind::Sqlite).await;
    let (from, folder) = (store.address(), tempfile::tempdir().unwrap());
    let trail = folder.path().join("trail.jsonl");
    let lines = folder.path().join("all.jsonl").display().to_string();
    let to = format!("redb:{}", folder.path().join("b.redb").display());
    let audited = |arguments: &[&str]| {
        let mut command = binary();
        command
            .env("DUROXIDE_AUDIT_FILE", &trail)
            .env("USER", "night shift");
        let told = answer(command.args(arguments).output().unwrap());
        assert!([0, 7].contains(&told.code), "{told:?}");
    };
    audited(&["--store", &from, "export", "-o", &lines]);
    audited(&["move", &from, &to, "--yes"]);
    audited(&["--store", &from, "reopen", "--yes"]);
    audited(&["--store", &to, "import", &lines]);
    audited(&["--store", &to, "delete", "paid", "--yes"]);
    let text = std::fs::read_to_string(&trail).unwrap();
    let read = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let trail: Vec<_> = text.lines().map(read).collect();
    let verbs: Vec<_> = trail
        .iter()
        .map(|line| line["verb"].as_str().unwrap())
        .collect();
    assert_eq!(verbs, ["move", "reopen", "import", "delete"]);
    assert!(
        trail
            .iter()
            .all(|line| line["actor"] == "duroxide-cli:night shift")
    );
    assert_eq!(trail[0]["detail"], format!("{from} to {to}"));
}

/// A long history comes in steps. Killed between two of them, nothing is there of it, and the next call brings all of
/// it.
#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn a_long_history_whose_move_is_killed_between_two_steps_is_moved_whole() {
    let source = Store::empty(Kind::Redb).await;
    {
        let store = source.open().await;
        let long = |ctx: OrchestrationContext, _: String| async move {
            for n in 0..2_500 {
                ctx.set_kv_value("n", n.to_string());
            }
            Ok(String::new())
        };
        let orchestrations = OrchestrationRegistry::builder().register("long", long);
        let activities = ActivityRegistry::builder().build();
        let runtime =
            Runtime::start_with_store(store.clone(), activities, orchestrations.build()).await;
        let client = Client::new(store);
        client
            .start_orchestration("long", "long", "")
            .await
            .unwrap();
        let minute = Duration::from_secs(60);
        client.wait_for_orchestration("long", minute).await.unwrap();
        runtime.shutdown(None).await;
    }
    let (from, folder) = (source.address(), tempfile::tempdir().unwrap());
    let to = format!("sqlite:{}", folder.path().join("b.db").display());
    let before = digests(&from);
    let arguments = ["move", &from, &to, "--yes"];
    for nth in [1, 3] {
        assert!(killed(&arguments, "restore_step", nth), "{nth}");
        assert!(digests(&to).is_empty(), "a part of it is there");
    }
    let moved = run(&arguments);
    assert_eq!((moved.code, moved.err.as_str()), (0, ""));
    assert_eq!(digests(&to), before);
}

/// The source may be on its way though its closing was answered with an error: nothing runs in the target before that
/// is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fails_to_close_leaves_the_target_closed() {
    let store = Store::filled(Kind::Sqlite).await;
    let (from, folder) = (store.address(), tempfile::tempdir().unwrap());
    let to = format!("redb:{}", folder.path().join("b.redb").display());
    let before = digests(&from);
    store.sql(
        "CREATE TRIGGER jammed BEFORE INSERT ON closing BEGIN SELECT RAISE(ABORT, 'jammed'); END",
    );
    let failed = run(&["move", &from, &to, "--yes"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.err.contains("jammed"), "{failed:?}");
    assert!(failed.err.contains("The target stays closed"), "{failed:?}");
    let refused = run(&["--store", &to, "start", "order", "early"]);
    assert!(refused.err.contains("is not finished"), "{refused:?}");
    store.sql("DROP TRIGGER jammed");
    let done = run(&["move", &from, &to, "--yes"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(digests(&to), before);
    goes_on(&to).await;
}
