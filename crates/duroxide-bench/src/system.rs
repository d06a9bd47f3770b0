//! What is measured: a running engine on a store, whichever crate it comes from.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A running engine.
pub(crate) trait System: Sized + Send + Sync + 'static {
    /// Starts an orchestration.
    fn begin(
        &self,
        id: String,
        name: &'static str,
        input: String,
    ) -> impl Future<Output = ()> + Send;
    /// Waits for its result.
    fn result(&self, id: &str) -> impl Future<Output = String> + Send;
    /// Raises the event `go`.
    fn raise(&self, id: &str) -> impl Future<Output = ()> + Send;
    /// Whether it was picked up and has not ended.
    fn is_running(&self, id: &str) -> impl Future<Output = bool> + Send;
    /// What waits in the queues.
    fn depth(&self) -> impl Future<Output = usize> + Send;
    /// Shuts down.
    fn stop(self) -> impl Future<Output = ()> + Send;
}

/// Which engine on which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Subject {
    /// Ours on SQLite, `synchronous=FULL`: synced before every acknowledgement.
    SqliteFull,
    /// Ours on SQLite, `synchronous=NORMAL`.
    SqliteRelaxed,
    /// Ours on the in-memory store, through the generic adapter.
    Memory,
    /// The part of `memory` that is spent inside the store, below the adapter. Only for `turn@1`.
    MemoryStore,
    /// Ours on a direct provider in memory, without the adapter.
    DirectMemory,
    /// Ours on redb, synced before every acknowledgement, through the generic adapter.
    RedbFull,
    /// Ours on redb, synced every 50 ms.
    RedbRelaxed,
    /// Ours on PostgreSQL, stock durability; the server named by `DUROXIDE_TEST_POSTGRES_URL`.
    Postgres,
    /// The published 0.1.32 crate on its SQLite store (which runs at `synchronous=NORMAL`), best settings.
    Published,
    /// The published crate with its default settings.
    PublishedDefault,
}

impl Subject {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::SqliteFull => "sqlite-full",
            Self::SqliteRelaxed => "sqlite-relaxed",
            Self::Memory => "memory",
            Self::MemoryStore => "memory-store",
            Self::DirectMemory => "direct-memory",
            Self::RedbFull => "redb-full",
            Self::RedbRelaxed => "redb-relaxed",
            Self::Postgres => "postgres",
            Self::Published => "published",
            Self::PublishedDefault => "published-default",
        }
    }

    /// Whether a workload can be run on it.
    #[allow(dead_code, reason = "only our half chooses")]
    pub(crate) fn knows(self, workload: &str) -> bool {
        let sqlite = matches!(self, Self::SqliteFull | Self::SqliteRelaxed);
        let published = matches!(self, Self::Published | Self::PublishedDefault);
        match workload {
            "turn@1" => !published,
            _ if self == Self::MemoryStore => false,
            "turn@64" => !published,
            "floor" => sqlite,
            "history@1" | "history@64" => sqlite || published,
            _ => true,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
