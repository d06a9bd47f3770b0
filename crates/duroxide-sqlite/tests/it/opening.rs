//! Urls, files, migrations, durability.

use std::sync::Arc;

use duroxide_core::provider::Provider;
use duroxide_sqlite::{Durability, SqliteError, SqliteOptions, SqliteProvider};

use crate::support::*;

#[tokio::test]
async fn a_missing_file_is_created_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fresh.db");
    let store = SqliteProvider::new(&url(&path), None).await.unwrap();
    create(&store, "a").await;
    #[cfg(unix)]
    for file in ["fresh.db", "fresh.db-wal", "fresh.db-shm"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path().join(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_missing_file_is_not_created_when_the_mode_forbids_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    for mode in ["rw", "ro"] {
        let error = SqliteProvider::new(&format!("{}?mode={mode}", url(&path)), None)
            .await
            .unwrap_err();
        assert_eq!(error, SqliteError::MissingFile { path: path.clone() });
    }
    assert!(!path.exists());
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no/such/a.db");
    let error = SqliteProvider::new(&url(&path), None).await.unwrap_err();
    assert!(
        matches!(error, SqliteError::MissingFolder { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("no/such"), "{error}");
}

#[tokio::test]
async fn two_stores_in_memory_share_nothing() {
    let url = "sqlite::memory:?cache=shared";
    let first = SqliteProvider::new(url, None).await.unwrap();
    let second = SqliteProvider::new(url, None).await.unwrap();
    create(&first, "a").await;
    assert!(admin(&second).list_instances().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    let text = "dear reader, ".repeat(400);
    std::fs::write(&path, &text).unwrap();
    let error = SqliteProvider::new(&url(&path), None).await.unwrap_err();
    assert_eq!(error, SqliteError::NotADatabase { path: path.clone() });
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_database_of_another_program_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photos.db");
    shell(&path)
        .execute_batch("CREATE TABLE photos (id INTEGER PRIMARY KEY)")
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = SqliteProvider::new(&url(&path), None).await.unwrap_err();
    assert!(
        matches!(error, SqliteError::ForeignDatabase { .. }),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(file_store(&path).await);
    shell(&path)
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = SqliteProvider::new(&url(&path), None).await.unwrap_err();
    assert!(
        matches!(error, SqliteError::NewerSchema { found: 99, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn files_and_memory_have_the_same_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    drop(file_store(&path).await);
    let schema: String = shell(&path)
        .query_row(
            "SELECT GROUP_CONCAT(name, ' ') FROM (SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(
        schema,
        "blocked closing dead_letters deletions duties executions heartbeats held_letters history instance_locks instances kv_delta kv_store labels nodes orchestrator_queue pauses rests sessions store_time worker_queue"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn eight_stores_can_open_an_empty_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = url(&path);
            tokio::spawn(async move { SqliteProvider::new(&url, None).await })
        })
        .collect();
    let mut stores = Vec::new();
    for store in opening {
        stores.push(store.await.unwrap().unwrap());
    }
    create(&stores[0], "a").await;
    assert_eq!(admin(&stores[7]).list_instances().await.unwrap(), ["a"]);
}

#[tokio::test]
async fn durability_is_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full.db");
    let store = SqliteProvider::new(&url(&full), None).await.unwrap();
    create(&store, "a").await;
    let mode: String = shell(&full)
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    let asked = SqliteOptions {
        durability: Durability::Full,
        ..SqliteOptions::default()
    };
    let relaxed = format!("{}?durability=relaxed", url(&full));
    let second = SqliteProvider::new(&relaxed, Some(asked)).await.unwrap();
    create(&second, "b").await;
}

#[tokio::test]
async fn a_read_only_store_reads_and_refuses_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let writer = file_store(&path).await;
    create(&writer, "a").await;
    let reader = SqliteProvider::new(&format!("{}?mode=ro", url(&path)), None)
        .await
        .unwrap();
    assert_eq!(reader.read("a").await.unwrap().len(), 1);
    let error = reader
        .enqueue_for_orchestrator(start("b"), None)
        .await
        .unwrap_err();
    assert!(!error.is_retryable());
    assert!(error.message.contains("read-only"), "{error}");
}

#[tokio::test]
async fn a_checkpoint_empties_the_log_into_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    let wal = folder.path().join("a.db-wal");
    assert!(std::fs::metadata(&wal).unwrap().len() > 0);
    store.checkpoint().await.unwrap();
    assert_eq!(std::fs::metadata(&wal).unwrap().len(), 0);
    let dump = store.debug_dump().await;
    assert!(dump.contains("orchestrator_queue: 0 rows"), "{dump}");
}

#[tokio::test]
async fn dropping_the_store_ends_its_threads() {
    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task")
            .map(|tasks| {
                tasks
                    .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
                    .filter(|name| name.starts_with("duroxide-"))
                    .count()
            })
            .unwrap_or(0)
    }
    if !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let before = threads();
    let store = Arc::new(file_store(&folder.path().join("a.db")).await);
    // A thread gives itself its name: once it has answered it has one.
    create(store.as_ref(), "a").await;
    assert!(threads() > before);
    drop(store);
    assert!(threads() <= before);
}

#[tokio::test]
async fn a_schema_that_another_build_changed_while_the_file_was_open_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    shell(&path)
        .pragma_update(None, "user_version", 99)
        .unwrap();
    for attempt in 1..=3 {
        let refused = store.enqueue_for_orchestrator(start("b"), None).await;
        let refused = refused.unwrap_err();
        assert!(
            refused.is_retryable() && refused.message.contains("99"),
            "attempt {attempt}: {refused}"
        );
    }
}

#[tokio::test]
async fn stores_that_share_a_file_and_a_store_that_cannot_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let open = async |alone: bool| {
        let mut options = SqliteOptions::default();
        options.tuning.writer_checkpoints_alone = alone;
        SqliteProvider::new(&url(&path), Some(options)).await
    };
    for (first, second) in [(false, true), (true, false), (true, true)] {
        let store = open(first).await.unwrap();
        let refused = open(second).await.unwrap_err();
        assert!(matches!(refused, SqliteError::InUse { .. }), "{refused}");
        // Closed, though the handle is still there.
        store.close().await;
        let next = open(second).await.unwrap();
        drop(next);
        drop(store);
    }
    let both = [open(false).await.unwrap(), open(false).await.unwrap()];
    create(&both[0], "a").await;
    drop(both);
    assert!(!folder.path().join("a.db-sole").exists(), "it is tidied up");
}
