//! One measurement of the published crate, printed as JSON. Shares every file but this one with `duroxide-bench`.

#[path = "../../src/course.rs"]
mod course;
#[path = "../../src/engine.rs"]
mod engine;
#[path = "../../src/measure.rs"]
mod measure;
#[path = "../../src/peer_command.rs"]
mod peer_command;
#[path = "../../src/report.rs"]
#[allow(dead_code, reason = "tables and charts are made by the other half")]
mod report;
#[path = "../../src/system.rs"]
mod system;
#[path = "../../src/workload.rs"]
mod workload;

engine::engine!(theirs, published);

use std::path::Path;
use std::sync::Arc;

use published::RuntimeOptions;
use published::providers::sqlite::SqliteProvider;

use crate::system::Subject;

#[tokio::main]
async fn main() {
    peer_command::run(open).await;
}

/// The published crate on its SQLite store: with the best settings, or with its defaults.
async fn open(subject: Subject, folder: &Path, in_flight: usize) -> theirs::Engine {
    let url = format!("sqlite:{}?mode=rwc", folder.join(course::FILE).display());
    let store = SqliteProvider::new(&url, None).await.expect("open the published store");
    let mut options = RuntimeOptions::default();
    options.observability.log_level = "error".into();
    if subject == Subject::Published {
        peer_command::best_settings(&mut options, in_flight);
    }
    theirs::Engine::start(Arc::new(store), options).await
}
