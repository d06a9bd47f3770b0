//! The open file. In: how to open it. Out: the database, for as long as it can be trusted. After a failed read or write
//! redb refuses everything until the file is closed and opened again; this is where that happens.

use std::fs::{File as OsFile, OpenOptions};
use std::io;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use ::redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableHandle,
    WriteTransaction,
};

use super::error::{Result, Trouble};
use super::tables::{self, CLOCK, FORMAT, FORMATS_BEFORE, Tables, numbers};
use crate::error::StoreError;
use duroxide_core::kill;

/// How long the first opener waits for a reader of the store before it, and how often it looks.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Which opening of the file it is. Only the first may make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    First,
    Again,
}

type Open = dyn Fn(Opening) -> std::result::Result<Database, DatabaseError> + Send + Sync;

/// The database as its users share it. The fields are dropped in this order: while `_alive` can be counted, the
/// database may still write.
#[derive(Debug)]
pub(super) struct Held {
    db: Database,
    _alive: Arc<()>,
}

impl Deref for Held {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.db
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Database {
        &mut self.db
    }
}

/// The database, or nothing while it is being opened again.
pub(super) struct File {
    open: Box<Open>,
    place: RwLock<Place>,
}

#[derive(Default)]
struct Place {
    db: Option<Arc<Held>>,
    /// Whether a user of the database that was opened last is left.
    last: Weak<()>,
}

impl File {
    pub(super) fn at(path: &Path, cache_bytes: usize) -> Result<Self> {
        let path = path.to_owned();
        let first = OnceLock::new();
        Self::opened_by(move |opening| {
            let file = open_file(&path, opening)?;
            let identity = Identity::of(&file)?;
            match opening {
                Opening::First => warn_without_locks(&path, &file),
                Opening::Again => identity.expect_as_before(first.get())?,
            }
            kill::point("file_made");
            let db = Builder::new()
                .set_cache_size(cache_bytes)
                .create_file(file)?;
            kill::point("file_opened");
            first.get_or_init(|| identity);
            Ok(db)
        })
    }

    /// A file that is opened, and opened again, like this.
    pub(super) fn opened_by(
        open: impl Fn(Opening) -> std::result::Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Result<Self> {
        let mut tries = 0;
        let db = loop {
            match open(Opening::First) {
                // A query that was dropped may still hold the handle of the store before this one.
                Err(DatabaseError::DatabaseAlreadyOpen) if tries < BUSY_TRIES => tries += 1,
                Err(error) => return Err(refused(error)),
                Ok(db) => break db,
            }
            std::thread::sleep(BUSY_PAUSE);
        };
        prepare(&db, Opening::First)?;
        let file = Self {
            open: Box::new(open),
            place: RwLock::default(),
        };
        file.put(db);
        Ok(file)
    }

    /// The database; an error that passes while it is being opened again.
    pub(super) fn database(&self) -> Result<Arc<Held>> {
        let place = self.place.read().unwrap_or_else(PoisonError::into_inner);
        let away = || StoreError::Retryable("the file is being opened again".to_owned());
        Ok(place.db.clone().ok_or_else(away)?)
    }

    /// Takes the database away from all users, and waits until the last one has dropped it.
    pub(super) fn take(&self) -> Option<Held> {
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        let mut shared = place.db.take()?;
        drop(place);
        loop {
            match Arc::try_unwrap(shared) {
                Ok(held) => return Some(held),
                Err(still_read) => shared = still_read,
            }
            std::thread::sleep(BUSY_PAUSE);
        }
    }

    /// Gives a database back that was taken.
    pub(super) fn put_back(&self, held: Held) {
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        place.db = Some(Arc::new(held));
    }

    /// Closes the file. redb may panic while it does so, if damaged bytes lead it out of bounds; nothing is left to
    /// lose then.
    pub(super) fn close(&self) {
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        let closed = place.db.take();
        drop(place);
        if catch_unwind(AssertUnwindSafe(|| drop(closed))).is_err() {
            tracing::error!(target: "duroxide::providers::redb", "the file could not be closed well: it is damaged");
        }
    }

    fn put(&self, db: Database) {
        let alive = Arc::new(());
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        place.last = Arc::downgrade(&alive);
        place.db = Some(Arc::new(Held { db, _alive: alive }));
    }

    /// Closes the file and tries once to open it again. What was never flushed is gone, as after a crash. Fails while a
    /// reader still has the database from before, and never makes a file.
    pub(super) fn reopen(&self) -> Result<()> {
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        let (closed, last) = (place.db.take(), place.last.clone());
        drop(place);
        drop(closed);
        if last.strong_count() > 0 {
            let text = "a reader still has the file open".to_owned();
            return Err(StoreError::Retryable(text).into());
        }
        let db = (self.open)(Opening::Again).map_err(refused)?;
        prepare(&db, Opening::Again)?;
        self.put(db);
        Ok(())
    }
}

/// Opens the file, makes it only the first time, and takes an empty one only then: where a disk went away, its mount
/// point is an empty folder.
fn open_file(path: &Path, opening: Opening) -> io::Result<OsFile> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.create(opening == Opening::First).truncate(false);
    let file = options.open(path)?;
    if opening == Opening::Again && file.metadata()?.len() == 0 {
        Err(io::Error::other("the file is empty"))
    } else {
        Ok(file)
    }
}

/// Which file was opened, where the operating system shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(Option<(u64, u64)>);

impl Identity {
    #[cfg(unix)]
    fn of(file: &OsFile) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let file = file.metadata()?;
        Ok(Self(Some((file.dev(), file.ino()))))
    }

    #[cfg(not(unix))]
    fn of(_: &OsFile) -> io::Result<Self> {
        Ok(Self(None))
    }

    fn expect_as_before(self, first: Option<&Self>) -> io::Result<()> {
        if first.is_none_or(|first| *first == self) {
            Ok(())
        } else {
            Err(io::Error::other("another file lies at the path"))
        }
    }
}

/// The error says so when the file will not open by itself the next time.
fn refused(error: DatabaseError) -> Trouble {
    match error {
        DatabaseError::UpgradeRequired(version) => {
            let text =
                format!("the file has redb's format {version}, which this build cannot read");
            StoreError::Permanent(text).into()
        }
        DatabaseError::Storage(::redb::StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            StoreError::Permanent(format!("this is no file of this store: {error}")).into()
        }
        error => error.into(),
    }
}

/// Makes the tables of a new file, and looks at the format of one that is there before anything else is touched.
fn prepare(db: &Database, opening: Opening) -> Result<()> {
    let txn = db.begin_write()?;
    let names: Vec<String> = txn
        .list_tables()?
        .map(|table| table.name().to_owned())
        .collect();
    if names.is_empty() {
        if opening == Opening::Again {
            let text = "the file that was opened again is an empty store".to_owned();
            return Err(StoreError::Retryable(text).into());
        }
        tables::create(&txn)?;
        let mut tables = Tables::of(&txn);
        tables.numbers.insert("format", FORMAT)?;
        drop(tables);
        kill::point("before_schema");
        txn.commit()?;
        kill::point("after_schema");
        return Ok(());
    }
    let format = if names.iter().any(|name| name == "numbers") {
        format_of(&txn)?
    } else {
        None
    };
    if format.is_some_and(|format| FORMATS_BEFORE.contains(&format)) {
        return upgrade(txn);
    }
    txn.abort()?;
    match format {
        Some(FORMAT) => Ok(()),
        Some(other) => {
            let text = format!("the file has format {other}, this build reads {FORMAT}");
            Err(StoreError::Permanent(text).into())
        }
        None => {
            let text = "the file belongs to another program: it has tables, but no format number";
            Err(StoreError::Permanent(text.to_owned()).into())
        }
    }
}

/// Adds what the format has got since. A build that does not know it refuses the file from now on.
fn upgrade(txn: WriteTransaction) -> Result<()> {
    tables::create(&txn)?;
    let mut tables = Tables::of(&txn);
    tables.numbers.insert("format", FORMAT)?;
    drop(tables);
    Ok(txn.commit()?)
}

/// How late it was at one of the last writes.
pub(super) fn time_of(db: &Database) -> Result<u64> {
    let numbers = db.begin_read()?.open_table(numbers())?;
    let stored = numbers.get(CLOCK)?;
    Ok(stored.map_or(0, |stored| stored.value()))
}

fn format_of(txn: &WriteTransaction) -> Result<Option<u64>> {
    let numbers = match txn.open_table(numbers()) {
        Ok(numbers) => numbers,
        Err(::redb::TableError::TableTypeMismatch { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let format = numbers.get("format")?.map(|format| format.value());
    Ok(format)
}

/// Says so where the file system keeps no locks: there nothing stops a second process.
fn warn_without_locks(path: &Path, file: &OsFile) {
    match file.try_lock() {
        Err(std::fs::TryLockError::Error(error))
            if error.kind() == std::io::ErrorKind::Unsupported =>
        {
            tracing::warn!(
                target: "duroxide::providers::redb", path = %path.display(),
                "the file system keeps no locks: nothing stops a second process from opening this file"
            );
        }
        Ok(()) => drop(file.unlock()),
        Err(_) => {}
    }
}
