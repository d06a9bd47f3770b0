//! The provider over this store, under a name of its own.

use std::path::Path;

use super::{RedbOptions, RedbStore};
use crate::adapter::StoreProvider;
use crate::error::StoreError;

/// A provider in one file, in pure Rust.
pub type RedbProvider = StoreProvider<RedbStore>;

impl RedbProvider {
    /// Opens the file, or makes it; acknowledged writes are on disk. Blocks while the file is opened.
    ///
    /// # Errors
    ///
    /// Those of [`RedbStore::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, RedbOptions::default())
    }

    /// Opens the file, or makes it, with options.
    ///
    /// # Errors
    ///
    /// Those of [`RedbStore::open`].
    pub fn open_with(path: impl AsRef<Path>, options: RedbOptions) -> Result<Self, StoreError> {
        let store = RedbStore::open_with(path, options)?;
        Ok(Self::over("redb", store))
    }

    /// Opens the file, or makes it, on a thread that may block.
    ///
    /// # Errors
    ///
    /// Those of [`RedbStore::open`].
    pub async fn open_async(
        path: impl AsRef<Path>,
        options: RedbOptions,
    ) -> Result<Self, StoreError> {
        let store = RedbStore::open_async(path, options).await?;
        Ok(Self::over("redb", store))
    }
}
