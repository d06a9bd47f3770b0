//! Opening ours on a store.

use std::path::Path;
use std::sync::Arc;

use duroxide::RuntimeOptions;
use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::{Durability, SqliteOptions, SqliteProvider};

use crate::ours::Engine;
use crate::system::Subject;

/// A running engine on an empty store in a folder, with default options.
pub(crate) async fn open(subject: Subject, folder: &Path) -> Engine {
    let store: Arc<dyn Provider> = match subject {
        Subject::SqliteFull => sqlite(folder, Durability::Full).await,
        Subject::SqliteRelaxed => sqlite(folder, Durability::Relaxed).await,
        Subject::Memory => Arc::new(MemoryProvider::new()),
        other => panic!("{other} is not one of ours"),
    };
    Engine::start(store, RuntimeOptions::default()).await
}

async fn sqlite(folder: &Path, durability: Durability) -> Arc<dyn Provider> {
    let options = SqliteOptions {
        durability,
        ..SqliteOptions::default()
    };
    let url = format!("sqlite:{}", folder.join("bench.db").display());
    let store = SqliteProvider::new(&url, Some(options)).await;
    Arc::new(store.expect("open sqlite"))
}
