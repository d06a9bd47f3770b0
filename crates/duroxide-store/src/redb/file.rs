//! The open file. In: how to open it. Out: the database, for as long as it can be trusted. After a failed read or write
//! redb refuses everything until the file is closed and opened again; this is where that happens.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ::redb::{Builder, Database, DatabaseError, ReadableTable, TableHandle, WriteTransaction};

use super::error::{Result, Trouble};
use super::tables::{FORMAT, Tables, numbers};
use crate::error::StoreError;

/// How long an opener waits for a reader of the handle before it, and how often it looks.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

type Open = dyn Fn() -> std::result::Result<Database, DatabaseError> + Send + Sync;

/// The database, or nothing while it is being opened again.
pub(super) struct File {
    open: Box<Open>,
    db: RwLock<Option<Arc<Database>>>,
}

impl File {
    pub(super) fn at(path: &Path, cache_bytes: usize) -> Result<Self> {
        warn_without_locks(path);
        let path = path.to_owned();
        Self::opened_by(move || Builder::new().set_cache_size(cache_bytes).create(&path))
    }

    /// A file that is opened, and opened again, like this.
    pub(super) fn opened_by(
        open: impl Fn() -> std::result::Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Result<Self> {
        let file = Self {
            open: Box::new(open),
            db: RwLock::new(None),
        };
        file.reopen()?;
        Ok(file)
    }

    /// The database; an error that passes while it is being opened again.
    pub(super) fn database(&self) -> Result<Arc<Database>> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        let away = || StoreError::Retryable("the file is being opened again".to_owned());
        Ok(db.clone().ok_or_else(away)?)
    }

    /// Takes the database away from everybody, and waits until nobody uses it any more.
    pub(super) fn take(&self) -> Option<Database> {
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        let mut shared = db.take()?;
        drop(db);
        loop {
            match Arc::try_unwrap(shared) {
                Ok(db) => return Some(db),
                Err(still_read) => shared = still_read,
            }
            std::thread::sleep(BUSY_PAUSE);
        }
    }

    pub(super) fn put(&self, db: Database) {
        let mut place = self.db.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(Arc::new(db));
    }

    /// Closes the file and opens it again. What was never flushed is gone, as after a crash.
    pub(super) fn reopen(&self) -> Result<()> {
        drop(self.take());
        let mut tries = 0;
        let db = loop {
            match (self.open)() {
                // A query that was dropped may still hold the handle before this one.
                Err(DatabaseError::DatabaseAlreadyOpen) if tries < BUSY_TRIES => tries += 1,
                Err(error) => return Err(refused(error)),
                Ok(db) => break db,
            }
            std::thread::sleep(BUSY_PAUSE);
        };
        prepare(&db)?;
        self.put(db);
        Ok(())
    }
}

/// What will not open by itself the next time is told as such.
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
fn prepare(db: &Database) -> Result<()> {
    let txn = db.begin_write()?;
    let names: Vec<String> = txn
        .list_tables()?
        .map(|table| table.name().to_owned())
        .collect();
    if names.is_empty() {
        let mut tables = Tables::open(&txn)?;
        tables.numbers.insert("format", FORMAT)?;
        drop(tables);
        txn.commit()?;
        return Ok(());
    }
    let format = match names.iter().any(|name| name == "numbers") {
        true => format_of(&txn)?,
        false => None,
    };
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
fn warn_without_locks(path: &Path) {
    let Ok(file) = std::fs::OpenOptions::new().read(true).open(path) else {
        return;
    };
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
