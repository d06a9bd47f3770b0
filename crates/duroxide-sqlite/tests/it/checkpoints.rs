//! The write-ahead log: it stays short, its file shrinks, and commits do not wait for that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::Provider;
use duroxide_sqlite::{Durability, SqliteError, SqliteOptions, SqliteProvider, Tuning};

use crate::support::*;

/// Few pages, so that little work makes a long log.
const PAGES: usize = 40;
/// From here on the log begins anew, and this is how much its file keeps.
const BYTES: u64 = 4 * PAGES as u64 * 4_096;

fn options(alone: bool) -> SqliteOptions {
    SqliteOptions {
        durability: Durability::Relaxed,
        tuning: Tuning {
            writer_checkpoints_alone: alone,
            checkpoint_pages: Some(PAGES),
        },
        ..SqliteOptions::default()
    }
}

async fn open(path: &Path, alone: bool) -> SqliteProvider {
    SqliteProvider::new(&url(path), Some(options(alone)))
        .await
        .unwrap()
}

fn log_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

fn log_bytes(path: &Path) -> u64 {
    std::fs::metadata(log_of(path)).map_or(0, |it| it.len())
}

async fn write_some(store: &SqliteProvider, name: &str) {
    for n in 0..32 {
        let data = "x".repeat(4_000);
        send(store, raised(&format!("{name}-{n}"), &data)).await;
    }
}

/// A reader that keeps the log from beginning anew.
fn long_reader(path: &Path) -> rusqlite::Connection {
    let reader = shell(path);
    reader.execute_batch("BEGIN").unwrap();
    let rows = reader.query_row("SELECT COUNT(*) FROM history", [], |row| {
        row.get::<_, i64>(0)
    });
    rows.unwrap();
    reader
}

#[tokio::test]
async fn the_log_stays_short_and_its_file_shrinks_after_a_long_reader_ended() {
    for alone in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = open(&path, alone).await;
        let reader = long_reader(&path);
        for round in 0..12 {
            write_some(&store, &format!("a{round}")).await;
        }
        assert!(log_bytes(&path) > 2 * BYTES, "the reader keeps it long");
        drop(reader);
        // However long the checkpoint thread takes: the log is bounded at last.
        let mut rounds = 0;
        while log_bytes(&path) > 2 * BYTES {
            rounds += 1;
            assert!(rounds < 1_000, "alone {alone}: {} bytes", log_bytes(&path));
            write_some(&store, &format!("b{rounds}")).await;
        }
        assert_eq!(store.failed_checkpoints(), 0);
    }
}

#[tokio::test]
async fn the_log_begins_anew_while_two_stores_on_one_file_are_busy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (one, other) = (open(&path, false).await, open(&path, false).await);
    let mut longest = 0;
    let mut rounds = 0;
    // Its file is cut down to the limit when that happens. How long it is before depends on how fast the disk syncs.
    while longest <= BYTES || log_bytes(&path) >= longest {
        rounds += 1;
        assert!(rounds < 2_000, "{longest} bytes and no end");
        longest = longest.max(log_bytes(&path));
        let (a, b) = (format!("{rounds}a"), format!("{rounds}b"));
        tokio::join!(write_some(&one, &a), write_some(&other, &b));
    }
}

#[tokio::test]
async fn commits_go_on_while_a_checkpoint_waits_for_a_reader() {
    for alone in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = open(&path, alone).await;
        write_some(&store, "a").await;
        let reader = long_reader(&path);
        write_some(&store, "b").await;
        let mut checkpoint = std::pin::pin!(store.checkpoint());
        tokio::select! {
            biased;
            done = &mut checkpoint => panic!("the reader is still there: {done:?}"),
            () = write_some(&store, "c") => {}
        }
        drop(reader);
        checkpoint.await.unwrap();
        assert_eq!(log_bytes(&path), 0);
    }
}

#[tokio::test]
async fn a_second_store_is_refused_where_sqlite_cannot_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let first = open(&path, true).await;
    let second = SqliteProvider::new(&url(&path), Some(options(true))).await;
    assert!(
        matches!(second, Err(SqliteError::InUse { .. })),
        "{second:?}"
    );
    first.close().await;
    drop(first);
    create(&open(&path, true).await, "a").await;
}

#[tokio::test]
async fn a_closed_store_leaves_no_log_behind() {
    for alone in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = open(&path, alone).await;
        create(&store, "a").await;
        store.close().await;
        assert!(!log_of(&path).exists());
        let late = store.read("a").await.unwrap_err();
        assert!(!late.is_retryable(), "{late}");
        let again = store.enqueue_for_orchestrator(start("b"), Some(Duration::ZERO));
        assert!(again.await.is_err());
    }
}

#[tokio::test]
async fn a_file_behind_a_link_is_the_file_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("a.db"), folder.path().join("link.db"));
    for is_there in [false, true] {
        if !is_there {
            std::os::unix::fs::symlink(&path, &link).unwrap();
        }
        let store = open(&link, false).await;
        send(&store, start(if is_there { "b" } else { "a" })).await;
        assert!(log_of(&path).exists() && !log_of(&link).exists());
        assert!(
            std::fs::read_link(&link).is_ok(),
            "the link is left as it is"
        );
    }
}

#[tokio::test]
async fn the_log_stays_short_under_steady_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    let payload = "x".repeat(64 * 1024);
    let megabytes =
        |name: &str| std::fs::metadata(folder.path().join(name)).map_or(0, |file| file.len() >> 20);
    let mut id = 0;
    // How much it takes depends on how fast the disk is; a log that never began anew would hold all of it.
    let began_anew = loop {
        for _ in 0..100 {
            id += 1;
            let mut item = activity("a", id);
            if let WorkItem::ActivityExecute { input, .. } = &mut item {
                input.clone_from(&payload);
            }
            store.enqueue_for_worker(item).await.unwrap();
        }
        let written = id * 64 / 1024;
        if megabytes("a.db-wal") + 30 < written {
            break true;
        }
        if written > 1_000 {
            break false;
        }
    };
    assert!(began_anew);
    assert!(megabytes("a.db") > 30, "the log was checkpointed into it");
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    for round in 0..5 {
        let store = file_store(&path).await;
        let instance = format!("a-{round}");
        send(&store, start(&instance)).await;
        store.read(&instance).await.unwrap();
        drop(store);
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["a.db"], "the log was checkpointed into it");
    }
}
