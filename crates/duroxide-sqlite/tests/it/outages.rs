//! Disks and neighbours that misbehave: a clear error, nothing lost, and on it goes once the cause is gone.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::Provider;
use duroxide_sqlite::SqliteProvider;

use crate::support::*;

#[tokio::test]
async fn a_lock_held_by_another_program_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    let blocker = shell(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        blocker.execute_batch("COMMIT").unwrap();
    });
    send(&store, start("a")).await;
    release.join().unwrap();
}

#[tokio::test]
async fn a_lock_held_for_too_long_is_an_error_to_try_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    let blocker = shell(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store
        .enqueue_for_orchestrator(start("b"), None)
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(
        error.message.contains("locked by another program"),
        "{error}"
    );
    assert_eq!(store.read("a").await.unwrap().len(), 1, "reads go on");
    blocker.execute_batch("COMMIT").unwrap();
    send(&store, start("b")).await;
}

#[tokio::test]
async fn a_file_removed_while_open_is_reported_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    let aside = folder.path().join("elsewhere.db");
    std::fs::rename(&path, &aside).unwrap();
    let error = store
        .enqueue_for_orchestrator(start("b"), None)
        .await
        .unwrap_err();
    assert!(error.is_retryable());
    assert!(error.message.contains("removed or replaced"), "{error}");
    assert!(!path.exists(), "no empty database in its place");
    std::fs::rename(&aside, &path).unwrap();
    send(&store, start("b")).await;
}

/// Tells the child where to try.
const LOCKED: &str = "DUROXIDE_SQLITE_TEST_LOCKED";

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let locked = folder.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    create(&file_store(&locked.join("there.db")).await, "a").await;
    let before = std::fs::read_dir(&locked).unwrap().count();
    allow(folder.path(), 0o755);
    allow(&locked.join("there.db"), 0o644);
    allow(&locked, 0o555);
    let child = folder.path().join("child");
    std::fs::copy(std::env::current_exe().unwrap(), &child).unwrap();
    let mut command = Command::new(&child);
    command.args(["--exact", "outages::child_without_permissions", "--ignored"]);
    command.env(LOCKED, &locked).current_dir(folder.path());
    if std::fs::write(locked.join("probe"), "x").is_ok() {
        // Permissions mean nothing to this user; they do to nobody.
        std::fs::remove_file(locked.join("probe")).unwrap();
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    assert_eq!(std::fs::read_dir(&locked).unwrap().count(), before);
    allow(&locked, 0o755);
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
#[ignore = "run by its parent test"]
async fn child_without_permissions() {
    let locked = PathBuf::from(std::env::var_os(LOCKED).expect("started by a test"));
    for name in ["new.db", "there.db"] {
        let path = locked.join(name);
        let error = SqliteProvider::new(&url(&path), None).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("permissions"), "{text}");
    }
}

#[tokio::test]
async fn a_full_disk_is_an_error_to_try_again_and_space_cures_it() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(folder.path())
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        eprintln!("SKIPPED: a small file system cannot be mounted here");
        return;
    }
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    let ballast = folder.path().join("ballast");
    let mut error = None;
    for size in [600_000, 100_000, 20_000, 4_000] {
        // Whatever does not fit is cut off; the point is that the disk is full.
        let old = std::fs::read(&ballast).map_or(0, |bytes| bytes.len());
        let _ = std::fs::write(&ballast, vec![0; old + size]);
        let big = raised("a", &"x".repeat(300_000));
        error = error.or(store.enqueue_for_orchestrator(big, None).await.err());
    }
    let error = error.expect("the disk is full");
    assert!(error.is_retryable(), "{error}");
    assert_eq!(store.read("a").await.unwrap().len(), 1, "reads go on");
    std::fs::remove_file(&ballast).unwrap();
    send(&store, raised("a", "after")).await;
    drop(store);
    let check: String = shell(&path)
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    assert!(
        Command::new("umount")
            .arg(folder.path())
            .status()
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn a_huge_value_round_trips() {
    let store = SqliteProvider::new_in_memory().await.unwrap();
    create(&store, "a").await;
    let huge = "ü".repeat(4 * 1024 * 1024);
    send(&store, raised("a", &huge)).await;
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", &huge)]);
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
    assert!(megabytes("a.db") > 30, "the log was folded into it");
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
        assert_eq!(left, ["a.db"], "the log is folded into it");
    }
}

#[tokio::test]
async fn who_waits_on_a_file_that_is_gone_is_told_with_the_next_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = std::sync::Arc::new(file_store(&path).await);
    let waiting = tokio::spawn({
        let store = std::sync::Arc::clone(&store);
        async move {
            let long = Duration::from_secs(30);
            store.fetch_orchestration_item(LEASE, long, None).await
        }
    });
    // Waiting by now, or at least queued before the next request.
    tokio::task::yield_now().await;
    std::fs::remove_file(&path).unwrap();
    let sent = store.enqueue_for_orchestrator(start("a"), None).await;
    sent.unwrap_err();
    let told = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    told.expect("told at once").unwrap().unwrap_err();
}

/// Makes the header of the file unreadable, as a disk does that went away; returns what was there.
fn spoil(path: &Path) -> Vec<u8> {
    let file = shell(path);
    // What the writer remembers of the file is outdated by this, so that it reads it again.
    file.execute_batch(
        "INSERT INTO dead_letters (queue, payload, reason, set_aside_at) VALUES ('none', '', '', 0);
         PRAGMA wal_checkpoint(TRUNCATE);",
    )
    .unwrap();
    drop(file);
    let sound = std::fs::read(path).unwrap();
    overwrite(path, &[0xFF; 100]);
    sound
}

fn overwrite(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[tokio::test]
async fn claims_that_wait_while_the_database_is_out_of_reach_are_served_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = std::sync::Arc::new(file_store(&path).await);
    send(&*store, start("a")).await;
    let sound = spoil(&path);
    let failed = store.enqueue_for_orchestrator(start("b"), None).await;
    assert!(failed.unwrap_err().is_retryable(), "an outage");
    let failed = store.enqueue_for_orchestrator(start("b"), None).await;
    assert!(failed.unwrap_err().is_retryable(), "it goes on");

    // Without patience: told at once.
    let claim = store.fetch_orchestration_item(LEASE, NO_WAIT, None);
    assert!(claim.await.unwrap_err().is_retryable());
    // With some: told when it is over.
    let claim = store.fetch_orchestration_item(LEASE, Duration::from_millis(20), None);
    assert!(claim.await.unwrap_err().is_retryable());
    // With much: served once the cause is gone, though nobody asks for anything else.
    let waiting = tokio::spawn({
        let store = std::sync::Arc::clone(&store);
        async move {
            store
                .fetch_orchestration_item(LEASE, Duration::from_secs(60), None)
                .await
        }
    });
    tokio::task::yield_now().await;
    overwrite(&path, &sound[..100]);
    let (item, _, _) = waiting.await.unwrap().unwrap().expect("a turn");
    assert_eq!(item.instance, "a");
}

#[tokio::test]
async fn a_damaged_page_costs_its_instance_its_history_and_nobody_else_anything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "hit").await;
    drop(store);
    let file = shell(&path);
    let page: i64 = file
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'history'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    drop(file);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = (usize::try_from(page).unwrap() - 1) * 4_096;
    bytes[at..at + 8].fill(0xFF);
    std::fs::write(&path, bytes).unwrap();

    let store = file_store(&path).await;
    send(&store, raised("hit", "1")).await;
    store.enqueue_for_worker(activity("fine", 1)).await.unwrap();
    let (item, token, _) = fetch(&store).await.expect("it is handed out");
    assert_eq!(item.instance, "hit");
    assert!(item.history_error.is_some(), "and told about");
    assert!(fetch_work(&store).await.is_some());
    let refused = store
        .ack_orchestration_item(
            &token,
            1,
            vec![started("hit")],
            vec![],
            vec![],
            named(),
            vec![],
        )
        .await;
    assert!(!refused.unwrap_err().is_retryable(), "it cannot be written");
    assert!(store.read("hit").await.is_err());
    assert_eq!(admin(&store).list_instances().await.unwrap(), ["hit"]);
}
