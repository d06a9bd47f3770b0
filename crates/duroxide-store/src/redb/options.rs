//! How a file is opened. In: what the user chose. Out: the same.

use super::tables::STEP;
use crate::clock::StoreClock;

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

/// How to open a [`RedbStore`](super::RedbStore).
#[derive(Debug, Clone)]
pub struct RedbOptions {
    /// Failures that an acknowledged write survives.
    pub durability: Durability,
    /// The store's clock.
    pub clock: StoreClock,
    /// How much of the file is kept in memory at most, in bytes.
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
