//! A table of a write transaction, opened when it is first touched: most transactions touch a few of the tables, and
//! opening one costs more than reading from it.

use std::borrow::Borrow;
use std::cell::OnceCell;
use std::ops::RangeBounds;

use ::redb::{
    AccessGuard, Key, Range, ReadableTable, ReadableTableMetadata, StorageError, Table,
    TableDefinition, TableError, TableStats, Value, WriteTransaction,
};

type Result<T> = std::result::Result<T, StorageError>;

pub(super) struct LazyTable<'t, K: Key + 'static, V: Value + 'static> {
    txn: &'t WriteTransaction,
    definition: TableDefinition<'static, K, V>,
    table: OnceCell<Table<'t, K, V>>,
}

impl<'t, K: Key + 'static, V: Value + 'static> LazyTable<'t, K, V> {
    pub(super) fn new(
        txn: &'t WriteTransaction,
        definition: TableDefinition<'static, K, V>,
    ) -> Self {
        Self {
            txn,
            definition,
            table: OnceCell::new(),
        }
    }

    fn opened(&self) -> Result<&Table<'t, K, V>> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = self.txn.open_table(self.definition).map_err(unopened)?;
        Ok(self.table.get_or_init(|| table))
    }

    fn opened_mut(&mut self) -> Result<&mut Table<'t, K, V>> {
        self.opened()?;
        let table = self.table.get_mut();
        table.ok_or_else(|| StorageError::Corrupted("a table was not opened".to_owned()))
    }

    pub(super) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<Option<AccessGuard<'_, V>>> {
        self.opened_mut()?.insert(key, value)
    }

    pub(super) fn remove<'k>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
    ) -> Result<Option<AccessGuard<'_, V>>> {
        self.opened_mut()?.remove(key)
    }
}

/// A table of another type stands where ours should: the file is not what its format says.
fn unopened(error: TableError) -> StorageError {
    match error {
        TableError::Storage(error) => error,
        other => StorageError::Corrupted(other.to_string()),
    }
}

impl<K: Key + 'static, V: Value + 'static> ReadableTableMetadata for LazyTable<'_, K, V> {
    fn stats(&self) -> Result<TableStats> {
        self.opened()?.stats()
    }

    fn len(&self) -> Result<u64> {
        self.opened()?.len()
    }
}

impl<K: Key + 'static, V: Value + 'static> ReadableTable<K, V> for LazyTable<'_, K, V> {
    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<AccessGuard<'_, V>>> {
        self.opened()?.get(key)
    }

    fn range<'a, KR>(&self, range: impl RangeBounds<KR> + 'a) -> Result<Range<'_, K, V>>
    where
        KR: Borrow<K::SelfType<'a>> + 'a,
    {
        self.opened()?.range(range)
    }

    fn first(&self) -> Result<Option<(AccessGuard<'_, K>, AccessGuard<'_, V>)>> {
        self.opened()?.first()
    }

    fn last(&self) -> Result<Option<(AccessGuard<'_, K>, AccessGuard<'_, V>)>> {
        self.opened()?.last()
    }
}
