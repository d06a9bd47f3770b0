//! A file that the published 0.1.32 wrote, with instances in every state, goes on here. `compat/published-file` made
//! it.

#[path = "../published/handlers.rs"]
pub(crate) mod handlers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{Client, OrchestrationStatus, Runtime};

use crate::support::{answer, binary};

fn published() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/published/0.1.32.db")
}

fn bring_over(old: &Path, new: &Path) -> crate::support::Answer {
    let output = binary()
        .arg("import-published")
        .arg(old)
        .arg(format!("sqlite:{}", new.display()))
        .output();
    answer(output.unwrap())
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn is_output(ended: &OrchestrationStatus, expected: &str) {
    assert!(
        matches!(ended, OrchestrationStatus::Completed { output, .. } if output == expected),
        "{ended:?} and not {expected}"
    );
}

/// What waited for an answer gets it, and all that was in flight ends as it should.
pub(crate) async fn everything_ends(client: &Client) {
    for id in ["counting", "raising::sub::2"] {
        client.raise_event(id, "answer", "yes").await.unwrap();
    }
    for (id, expected) in [
        ("completed", "hello"),
        ("holding", "held tight"),
        ("sleeping", "rested"),
        ("asking", "they said yes"),
        ("reading", "first, second"),
        ("counting", "round-1 round-2 round-3 yes"),
        ("raising", "child said it said yes"),
        ("unbegun", "late"),
    ] {
        let ended = client.wait_for_orchestration(id, MINUTE).await;
        is_output(&ended.unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_in_flight_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    std::fs::copy(published(), &old).unwrap();
    let before = std::fs::read(&old).unwrap();
    let told = bring_over(&old, &new);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    assert!(
        told.out.starts_with("9 instances with 11 executions, "),
        "{}",
        told.out
    );
    assert!(
        std::fs::read(&old).unwrap() == before,
        "the old file is as it was"
    );

    let url = format!("sqlite:{}", new.display());
    let store = Arc::new(SqliteProvider::new(&url, None).await.unwrap());
    let client = Client::new(store.clone());
    let asking = client.get_orchestration_status("asking").await.unwrap();
    assert!(
        matches!(&asking, OrchestrationStatus::Running { custom_status: Some(said), .. } if said == "asked"),
        "{asking:?}"
    );
    let kept = client.get_kv_all_values("counting").await.unwrap();
    assert_eq!(kept.len(), 3, "of three executions: {kept:?}");
    let why = client.explain("holding").await.unwrap().to_string();
    assert!(why.contains("waits for activity hold"), "{why}");

    let runtime = Runtime::start_with_store(
        store.clone(),
        handlers::activities(false),
        handlers::orchestrations(),
    )
    .await;
    everything_ends(&client).await;
    let failed = client.get_orchestration_status("failed").await.unwrap();
    assert!(
        matches!(failed, OrchestrationStatus::Failed { .. }),
        "{failed:?}"
    );
    runtime.shutdown(None).await;
    drop(client);
    store.close().await;
    let check = binary().args(["--store", &url, "check"]).output().unwrap();
    let check = answer(check);
    assert!(check.out.ends_with(" 0 problems\n"), "{check:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_file_comes_into_any_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.redb");
    let address = format!("redb:{}", path.display());
    let old = published().display().to_string();
    let import = || {
        answer(
            binary()
                .args(["import-published", &old, &address])
                .output()
                .unwrap(),
        )
    };
    let told = import();
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    assert!(
        told.out.starts_with("9 instances with 11 executions"),
        "{}",
        told.out
    );
    let again = import();
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("is not empty"), "{again:?}");
    let store = Arc::new(duroxide::providers::redb::RedbProvider::open(&path).unwrap());
    let client = Client::new(store.clone());
    let runtime = Runtime::start_with_store(
        store,
        handlers::activities(false),
        handlers::orchestrations(),
    )
    .await;
    everything_ends(&client).await;
    runtime.shutdown(None).await;
}

#[cfg(feature = "kill-points")]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_a_published_file_that_is_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("redb:{}", folder.path().join("new.redb").display());
    let old = published().display().to_string();
    for at in ["import_published_begun:1", "move_copied:4"] {
        let mut command = binary();
        command.env("DUROXIDE_KILL_AT", at);
        let killed = command
            .args(["import-published", &old, &address])
            .output()
            .unwrap();
        assert_eq!(killed.status.code(), None, "{at}");
    }
    let refused = answer(
        binary()
            .args(["--store", &address, "start", "a", "b"])
            .output()
            .unwrap(),
    );
    assert!(refused.err.contains("is not finished"), "{refused:?}");
    let done = answer(
        binary()
            .args(["import-published", &old, &address])
            .output()
            .unwrap(),
    );
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.out.starts_with("9 instances with 11 executions"),
        "{}",
        done.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_published_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, new) = (folder.path().join("ours.db"), folder.path().join("new.db"));
    let url = format!("sqlite:{}", ours.display());
    SqliteProvider::new(&url, None).await.unwrap().close().await;
    for old in [ours.clone(), folder.path().join("missing.db")] {
        let refused = bring_over(&old, &new);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(!new.exists());
    }
    let taken = bring_over(&published(), &ours);
    assert_eq!(taken.code, 1, "{taken:?}");
    assert!(taken.err.contains("not overwritten"), "{taken:?}");
}
