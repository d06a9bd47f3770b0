//! Locks, disks and files that fail: a clear error, nothing lost, and the store goes on once the cause is gone.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderAdmin};
use duroxide_sqlite::SqliteProvider;

use crate::support::*;

#[tokio::test]
async fn a_write_waits_for_a_lock_of_another_program_and_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    let blocker = shell(&path);
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut writing = std::pin::pin!(send(&store, start("a")));
    let reading = async {
        for _ in 0..50 {
            assert!(store.read("a").await.unwrap().is_empty());
        }
    };
    tokio::select! {
        biased;
        () = &mut writing => panic!("the lock is still held"),
        () = reading => {}
    }
    blocker.execute_batch("COMMIT").unwrap();
    writing.await;
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

#[tokio::test]
async fn another_file_at_the_path_is_neither_written_nor_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "mine").await;
    let other = folder.path().join("other.db");
    let strangers = file_store(&other).await;
    create(&strangers, "theirs").await;
    strangers.close().await;
    let aside = folder.path().join("elsewhere.db");
    std::fs::rename(&path, &aside).unwrap();
    std::fs::rename(&other, &path).unwrap();
    // Often enough that every reading thread has been asked, with the connection it has and with one that it opens.
    for _ in 0..8 {
        for id in ["mine", "theirs"] {
            let error = store.read(id).await.unwrap_err();
            assert!(error.is_retryable(), "{error}");
            assert!(error.message.contains("removed or replaced"), "{error}");
        }
        let listed = store.list_instances().await.unwrap_err();
        assert!(listed.message.contains("removed or replaced"), "{listed}");
    }
    let written = store.enqueue_for_orchestrator(start("b"), None).await;
    assert!(written.unwrap_err().is_retryable());
    std::fs::rename(&path, &other).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(store.read("mine").await.unwrap().len(), 1);
    send(&store, start("b")).await;
    let strangers = file_store(&other).await;
    assert_eq!(strangers.list_instances().await.unwrap(), ["theirs"]);
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
        // Permissions do not bind root; the user `nobody` is bound by them.
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
async fn a_claim_that_waits_on_a_removed_file_fails_with_the_next_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = Arc::new(file_store(&path).await);
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let long = Duration::from_secs(30);
            store.fetch_orchestration_item(LEASE, long, None).await
        }
    });
    // The claim is queued before the next request.
    tokio::task::yield_now().await;
    std::fs::remove_file(&path).unwrap();
    let sent = store.enqueue_for_orchestrator(start("a"), None).await;
    sent.unwrap_err();
    let failed = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    failed.expect("at once").unwrap().unwrap_err();
}

/// Makes the header of the file unreadable, as a disk does that went away; returns the bytes that were there.
fn spoil(path: &Path) -> Vec<u8> {
    let file = shell(path);
    // The writer notices this commit and reads the file again.
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

/// A store with one turn to claim, whose database is out of reach; returns the bytes that bring it back.
async fn out_of_reach(path: &Path) -> (Arc<SqliteProvider>, Vec<u8>) {
    let store = Arc::new(file_store(path).await);
    send(&*store, start("a")).await;
    let sound = spoil(path);
    let failed = store.enqueue_for_orchestrator(start("b"), None).await;
    assert!(failed.unwrap_err().is_retryable(), "the outage begins");
    (store, sound)
}

#[tokio::test]
async fn every_request_during_an_outage_fails_as_retryable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (store, _sound) = out_of_reach(&path).await;
    let write = store.enqueue_for_orchestrator(start("b"), None).await;
    assert!(write.unwrap_err().is_retryable());
    let claim = store.fetch_orchestration_item(LEASE, NO_WAIT, None).await;
    assert!(claim.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_claim_that_waits_during_an_outage_fails_at_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (store, _sound) = out_of_reach(&path).await;
    let claim = store.fetch_orchestration_item(LEASE, Duration::from_millis(20), None);
    assert!(claim.await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_claim_that_waits_during_an_outage_is_served_when_the_database_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (store, sound) = out_of_reach(&path).await;
    // No other request comes: the writer opens the database again by itself.
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
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
