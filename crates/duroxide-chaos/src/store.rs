//! Where the orchestrations live. In: a place. Out: an open store.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider;
use duroxide::providers::postgres::PostgresProvider;
use duroxide::providers::sqlite::{SqliteOptions, SqliteProvider};

/// How long a server may be away.
const PATIENCE: Duration = Duration::from_secs(60);

/// The store of a run.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A file in the folder of the run. Alone: as with a SQLite that is older than 3.51.3, one process and its writer checkpoints.
    Sqlite { file: PathBuf, alone: bool },
    /// A server.
    Postgres(String),
}

impl Place {
    pub(crate) fn file_in(folder: &Path, alone: bool) -> Self {
        let file = folder.join("chaos.db");
        Self::Sqlite { file, alone }
    }

    /// Whether two processes may share it.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self, Self::Sqlite { alone: true, .. })
    }

    /// Tells a worker about it.
    pub(crate) fn name_to(&self, worker: &mut Command) {
        match self {
            Self::Sqlite { alone: false, .. } => {}
            Self::Sqlite { alone: true, .. } => drop(worker.arg("--alone")),
            Self::Postgres(url) => drop(worker.args(["--postgres", url])),
        }
    }

    /// How long a lease lasts: short, so that a killed worker's claims come back soon.
    pub(crate) fn lease(&self) -> Duration {
        match self {
            Self::Sqlite { .. } => Duration::from_millis(400),
            Self::Postgres(_) => Duration::from_secs(1),
        }
    }

    pub(crate) async fn open(&self) -> Arc<dyn Provider> {
        match self {
            Self::Sqlite { file, alone } => {
                let url = format!("sqlite:{}", file.display());
                let mut options = SqliteOptions::default();
                options.tuning.writer_checkpoints_alone = *alone;
                let store = SqliteProvider::new(&url, Some(options)).await;
                Arc::new(store.expect("open the store"))
            }
            Self::Postgres(url) => {
                let until = Instant::now() + PATIENCE;
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
