//! What a slip of the hand must not do.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::PruneOptions;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, Runtime, RuntimeOptions};

use crate::support::{Kind, Store, answer, binary};

fn schema_version(store: &Store) -> i64 {
    let conn = rusqlite::Connection::open(store.path()).unwrap();
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

/// The store as a build with one migration less would have left it, as far as its number goes.
fn make_older(store: &Store) -> i64 {
    let older = schema_version(store) - 1;
    let conn = rusqlite::Connection::open(store.path()).unwrap();
    conn.pragma_update(None, "user_version", older).unwrap();
    older
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_never_replaces_the_store_and_other_files_only_if_asked() {
    let store = Store::filled(Kind::Sqlite).await;
    let before = std::fs::read(store.path()).unwrap();
    for extra in [&[][..], &["--yes"]] {
        let path = store.path().display().to_string();
        let own = store.run(&[&["export", "-o", &path], extra].concat());
        assert_eq!(own.code, 2, "{own:?}");
    }
    assert!(std::fs::read(store.path()).unwrap() == before, "untouched");

    let archive = store.path().with_file_name("archive.jsonl");
    std::fs::write(&archive, "of yesterday").unwrap();
    let refused = store.run(&["export", "-o", "archive.jsonl"]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert_eq!(std::fs::read_to_string(&archive).unwrap(), "of yesterday");
    let asked = store.run(&["export", "-o", "archive.jsonl", "--yes"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    let lines = std::fs::read_to_string(&archive).unwrap();
    assert_eq!(lines.lines().count(), 7, "one has not begun");
    let mode = std::fs::metadata(&archive).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "payloads are private: {mode:o}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_variable_does_not_mean_everything() {
    let store = Store::filled(Kind::Sqlite).await;
    for arguments in [
        &["terminate", "--prefix", "", "--yes"][..],
        &["cancel", "--name", "", "--yes"],
        &["delete", "--root", "", "--yes"],
        &["terminate", "--roots", "--yes"],
        &["delete", "--roots", "--yes"],
    ] {
        let refused = store.run(arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {refused:?}");
    }
    let stats = store.json(&["stats"]);
    assert_eq!(stats["instances"], 6);
    assert_eq!(stats["by_status"][0]["count"], 4, "{stats}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_and_a_filter_are_not_given_together() {
    let store = Store::filled(Kind::Sqlite).await;
    for verb in ["delete", "export", "cancel", "terminate"] {
        let refused = store.run(&[verb, "paid", "--status", "failed"]);
        assert_eq!(refused.code, 2, "{verb}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_but_migrate_changes_the_schema() {
    let store = Store::filled(Kind::Sqlite).await;
    let older = make_older(&store);
    for arguments in [
        &["list"][..],
        &["delete", "--status", "completed"],
        &["delete", "--status", "completed", "--yes"],
        &["signal", "ask", "approved"],
        &["terminate", "nap", "--yes"],
    ] {
        let refused = store.run(arguments);
        assert_eq!(refused.code, 8, "{arguments:?}: {refused:?}");
        assert!(refused.err.contains("duroxide migrate"), "{refused:?}");
        assert_eq!(schema_version(&store), older, "{arguments:?}");
    }
    let backup = store.run(&["backup", "before.db"]);
    assert_eq!(backup.code, 0, "a copy of it can be made: {backup:?}");
    let unasked = store.run(&["migrate"]);
    assert_eq!(unasked.code, 6, "{unasked:?}");
    let printed = store.tells(&["migrate", "--print"]);
    assert!(printed.contains(" TABLE "), "{printed}");
    assert_eq!(schema_version(&store), older);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_this_build_needs_no_migration() {
    for kind in [Kind::Sqlite, Kind::Redb] {
        let store = Store::empty(kind).await;
        let told = store.tells(&["migrate", "--yes"]);
        let expected = "the schema is that of this build; nothing was changed\n";
        assert_eq!(told, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typing_error_is_told_by_every_verb() {
    let store = Store::filled(Kind::Sqlite).await;
    for arguments in [
        &["cancel", "ordr-7"][..],
        &["cancel", "ordr-7", "--dry-run"],
        &["terminate", "ordr-7", "--yes"],
        &["signal", "ordr-7", "approved"],
        &["enqueue", "ordr-7", "inbox"],
    ] {
        let unknown = store.run(arguments);
        assert_eq!(unknown.code, 3, "{arguments:?}: {unknown:?}");
    }
    let late = store.tells(&["terminate", "paid", "--yes"]);
    assert_eq!(late, "paid has ended; there is nothing to terminate\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_waits_for_a_node_is_an_instance() {
    let store = Store::filled(Kind::Sqlite).await;
    // `unknown` was started, and no node has its code.
    let sent = store.tells(&["enqueue", "unknown", "inbox", "--data", "hello"]);
    assert_eq!(sent, "a message was put on queue inbox of unknown\n");
    let taken = store.run(&["start", "order", "unknown"]);
    assert_eq!(taken.code, 1, "{taken:?}");
    assert!(taken.err.contains("unknown exists"), "{taken:?}");
    let taken = store.run(&["start", "order", "paid"]);
    assert_eq!(taken.code, 1, "{taken:?}");
    let exact = store.tells(&["start", "order", "new", "--version", "1.0.0", "--if-absent"]);
    assert_eq!(exact, "new will start as order\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_means_what_it_means_to_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("mode=prod");
    std::fs::create_dir(&place).unwrap();
    let address = format!("sqlite:{}/my%20data.db", place.display());
    let missing = binary().args(["-s", &address, "list"]).output().unwrap();
    assert_eq!(answer(missing).code, 8);
    assert!(!place.join("my data.db").exists(), "nothing is created");
    let store = SqliteProvider::new(&address, None).await.unwrap();
    store.close().await;
    for arguments in [&["list"][..], &["check"], &["vacuum", "--yes"]] {
        let ran = binary().args(["-s", &address]).args(arguments).output();
        let ran = answer(ran.unwrap());
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    }
    let files: Vec<_> = std::fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, ["my data.db"]);
}

#[test]
fn no_command_prints_a_password() {
    let address = "postgres://me:secret@127.0.0.1:1/db?password=secret";
    for arguments in [
        &["list"][..],
        &["backup", "x.db"],
        &["vacuum"],
        &["migrate"],
    ] {
        let refused = binary().args(["-s", address]).args(arguments).output();
        let refused = answer(refused.unwrap());
        assert_ne!(refused.code, 0, "{arguments:?}");
        assert!(!refused.err.contains("secret"), "{refused:?}");
        assert!(!refused.out.contains("secret"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_beside_a_program_wants_to_be_asked_for() {
    let store = Store::empty(Kind::Sqlite).await;
    let dry = store.json(&["vacuum", "--dry-run"]);
    assert!(dry["bytes_before"].as_u64().unwrap() > 0, "{dry}");
    let program = store.open().await;
    let refused = store.run(&["vacuum", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("another program"), "{refused:?}");
    let asked = store.run(&["vacuum", "--while-running", "--yes"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    drop(program);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_beside_busy_nodes_finds_nothing() {
    let store = Store::empty(Kind::Sqlite).await;
    let provider = Arc::new(SqliteProvider::new(&store.address(), None).await.unwrap());
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "eternal",
            |ctx: OrchestrationContext, n: String| async move {
                ctx.new_guid().await?;
                let next = n.parse::<u64>().unwrap_or(0) + 1;
                ctx.continue_as_new(next.to_string()).await
            },
        )
        .build();
    let runtime = Runtime::start_with_options(
        provider.clone(),
        duroxide::ActivityRegistry::builder().build(),
        orchestrations,
        RuntimeOptions::default(),
    )
    .await;
    let client = Client::new(provider);
    for n in 0..5 {
        let id = format!("e-{n}");
        client
            .start_orchestration(&id, "eternal", "0")
            .await
            .unwrap();
    }
    for _ in 0..5 {
        let checked = store.run(&["check"]);
        assert_eq!(checked.code, 0, "{checked:?}");
    }
    runtime.shutdown(Some(1_000)).await;
}

/// Returns once this execution of `r` waits for its signal.
async fn waits_in(client: &Client, execution: u64) {
    while client
        .read_execution_history("r", execution)
        .await
        .unwrap()
        .len()
        < 2
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn following_a_history_survives_a_prune() {
    let store = Store::empty(Kind::Sqlite).await;
    let provider = Arc::new(SqliteProvider::new(&store.address(), None).await.unwrap());
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "rounds",
            |ctx: OrchestrationContext, n: String| async move {
                let n = n.parse::<u64>().unwrap_or(0);
                if n == 3 {
                    return Ok("done".to_owned());
                }
                ctx.schedule_wait("go").await;
                ctx.continue_as_new((n + 1).to_string()).await
            },
        )
        .build();
    let runtime = Runtime::start_with_store(
        provider.clone(),
        duroxide::ActivityRegistry::builder().build(),
        orchestrations,
    )
    .await;
    let client = Client::new(provider);
    client
        .start_orchestration("r", "rounds", "0")
        .await
        .unwrap();
    waits_in(&client, 1).await;
    let follower = {
        let address = store.address();
        tokio::task::spawn_blocking(move || {
            let ran = binary()
                .args(["-s", &address, "history", "r", "--follow"])
                .output();
            answer(ran.unwrap())
        })
    };
    for execution in 1..=3 {
        waits_in(&client, execution).await;
        client.raise_event("r", "go", "").await.unwrap();
        while client
            .get_instance_info("r")
            .await
            .unwrap()
            .current_execution_id
            == execution
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let options = PruneOptions {
            keep_last: Some(1),
            completed_before: None,
        };
        client.prune_executions("r", options).await.unwrap();
    }
    let followed = tokio::time::timeout(Duration::from_secs(60), follower);
    let followed = followed.await.expect("it does not wait for ever").unwrap();
    assert_eq!(followed.code, 0, "{followed:?}");
    assert!(followed.out.contains("done"), "{followed:?}");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_says_what_it_would_delete_and_deletes_it_when_told_twice() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let before = store.json(&["stats"])["instances"].clone();
        let unsaid = store.run(&["retention", "--yes"]);
        assert_eq!(unsaid.code, 2, "{unsaid:?}");
        let refused = store.run(&["retention", "--keep", "0"]);
        assert_eq!(refused.code, 6, "{refused:?}");
        let dry = store.json(&[
            "retention",
            "--keep",
            "0",
            "--status",
            "completed",
            "--dry-run",
        ]);
        assert_eq!(dry["deleted"]["instances"], 1);
        assert_eq!(store.json(&["stats"])["instances"], before);
        let done = store.json(&["retention", "--keep", "0", "--status", "completed", "--yes"]);
        assert_eq!(done["deleted"]["instances"], 1, "{done}");
        let gone = store.run(&["show", "paid"]);
        assert_eq!(gone.code, 3, "{gone:?}");
    }
}
