//! What the file does when its disk fails, over a disk that fails on demand.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::redb::backends::InMemoryBackend;
use ::redb::{
    Builder, Database, ReadableDatabase, ReadableTableMetadata as _, StorageBackend,
    TableDefinition,
};

use super::file::File;
use super::tables::{Tables, Views};
use super::{Durability, RedbOptions, RedbStore, commit};
use crate::atomic::{AtomicOps as _, Batch, Operation};
use crate::clock::ManualClock;
use crate::error::StoreError;
use crate::message::{Claim, NewMessage, Queue};
use crate::metadata::MetadataStore as _;
use crate::queue::MessageQueue as _;
use crate::record::Record;

const MAIL: Queue = Queue::single("mail");

/// A disk in memory that fails the next writes if told to, and outlives the stores that open it.
#[derive(Debug, Clone)]
struct Disk {
    content: Arc<Mutex<InMemoryBackend>>,
    failures: Arc<AtomicU32>,
    failing_syncs: Arc<AtomicU32>,
}

impl Disk {
    fn new() -> Self {
        Self {
            content: Arc::new(Mutex::new(InMemoryBackend::new())),
            failures: Arc::default(),
            failing_syncs: Arc::default(),
        }
    }

    fn fail(&self, times: u32) {
        self.failures.store(times, Ordering::SeqCst);
    }

    fn on<T>(&self, act: impl FnOnce(&InMemoryBackend) -> io::Result<T>) -> io::Result<T> {
        act(&self.content.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, act: impl FnOnce(&InMemoryBackend) -> io::Result<T>) -> io::Result<T> {
        if counted_down(&self.failures) {
            Err(io::Error::other("no space left"))
        } else {
            self.on(act)
        }
    }
}

fn counted_down(failures: &AtomicU32) -> bool {
    let order = Ordering::SeqCst;
    let counted = failures.fetch_update(order, order, |left| left.checked_sub(1));
    counted.is_ok()
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.on(StorageBackend::len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.on(|disk| disk.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.write(|disk| disk.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        if counted_down(&self.failing_syncs) {
            return Err(io::Error::other("the disk went away"));
        }
        self.write(StorageBackend::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Disk::write(self, |disk| StorageBackend::write(disk, offset, data))
    }
}

fn store_on(disk: &Disk) -> RedbStore {
    let disk = disk.clone();
    let file = File::opened_by(move |_| Builder::new().create_with_backend(disk.clone()));
    RedbStore::over(file.unwrap(), RedbOptions::default()).unwrap()
}

/// Tries until the store answers; a store that does not recover runs into the test's limit.
async fn put_at_last(store: &RedbStore, key: &str) -> u32 {
    let mut failed = 0;
    loop {
        match store.put("s", key, vec![1]).await {
            Ok(()) => return failed,
            Err(StoreError::Retryable(_) | StoreError::Unknown(_)) => failed += 1,
            Err(error) => panic!("{error:?}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_failed_once_is_used_again() {
    let disk = Disk::new();
    let store = store_on(&disk);
    store.put("s", "before", vec![1]).await.unwrap();
    disk.fail(1);
    let failed = put_at_last(&store, "after").await;
    assert!(failed > 0, "the failure was told");
    for key in ["before", "after"] {
        assert_eq!(store.get("s", key).await.unwrap(), Some(vec![1]), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_for_a_while_is_used_again() {
    let disk = Disk::new();
    let store = store_on(&disk);
    store.put("s", "before", vec![1]).await.unwrap();
    disk.fail(9);
    put_at_last(&store, "after").await;
    assert_eq!(store.get("s", "before").await.unwrap(), Some(vec![1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_broke_off_is_told_as_unknown() {
    let disk = Disk::new();
    let store = store_on(&disk);
    store.put("s", "before", vec![1]).await.unwrap();
    disk.fail(1);
    let error = store.put("s", "broken", vec![1]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
}

#[test]
fn a_file_that_went_away_is_not_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let file = File::at(&path, 1 << 20).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.reopen().unwrap_err();
    assert!(!path.exists(), "a reopening made a file");
}

#[test]
fn another_file_at_the_path_is_not_taken_for_the_one_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let file = File::at(&path, 1 << 20).unwrap();
    let other = folder.path().join("other.redb");
    drop(File::at(&other, 1 << 20).unwrap());
    std::fs::rename(&other, &path).unwrap();
    file.reopen().unwrap_err();
}

#[test]
fn a_file_that_was_emptied_is_not_filled_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let file = File::at(&path, 1 << 20).unwrap();
    drop(file.take());
    std::fs::File::create(&path).unwrap();
    file.reopen().unwrap_err();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn a_disk_that_lost_its_content_is_not_filled_anew() {
    let disk = Disk::new();
    let opened = disk.clone();
    let file = File::opened_by(move |_| Builder::new().create_with_backend(opened.clone()));
    let file = file.unwrap();
    drop(file.take());
    *disk.content.lock().unwrap() = InMemoryBackend::new();
    file.reopen().unwrap_err();
    file.database().unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_answered_while_a_reader_holds_the_failed_file() {
    let disk = Disk::new();
    let store = store_on(&disk);
    store.put("s", "before", vec![1]).await.unwrap();
    let reader = store.inner.file.database().unwrap();
    disk.fail(1);
    store.put("s", "broken", vec![1]).await.unwrap_err();
    let message = NewMessage::new("anna", "hello");
    let error = store.enqueue(&MAIL, message).await.unwrap_err();
    assert!(matches!(error, StoreError::Retryable(_)), "{error:?}");
    drop(reader);
    put_at_last(&store, "after").await;
    assert_eq!(store.get("s", "before").await.unwrap(), Some(vec![1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_of_relaxed_commits_that_fails_opens_the_file_again() {
    let disk = Disk::new();
    let opened = disk.clone();
    let file = File::opened_by(move |_| Builder::new().create_with_backend(opened.clone()));
    let options = RedbOptions {
        durability: Durability::Relaxed,
        ..RedbOptions::default()
    };
    let store = RedbStore::over(file.unwrap(), options).unwrap();
    let first = store.inner.file.database().unwrap();
    let first_life = Arc::downgrade(&first);
    drop(first);
    disk.failing_syncs.store(1, Ordering::SeqCst);
    // No further request comes: the flush alone meets the failure.
    store.put("s", "unflushed", vec![1]).await.unwrap();
    while first_life.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
    put_at_last(&store, "after").await;
    assert_eq!(store.get("s", "after").await.unwrap(), Some(vec![1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_works_after_a_failure() {
    let disk = Disk::new();
    let store = store_on(&disk);
    store
        .enqueue(&MAIL, NewMessage::new("anna", "hello"))
        .await
        .unwrap();
    disk.fail(1);
    put_at_last(&store, "k").await;
    let claimed = store.claim(Claim::one(MAIL, 1_000)).await.unwrap();
    assert_eq!(claimed.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_can_be_compacted_while_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let store = RedbStore::open_async(&path, RedbOptions::default())
        .await
        .unwrap();
    store.put("s", "k", vec![7; 4_000_000]).await.unwrap();
    store.delete("s", "k").await.unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    store.compact().await.unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < before);
    store.put("s", "k", vec![8]).await.unwrap();
    assert_eq!(store.get("s", "k").await.unwrap(), Some(vec![8]));
}

#[tokio::test]
async fn a_file_of_another_format_or_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.redb");
    let table: TableDefinition<'_, &str, &str> = TableDefinition::new("theirs");
    let numbers: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
    let db = Database::create(&foreign).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(table).unwrap().insert("k", "v").unwrap();
    txn.commit().unwrap();
    drop(db);
    let older = folder.path().join("older.redb");
    let db = Database::create(&older).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(numbers)
        .unwrap()
        .insert("format", 1)
        .unwrap();
    // A table of the older format that today's definition does not fit.
    let groups: TableDefinition<'_, &str, &str> = TableDefinition::new("groups");
    txn.open_table(groups).unwrap();
    txn.commit().unwrap();
    drop(db);
    let text = folder.path().join("text.redb");
    std::fs::write(
        &text,
        "not a database at all, but long enough to have a header",
    )
    .unwrap();
    let words = std::fs::read(&text).unwrap();
    for path in [&foreign, &older, &text] {
        let error = RedbStore::open(path).unwrap_err();
        assert!(
            matches!(error, StoreError::Permanent(_)),
            "{path:?}: {error:?}"
        );
    }
    assert_eq!(std::fs::read(&text).unwrap(), words);
    for (path, tables) in [(&foreign, 1), (&older, 2)] {
        let txn = Database::open(path).unwrap().begin_read().unwrap();
        assert_eq!(txn.list_tables().unwrap().count(), tables, "{path:?}");
    }
    let txn = Database::open(&foreign).unwrap().begin_read().unwrap();
    let theirs = txn.open_table(table).unwrap();
    assert_eq!(theirs.get("k").unwrap().unwrap().value(), "v");
}

#[tokio::test]
async fn a_clock_set_back_while_the_file_is_closed_lengthens_no_lease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let open_at = |now_ms| {
        let clock = ManualClock::at(now_ms);
        let options = RedbOptions {
            clock: (&clock).into(),
            ..RedbOptions::default()
        };
        (RedbStore::open_with(&path, options).unwrap(), clock)
    };
    let (store, _) = open_at(10_000_000);
    let message = NewMessage::new("anna", "hello");
    store.enqueue(&MAIL, message).await.unwrap();
    assert_eq!(store.claim(Claim::one(MAIL, 2_000)).await.unwrap().len(), 1);
    drop(store);
    let (store, clock) = open_at(1_000);
    assert!(
        store
            .claim(Claim::one(MAIL, 2_000))
            .await
            .unwrap()
            .is_empty()
    );
    clock.advance(std::time::Duration::from_millis(2_000));
    assert_eq!(store.claim(Claim::one(MAIL, 2_000)).await.unwrap().len(), 1);
}

/// As an application sees it: the second life of a name that had much.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_for_a_deleted_name_is_stored_once_it_is_free() {
    let disk = Disk::new();
    let store = store_on(&disk);
    let put = |scope: &str, key: &str| Operation::Put {
        scope: scope.to_owned(),
        key: key.to_owned(),
        value: vec![1],
    };
    let enqueue = |text: &str| Operation::Enqueue {
        queue: MAIL,
        message: NewMessage::new("anna", text),
    };
    let append = |count: u64| {
        let events = (1..=count).map(|number| Record {
            number,
            data: vec![7; 20],
        });
        Operation::Append {
            entity: "anna".to_owned(),
            partition: 1,
            events: events.collect(),
        }
    };
    let mut much: Vec<_> = (0..2_000).map(|n| put("anna", &n.to_string())).collect();
    much.extend((0..2_000).map(|_| enqueue("old")));
    much.push(append(2_000));
    store.commit(Batch::of(much)).await.unwrap();
    let (entity, scope, group) = ("anna".to_owned(), "anna".to_owned(), "anna".to_owned());
    let deletion = Batch::of([
        Operation::DeleteEntity { entity },
        Operation::DeleteScope { scope },
        Operation::DeleteGroup { queue: MAIL, group },
    ]);
    let deleted = store.commit(deletion).await.unwrap();
    assert_eq!(deleted, [2_000, 2_000, 2_000]);
    // Each of them has to wait for something else; who wants nothing of the name does not.
    let news = [append(1), put("anna", "new"), enqueue("new")].map(|new| Batch::of([new]));
    let [first, second, third] = news.map(|new| store.commit(new));
    let other = store.put("bert", "k", vec![1]);
    let (first, second, third, other) = tokio::join!(first, second, third, other);
    for done in [first, second, third] {
        assert_eq!(done.unwrap(), [1]);
    }
    other.unwrap();
    assert_eq!(store.entries("anna").await.unwrap().len(), 1);
    let claimed = store.claim(Claim::one(MAIL, 1_000)).await.unwrap();
    assert_eq!(claimed[0].messages[0].payload, b"new");
    assert_eq!(events_in_file(&store), 1);
}

/// Deletes a long log as a process does that dies right afterwards.
fn delete_and_die(disk: &Disk) {
    let db = Builder::new().create_with_backend(disk.clone()).unwrap();
    let entity = || "e".to_owned();
    let events = (1..=3_000).map(|number| Record {
        number,
        data: vec![7; 20],
    });
    let long = Operation::Append {
        entity: entity(),
        partition: 1,
        events: events.collect(),
    };
    for operation in [long, Operation::DeleteEntity { entity: entity() }] {
        let txn = db.begin_write().unwrap();
        commit::batch(&mut Tables::of(&txn), &Batch::of([operation]), 1).unwrap();
        txn.commit().unwrap();
    }
}

fn events_in_file(store: &RedbStore) -> u64 {
    let db = store.inner.file.database().unwrap();
    let views = Views::open(&db.begin_read().unwrap()).unwrap();
    views.events.len().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_deletion_left_in_the_file_is_removed_by_the_next_process() {
    let disk = Disk::new();
    drop(store_on(&disk));
    delete_and_die(&disk);
    let store = store_on(&disk);
    // Nothing is asked of the store meanwhile.
    while events_in_file(&store) > 0 {
        tokio::task::yield_now().await;
    }
    // And beside its other work.
    drop(store);
    delete_and_die(&disk);
    let store = store_on(&disk);
    let mut rounds = 0;
    while events_in_file(&store) > 0 {
        rounds += 1;
        store.put("s", "k", vec![1]).await.unwrap();
        assert!(rounds < 100, "a step follows every group of jobs");
    }
}
