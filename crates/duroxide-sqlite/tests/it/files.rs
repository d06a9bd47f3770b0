//! Backup beside a running store, vacuum, integrity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duroxide_core::provider::ProviderAdmin;
use duroxide_sqlite::{SqliteError, SqliteProvider, backup, check_integrity, vacuum};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_holds_what_was_acknowledged_before_it_while_commits_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("app.db"), folder.path().join("copy.db"));
    let store = Arc::new(SqliteProvider::new(&url(&path), None).await.unwrap());
    let created = Arc::new(AtomicU64::new(0));
    let writing = tokio::spawn({
        let (store, created) = (store.clone(), created.clone());
        async move {
            for n in 0..400 {
                create(&*store, &format!("i-{n}")).await;
                created.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    while created.load(Ordering::SeqCst) < 50 {
        tokio::task::yield_now().await;
    }
    let acknowledged = created.load(Ordering::SeqCst);
    let (from, to) = (path.clone(), copy.clone());
    let bytes = tokio::task::spawn_blocking(move || backup(&from, &to, |_, _| {}));
    assert!(bytes.await.unwrap().unwrap() > 0);
    writing.await.unwrap();

    assert_eq!(check_integrity(&copy).unwrap(), Vec::<String>::new());
    let restored = SqliteProvider::new(&url(&copy), None).await.unwrap();
    let held = restored.get_system_metrics().await.unwrap().total_instances;
    assert!(held >= acknowledged, "{held} of {acknowledged}");
    create(&restored, "after").await;
    let taken = backup(&path, &copy, |_, _| {}).unwrap_err();
    assert!(matches!(taken, SqliteError::CannotOpen { .. }), "{taken}");
    let missing = backup(
        &folder.path().join("none.db"),
        &folder.path().join("x.db"),
        |_, _| {},
    );
    assert!(matches!(missing, Err(SqliteError::MissingFile { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_gives_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let store = SqliteProvider::new(&url(&path), None).await.unwrap();
    for n in 0..200 {
        create(&store, &format!("i-{n}")).await;
    }
    let ids = store.list_instances().await.unwrap();
    store.delete_instances_atomic(&ids, true).await.unwrap();
    store.close().await;
    let done = vacuum(&path).unwrap();
    assert!(done.bytes_after < done.bytes_before, "{done:?}");
    assert_eq!(check_integrity(&path).unwrap(), Vec::<String>::new());
}
