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
    /// As `sqlite-full`, the way of a SQLite older than 3.51.3: only the writer checkpoints.
    SqliteAlone,
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
    /// The published crate on its PostgreSQL store (`duroxide-pg` 0.1.38), best settings; the same server as
    /// `postgres`.
    PublishedPostgres,
}

impl Subject {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::SqliteFull => "sqlite-full",
            Self::SqliteRelaxed => "sqlite-relaxed",
            Self::SqliteAlone => "sqlite-alone",
            Self::Memory => "memory",
            Self::MemoryStore => "memory-store",
            Self::DirectMemory => "direct-memory",
            Self::RedbFull => "redb-full",
            Self::RedbRelaxed => "redb-relaxed",
            Self::Postgres => "postgres",
            Self::Published => "published",
            Self::PublishedDefault => "published-default",
            Self::PublishedPostgres => "published-postgres",
        }
    }

    /// Whether a workload can be run on it.
    #[allow(dead_code, reason = "only our half chooses")]
    pub(crate) fn knows(self, workload: &str) -> bool {
        let sqlite = matches!(
            self,
            Self::SqliteFull | Self::SqliteRelaxed | Self::SqliteAlone
        );
        let published = matches!(
            self,
            Self::Published | Self::PublishedDefault | Self::PublishedPostgres
        );
        match workload {
            "turn@1" => !published,
            _ if self == Self::MemoryStore => false,
            "turn@64" => !published,
            "floor" => sqlite || self == Self::Postgres,
            "nodes@64" | "nodes-idle" | "held@64" | "filled@64" | "sizes" => self == Self::Postgres,
            "operate" | "retention@64" => sqlite || self == Self::Postgres,
            "backup@64" => sqlite,
            "observed@64" => !published,
            "history@1" | "history@64" => sqlite || (published && self != Self::PublishedPostgres),
            _ => true,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
