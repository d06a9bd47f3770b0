//! How a file is opened. In: what the user chose. Out: the same, or the reason why it cannot work. Never corrects an
//! option in silence.

use super::tables::STEP;
use crate::clock::StoreClock;
use crate::error::StoreError;

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Everything: it was flushed to disk before it was acknowledged. Writes that come together share a flush.
    #[default]
    Full,
    /// A crash of the process or of the machine may lose the writes of the last moment, about 50 milliseconds; the file
    /// stays consistent. Closing the store flushes.
    Relaxed,
}

/// How to open a [`RedbStore`](super::RedbStore). Options that cannot work are refused when it opens.
#[derive(Debug, Clone)]
pub struct RedbOptions {
    /// Failures that an acknowledged write survives.
    pub durability: Durability,
    /// The store's clock.
    pub clock: StoreClock,
    /// How much of the file is kept in memory at most, in bytes: from 1 MiB to 1 TiB.
    pub cache_bytes: usize,
    /// Whether a file that was not closed well opens at once, at the price of more writing in every commit. Otherwise
    /// the whole file is read then, about a second per gigabyte.
    pub quick_repair: bool,
    /// Settings that only the tests of this crate make.
    #[doc(hidden)]
    pub tuning: Tuning,
}

/// What the tests of this crate choose to be otherwise.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Rows that a deletion, or one step behind it, removes at most.
    pub step: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { step: STEP }
    }
}

/// Memory for the file, unless configured otherwise.
pub const DEFAULT_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Less is no cache: every commit would read the same pages from the file again.
const CACHE_BYTES_MIN: u64 = 1024 * 1024;
/// More is no bound.
const CACHE_BYTES_MAX: u64 = 1024 * 1024 * 1024 * 1024;

impl Default for RedbOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            clock: StoreClock::default(),
            cache_bytes: DEFAULT_CACHE_BYTES,
            quick_repair: false,
            tuning: Tuning::default(),
        }
    }
}

impl RedbOptions {
    /// Refuses options that cannot work, before anything is opened.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let bytes = self.cache_bytes;
        let why = match bytes as u64 {
            0..CACHE_BYTES_MIN => format!(
                "cache_bytes is {bytes}, at least {CACHE_BYTES_MIN} are needed: with less every commit reads the file again"
            ),
            CACHE_BYTES_MIN..=CACHE_BYTES_MAX => return Ok(()),
            _ => format!(
                "cache_bytes is {bytes}, at most {CACHE_BYTES_MAX} are possible: more would bound nothing"
            ),
        };
        Err(StoreError::Permanent(why))
    }
}

#[cfg(test)]
mod tests {
    use super::super::RedbStore;
    use super::*;

    #[test]
    fn options_that_cannot_work_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.redb");
        for (cache_bytes, reason) in [
            (0, "at least 1048576 are needed"),
            (1024 * 1024 - 1, "at least 1048576 are needed"),
            (usize::MAX, "at most 1099511627776 are possible"),
        ] {
            let options = RedbOptions {
                cache_bytes,
                ..RedbOptions::default()
            };
            let refused = RedbStore::open_with(&path, options).unwrap_err();
            assert!(matches!(refused, StoreError::Permanent(_)), "{refused:?}");
            let said = refused.to_string();
            assert!(
                said.starts_with(&format!("cache_bytes is {cache_bytes}, ")),
                "{said}"
            );
            assert!(said.contains(reason), "{said}");
            assert!(!path.exists(), "refused before anything is opened");
        }
        for cache_bytes in [1024 * 1024, DEFAULT_CACHE_BYTES] {
            let options = RedbOptions {
                cache_bytes,
                ..RedbOptions::default()
            };
            RedbStore::open_with(&path, options).unwrap();
        }
    }
}
