//! Where the orchestrations live. In: a place. Out: an open store.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::providers::postgres::PostgresProvider;
use duroxide::providers::redb::{RedbOptions, RedbProvider};
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};
use duroxide_core::clock::ClockRef;

/// How long a server may be away.
const SERVER_AWAY_MAX: Duration = Duration::from_secs(60);

/// The store of a run.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A file in the folder of the run. Alone: as with a SQLite that is older than 3.51.3, one process and its writer
    /// checkpoints.
    Sqlite {
        file: PathBuf,
        alone: bool,
        /// Pages of log at which checkpoints begin; as shipped, if not said.
        checkpoint_pages: Option<usize>,
    },
    /// A file in the folder of the run, for one process.
    Redb(PathBuf),
    /// A server.
    Postgres(String),
}

impl Place {
    pub(crate) fn file_in(folder: &Path, alone: bool) -> Self {
        let file = folder.join("chaos.db");
        Self::Sqlite {
            file,
            alone,
            checkpoint_pages: None,
        }
    }

    pub(crate) fn redb_in(folder: &Path) -> Self {
        Self::Redb(folder.join("chaos.redb"))
    }

    /// The same kind of place in another folder.
    pub(crate) fn moved_to(&self, folder: &Path) -> Self {
        match self {
            Self::Sqlite { alone, .. } => Self::file_in(folder, *alone),
            Self::Redb(_) => Self::redb_in(folder),
            Self::Postgres(_) => panic!("a server has no folder"),
        }
    }

    /// The same place, for a life that checkpoints from so many pages on.
    pub(crate) fn with_checkpoints_at(&self, pages: usize) -> Self {
        match self {
            Self::Sqlite { file, alone, .. } => Self::Sqlite {
                file: file.clone(),
                alone: *alone,
                checkpoint_pages: Some(pages),
            },
            other => other.clone(),
        }
    }

    /// Points at which the store kills its own process, and how often a life passes them, about: those of its work, and
    /// those of its first opening.
    pub(crate) fn points(&self) -> (&'static [(&'static str, u64)], &'static [&'static str]) {
        match self {
            Self::Sqlite { .. } => (
                &[
                    ("before_commit", 400),
                    ("after_commit", 400),
                    ("before_answer", 400),
                    ("handed_out_early", 100),
                    ("before_checkpoint", 4),
                    ("after_checkpoint", 4),
                    ("before_log_reset", 2),
                    ("after_log_reset", 2),
                ],
                &[
                    "file_made",
                    "log_made",
                    "migration",
                    "before_schema",
                    "after_schema",
                ],
            ),
            Self::Redb(_) => (
                &[
                    ("before_commit", 200),
                    ("after_commit", 200),
                    ("before_answer", 200),
                ],
                &["file_made", "file_opened", "before_schema", "after_schema"],
            ),
            Self::Postgres(_) => (&[], &[]),
        }
    }

    /// Whether two processes may share it.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self, Self::Sqlite { alone: true, .. } | Self::Redb(_))
    }

    /// Tells a worker about it.
    pub(crate) fn name_to(&self, worker: &mut Command) {
        match self {
            Self::Sqlite {
                alone,
                checkpoint_pages,
                ..
            } => {
                if *alone {
                    worker.arg("--alone");
                }
                if let Some(pages) = checkpoint_pages {
                    worker.args(["--checkpoint-pages", &pages.to_string()]);
                }
            }
            Self::Redb(_) => drop(worker.arg("--redb")),
            Self::Postgres(url) => drop(worker.args(["--postgres", url])),
        }
    }

    /// As it is written on the command line of a run.
    pub(crate) fn arguments(&self) -> &'static str {
        match self {
            Self::Sqlite { alone: false, .. } => "",
            Self::Sqlite { alone: true, .. } => " --alone",
            Self::Redb(_) => " --store redb",
            Self::Postgres(_) => " --store postgres",
        }
    }

    /// How long a lease lasts: short, so that a killed worker's claims come back soon.
    pub(crate) fn lease(&self) -> Duration {
        match self {
            Self::Sqlite { .. } | Self::Redb(_) => Duration::from_millis(400),
            Self::Postgres(_) => Duration::from_secs(1),
        }
    }

    /// Whether leases and due times come from a clock that a run can set: that of a server is its own.
    pub(crate) fn has_settable_clock(&self) -> bool {
        !matches!(self, Self::Postgres(_))
    }

    /// Opens it, with the clock of the run if that has one of its own.
    pub(crate) async fn open(&self, clock: Option<ClockRef>) -> Arc<dyn Provider> {
        match self {
            Self::Sqlite {
                file,
                alone,
                checkpoint_pages,
            } => {
                let url = format!("sqlite:{}", file.display());
                let mut options = SqliteOptions::default();
                options.tuning.writer_checkpoints_alone = *alone;
                options.tuning.checkpoint_pages = *checkpoint_pages;
                if let Some(clock) = clock {
                    options.clock = clock;
                }
                let store = SqliteProvider::new(&url, Some(options)).await;
                Arc::new(store.expect("open the store"))
            }
            Self::Redb(file) => {
                let mut options = RedbOptions::default();
                if let Some(clock) = clock {
                    options.clock = clock.into();
                }
                let store = RedbProvider::open_async(file, options).await;
                Arc::new(store.expect("open the store"))
            }
            Self::Postgres(url) => {
                let until = Instant::now() + SERVER_AWAY_MAX;
                loop {
                    match PostgresProvider::new(url).await {
                        Ok(store) => return Arc::new(store),
                        Err(error) if Instant::now() > until => panic!("open the store: {error}"),
                        Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    }
                }
            }
        }
    }
}
