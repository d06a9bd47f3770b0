//! A file in memory, and transactions on it, for tests of what happens inside one.

use ::redb::backends::InMemoryBackend;
use ::redb::{Builder, Database};

use super::error::Result;
use super::tables::{self, Tables};

/// A new file.
pub(super) fn file() -> Database {
    let backend = InMemoryBackend::new();
    let db = Builder::new().create_with_backend(backend).unwrap();
    let txn = db.begin_write().unwrap();
    tables::create(&txn).unwrap();
    txn.commit().unwrap();
    db
}

/// One transaction, which is committed unless it fails.
pub(super) fn write<T>(db: &Database, act: impl FnOnce(&mut Tables<'_>) -> Result<T>) -> Result<T> {
    let txn = db.begin_write().unwrap();
    let done = act(&mut Tables::of(&txn));
    match &done {
        Ok(_) => txn.commit().unwrap(),
        Err(_) => txn.abort().unwrap(),
    }
    done
}
