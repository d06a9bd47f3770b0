//! Opening ours on a store.

use std::path::Path;
use std::sync::Arc;

use duroxide::RuntimeOptions;
use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::postgres::PostgresProvider;
use duroxide::providers::redb::{Durability as RedbDurability, RedbOptions, RedbProvider};
use duroxide::providers::sqlite::{Durability, SqliteOptions, SqliteProvider};
use duroxide_store::StoreProvider;
use duroxide_store::memory::MemoryStore;

use crate::course::FILE;
use crate::direct;
use crate::ours::Engine;
use crate::system::Subject;
use crate::timed::{Inside, Timed};

/// A running engine on a store in a folder, with default options.
pub(crate) async fn open(subject: Subject, folder: &Path) -> Engine {
    Engine::start(store(subject, folder).await, RuntimeOptions::default()).await
}

/// What the command line is told to find the store of a folder.
pub(crate) fn address(subject: Subject, folder: &Path) -> Vec<String> {
    if subject != Subject::Postgres {
        let file = folder.join(FILE).display().to_string();
        return vec!["--store".to_owned(), format!("sqlite:{file}")];
    }
    let server = server();
    let url = if server.starts_with("postgres") {
        server
    } else {
        format!("postgres:///?{}", server.replace(' ', "&"))
    };
    let schema = schema(folder);
    ["--store", &url, "--schema", &schema]
        .map(str::to_owned)
        .to_vec()
}

/// A store without an engine; if it has a stopwatch, that too.
pub(crate) async fn store_with_stopwatch(
    subject: Subject,
    folder: &Path,
) -> (Arc<dyn Provider>, Option<Inside>) {
    if subject != Subject::MemoryStore {
        return (store(subject, folder).await, None);
    }
    let inside = Inside::default();
    let timed = Timed::new(MemoryStore::new(), Arc::clone(&inside));
    (Arc::new(StoreProvider::over("memory", timed)), Some(inside))
}

pub(crate) async fn store(subject: Subject, folder: &Path) -> Arc<dyn Provider> {
    match subject {
        Subject::SqliteFull => sqlite(folder, Durability::Full, false).await,
        Subject::SqliteRelaxed => sqlite(folder, Durability::Relaxed, false).await,
        Subject::SqliteAlone => sqlite(folder, Durability::Full, true).await,
        Subject::Memory => Arc::new(MemoryProvider::new()),
        Subject::DirectMemory => Arc::new(direct::waking()),
        Subject::Postgres => postgres(folder).await,
        Subject::RedbFull => redb(folder, RedbDurability::Full),
        Subject::RedbRelaxed => redb(folder, RedbDurability::Relaxed),
        Subject::MemoryStore
        | Subject::Published
        | Subject::PublishedDefault
        | Subject::PublishedPostgres => {
            panic!("{subject} is not an engine of ours")
        }
    }
}

/// `alone`: only the writer checkpoints.
async fn sqlite(folder: &Path, durability: Durability, alone: bool) -> Arc<dyn Provider> {
    let mut options = SqliteOptions {
        durability,
        ..SqliteOptions::default()
    };
    options.tuning.writer_checkpoints_alone = alone;
    let url = format!("sqlite:{}", folder.join(FILE).display());
    let store = SqliteProvider::new(&url, Some(options)).await;
    Arc::new(store.expect("open sqlite"))
}

/// The server that is measured.
pub(crate) fn server() -> String {
    std::env::var("DUROXIDE_TEST_POSTGRES_URL")
        .expect("DUROXIDE_TEST_POSTGRES_URL names no server; `cargo xtask postgres` starts one")
}

/// A schema of its own for each folder.
pub(crate) fn schema(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("bench_{name}")
}

async fn postgres(folder: &Path) -> Arc<dyn Provider> {
    let url = server();
    let store = PostgresProvider::new_with_schema(&url, Some(&schema(folder))).await;
    Arc::new(store.expect("open postgres"))
}

fn redb(folder: &Path, durability: RedbDurability) -> Arc<dyn Provider> {
    let options = RedbOptions {
        durability,
        ..RedbOptions::default()
    };
    let store = RedbProvider::open_with(folder.join("bench.redb"), options);
    Arc::new(store.expect("open redb"))
}
