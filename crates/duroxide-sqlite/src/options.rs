//! Settings of a store. In: what the user chose. Out: plain values. Never reads the environment.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use duroxide_core::clock::{ClockRef, SystemClock};

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Process death and power loss: every acknowledged commit was synced to disk.
    #[default]
    Full,
    /// Process death. Power loss may take the last commits, never the consistency of the file.
    Relaxed,
}

impl Durability {
    /// The value of `PRAGMA synchronous` that gives this promise in WAL mode.
    pub(crate) fn synchronous_level(self) -> i64 {
        match self {
            Self::Full => 2,
            Self::Relaxed => 1,
        }
    }
}

/// What opening does with a file whose schema an older build wrote.
///
/// Programs of the older build that have the file open cannot commit after an upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SchemaUpgrade {
    /// Brings it up to this build, in one transaction.
    #[default]
    OnOpen,
    /// Refuses it with [`SqliteError::NeedsUpgrade`](crate::SqliteError::NeedsUpgrade); [`upgrade`](crate::upgrade)
    /// does it.
    Refuse,
}

/// Whether other programs may have the file open meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtherPrograms {
    /// No: if one has, the call is refused.
    Refuse,
    /// Yes. They wait, or fail and try again.
    Disturb,
}

/// How a store is opened.
///
/// ```
/// use duroxide_sqlite::{Durability, SqliteOptions};
/// let fast = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::default() };
/// assert_eq!(SqliteOptions::default().durability, Durability::Full);
/// assert_eq!(fast.durability, Durability::Relaxed);
/// ```
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Failures that a commit survives; `?durability=` in the url wins over it. In-memory stores ignore it.
    pub durability: Durability,
    /// Clock of leases and due times; all processes on one file must agree on it. With a clock of
    /// one's own, a waiting claim looks at it every 50 ms instead of sleeping until the next due time.
    pub clock: ClockRef,
    /// How long an event, cancellation or completion waits for the start of an unknown instance, before it is
    /// dead-lettered.
    pub unknown_instance_grace: Duration,
    /// Treatment of a file whose schema an older build wrote.
    pub upgrade: SchemaUpgrade,
    /// Settings that only the tests of this crate make.
    #[doc(hidden)]
    pub tuning: Tuning,
}

/// What the tests of this crate choose to be otherwise.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct Tuning {
    /// Behave as with a SQLite that only the writer may checkpoint.
    pub writer_checkpoints_alone: bool,
    /// Pages of log at which checkpoints begin.
    pub checkpoint_pages: Option<usize>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            clock: system_clock(),
            unknown_instance_grace: Duration::from_secs(60),
            upgrade: SchemaUpgrade::default(),
            tuning: Tuning::default(),
        }
    }
}

impl SqliteOptions {
    /// Whether the clock is the default one, whose pace is that of the operating system's timers.
    pub(crate) fn follows_system_clock(&self) -> bool {
        Arc::ptr_eq(&self.clock, &system_clock())
    }
}

fn system_clock() -> ClockRef {
    static SYSTEM: OnceLock<ClockRef> = OnceLock::new();
    SYSTEM.get_or_init(|| Arc::new(SystemClock)).clone()
}
