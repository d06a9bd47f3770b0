//! Backup beside a running store, vacuum, integrity.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use duroxide_core::provider::ProviderAdmin;
use duroxide_sqlite::{
    BackupPace, OtherPrograms, SchemaUpgrade, SqliteError, SqliteOptions, SqliteProvider, backup,
    backup_at, check_integrity, planned_upgrade, unfinished_copies, vacuum,
};

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
    let bytes =
        tokio::task::spawn_blocking(move || backup(&from, &to, |_, _| ControlFlow::Continue(())));
    assert!(bytes.await.unwrap().unwrap() > 0);
    writing.await.unwrap();

    assert_eq!(check_integrity(&copy).unwrap(), Vec::<String>::new());
    let restored = SqliteProvider::new(&url(&copy), None).await.unwrap();
    let held = restored.get_system_metrics().await.unwrap().total_instances;
    assert!(held >= acknowledged, "{held} of {acknowledged}");
    // Writable too. Not claimed: the copy may hold a start that was in flight.
    send(&restored, start("after")).await;
    let taken = backup(&path, &copy, |_, _| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(taken, SqliteError::FileExists { .. }), "{taken}");
    let missing = backup(
        &folder.path().join("none.db"),
        &folder.path().join("x.db"),
        |_, _| ControlFlow::Continue(()),
    );
    assert!(matches!(missing, Err(SqliteError::MissingFile { .. })));
}

/// SQLite begins a copy again when another connection writes, unless the copy reads one snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_ends_although_commits_never_do() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("app.db"), folder.path().join("copy.db"));
    let store = Arc::new(SqliteProvider::new(&url(&path), None).await.unwrap());
    for n in 0..300 {
        create(&*store, &format!("before-{n}")).await;
    }
    let (copied, committed) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let writing = tokio::spawn({
        let (store, copied, committed) = (store.clone(), copied.clone(), committed.clone());
        async move {
            while !copied.load(Ordering::SeqCst) {
                let n = committed.fetch_add(1, Ordering::SeqCst);
                create(&*store, &format!("meanwhile-{n}")).await;
            }
        }
    });
    let (from, to, seen) = (path.clone(), copy.clone(), committed.clone());
    let copying = move || {
        let mut begun_at = None;
        let bytes = backup(&from, &to, |_, _| {
            // It is told first when its moment is chosen, and holds still until there were commits beside it.
            let begun_at = *begun_at.get_or_insert_with(|| seen.load(Ordering::SeqCst));
            while seen.load(Ordering::SeqCst) < begun_at + 3 {
                std::thread::yield_now();
            }
            ControlFlow::Continue(())
        });
        (bytes, begun_at.unwrap())
    };
    let (bytes, begun_at) = tokio::task::spawn_blocking(copying).await.unwrap();
    copied.store(true, Ordering::SeqCst);
    writing.await.unwrap();
    assert!(bytes.unwrap() > 0);
    assert_eq!(check_integrity(&copy).unwrap(), Vec::<String>::new());
    let held = SqliteProvider::new(&url(&copy), None).await.unwrap();
    let held = held.get_system_metrics().await.unwrap().total_instances;
    assert!((300..=300 + begun_at).contains(&held), "one moment: {held}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_whole_at_either_pace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let store = SqliteProvider::new(&url(&path), None).await.unwrap();
    for n in 0..200 {
        create(&store, &format!("i-{n}")).await;
    }
    for (name, pace) in [
        ("gentle.db", BackupPace::Gentle),
        ("fast.db", BackupPace::Fast),
    ] {
        let (from, copy) = (path.clone(), folder.path().join(name));
        let to = copy.clone();
        let mut told = Vec::new();
        let copying = move || {
            let bytes = backup_at(&from, &to, pace, |written, total| {
                told.push((written, total));
                ControlFlow::Continue(())
            });
            (bytes, told)
        };
        let (bytes, told) = tokio::task::spawn_blocking(copying).await.unwrap();
        let bytes = bytes.unwrap();
        assert_eq!(told.first().map(|(written, _)| *written), Some(0));
        assert_eq!(told.last(), Some(&(bytes, bytes)));
        assert_eq!(std::fs::metadata(&copy).unwrap().len(), bytes);
        assert_eq!(check_integrity(&copy).unwrap(), Vec::<String>::new());
        let restored = SqliteProvider::new(&url(&copy), None).await.unwrap();
        let held = restored.get_system_metrics().await.unwrap().total_instances;
        assert_eq!(held, 200, "{name}");
    }
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
    let done = vacuum(&path, OtherPrograms::Refuse).unwrap();
    assert!(done.bytes_after < done.bytes_before, "{done:?}");
    assert_eq!(check_integrity(&path).unwrap(), Vec::<String>::new());
}

/// A store file of this build, closed.
async fn closed_store(folder: &Path) -> PathBuf {
    let path = folder.join("app.db");
    let store = SqliteProvider::new(&url(&path), None).await.unwrap();
    create(&store, "first").await;
    store.close().await;
    path
}

/// The file as a build with one migration less would leave it, as far as its number goes.
fn make_older(path: &Path) {
    let conn = rusqlite::Connection::open(path).unwrap();
    let version: i64 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    conn.pragma_update(None, "user_version", version - 1)
        .unwrap();
}

fn version(path: &Path) -> i64 {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_beside_a_running_program_is_refused_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed_store(folder.path()).await;
    let store = SqliteProvider::new(&url(&path), None).await.unwrap();
    let refused = vacuum(&path, OtherPrograms::Refuse).unwrap_err();
    assert!(matches!(refused, SqliteError::Held { .. }), "{refused}");
    vacuum(&path, OtherPrograms::Disturb).unwrap();
    store.close().await;
    vacuum(&path, OtherPrograms::Refuse).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_does_not_checkpoint_beside_a_program_that_must_have_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed_store(folder.path()).await;
    let mut options = SqliteOptions::default();
    options.tuning.writer_checkpoints_alone = true;
    let store = SqliteProvider::new(&url(&path), Some(options))
        .await
        .unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for name in [&path, &link] {
        let refused = vacuum(name, OtherPrograms::Disturb).unwrap_err();
        assert!(matches!(refused, SqliteError::InUse { .. }), "{refused}");
    }
    create(&store, "second").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_backups_to_one_name_give_one_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed_store(folder.path()).await;
    let copy = folder.path().join("copy.db");
    let begin = Arc::new(std::sync::Barrier::new(2));
    let copies: Vec<_> = (0..2)
        .map(|_| {
            let (from, to, begin) = (path.clone(), copy.clone(), begin.clone());
            std::thread::spawn(move || {
                begin.wait();
                backup(&from, &to, |_, _| ControlFlow::Continue(()))
            })
        })
        .collect();
    let ended: Vec<_> = copies.into_iter().map(|one| one.join().unwrap()).collect();
    assert!(ended.iter().any(Result::is_ok), "{ended:?}");
    for lost in ended.iter().filter_map(|one| one.as_ref().err()) {
        assert!(matches!(lost, SqliteError::FileExists { .. }), "{lost}");
    }
    assert_eq!(ended.iter().filter(|one| one.is_ok()).count(), 1);
    assert_eq!(check_integrity(&copy).unwrap(), Vec::<String>::new());
    assert_eq!(unfinished_copies(&copy), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_private_and_what_others_left_is_told_and_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = closed_store(folder.path()).await;
    let (copy, left) = (
        folder.path().join("copy.db"),
        folder.path().join("copy.db.partial-x1"),
    );
    std::fs::write(&left, "of a process that was killed").unwrap();
    backup(&path, &copy, |_, _| ControlFlow::Continue(())).unwrap();
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    assert_eq!(unfinished_copies(&copy), [left]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_fails_or_is_stopped_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.db");
    let conn = rusqlite::Connection::open(&foreign).unwrap();
    conn.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let copy = folder.path().join("copy.db");
    let go_on = |_, _| ControlFlow::Continue(());
    let failed = backup(&foreign, &copy, go_on).unwrap_err();
    assert!(
        matches!(failed, SqliteError::ForeignDatabase { .. }),
        "{failed}"
    );
    assert_eq!(unfinished_copies(&copy), Vec::<PathBuf>::new());
    assert!(!copy.exists());
    let path = closed_store(folder.path()).await;
    let stopped = backup(&path, &copy, |_, _| ControlFlow::Break(())).unwrap_err();
    assert_eq!(stopped, SqliteError::Stopped);
    assert_eq!(unfinished_copies(&copy), Vec::<PathBuf>::new());
    assert!(!copy.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_an_older_build_is_copied_and_checked_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed_store(folder.path()).await;
    make_older(&path);
    let older = version(&path);
    let copy = folder.path().join("copy.db");
    backup(&path, &copy, |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!((version(&path), version(&copy)), (older, older));
    assert_eq!(check_integrity(&path).unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_may_not_upgrade_leaves_an_older_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed_store(folder.path()).await;
    make_older(&path);
    let older = version(&path);
    for mode in ["", "?mode=rw"] {
        let options = SqliteOptions {
            upgrade: SchemaUpgrade::Refuse,
            ..SqliteOptions::default()
        };
        let address = format!("{}{mode}", url(&path));
        let refused = SqliteProvider::new(&address, Some(options)).await;
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, SqliteError::NeedsUpgrade { .. }),
            "{refused}"
        );
    }
    assert_eq!(version(&path), older);
    let plan = planned_upgrade(&path).unwrap();
    assert_eq!((plan.from + 1, plan.steps.len()), (plan.to, 1));
    assert_eq!(version(&path), older, "a plan changes nothing");
}

/// Fills a store and deletes all of it; what is left are free pages.
async fn emptied(path: &Path) -> SqliteProvider {
    let store = SqliteProvider::new(&url(path), None).await.unwrap();
    let large = "x".repeat(100_000);
    for n in 0..60 {
        let id = format!("i-{n}");
        create(&store, &id).await;
        let event = duroxide_core::EventKind::KeyValueSet {
            key: "large".to_owned(),
            value: large.clone(),
            last_updated_at_ms: 1,
        };
        let event = duroxide_core::Event::with_event_id(9, &id, 1, None, event);
        let appended =
            duroxide_core::provider::Provider::append_with_execution(&store, &id, 1, vec![event]);
        appended.await.unwrap();
    }
    let ids = store.list_instances().await.unwrap();
    store.delete_instances_atomic(&ids, true).await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn space_is_given_back_in_small_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let store = emptied(&path).await;
    store.checkpoint().await.unwrap();
    let size = || std::fs::metadata(&path).unwrap().len();
    let before = size();
    let mut given = 0;
    loop {
        let step = store.give_back_space().await.unwrap().unwrap();
        assert!(step.in_steps && step.bytes <= 128 * 4_096, "{step:?}");
        given += step.bytes;
        if step.is_done {
            assert!(step.free_bytes <= 256 * 4_096, "{step:?}");
            break;
        }
        assert!(
            step.bytes > 0,
            "a step that is not the last gives something: {step:?}"
        );
        // Others commit meanwhile.
        create(&store, &format!("between-{given}")).await;
    }
    assert!(given > 4_000_000, "{given}");
    store.checkpoint().await.unwrap();
    assert!(
        size() <= before - given / 2,
        "{before} bytes before, {} after",
        size()
    );
    store.close().await;
    assert_eq!(check_integrity(&path).unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_give_back_in_steps_says_so_until_it_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed_store(folder.path()).await;
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA auto_vacuum = NONE; VACUUM")
        .unwrap();
    let store = emptied(&path).await;
    let told = store.give_back_space().await.unwrap().unwrap();
    assert!(
        told.is_done && !told.in_steps && told.bytes == 0,
        "{told:?}"
    );
    assert!(told.free_bytes > 4_000_000, "{told:?}");
    store.close().await;
    vacuum(&path, OtherPrograms::Refuse).unwrap();
    let store = emptied(&path).await;
    let told = store.give_back_space().await.unwrap().unwrap();
    assert!(told.in_steps && told.bytes > 0, "{told:?}");
}
