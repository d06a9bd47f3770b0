//! One measurement of the published crate on its PostgreSQL store, printed as JSON. Shares every file but this one with
//! `duroxide-bench`.

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
use published_pg::PostgresProvider;

use crate::system::Subject;

#[tokio::main]
async fn main() {
    peer_command::run(open).await;
}

/// The published crate on its PostgreSQL store, in a schema of its own, with the best settings.
async fn open(_subject: Subject, folder: &Path, in_flight: usize) -> theirs::Engine {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let schema = format!("peer_{}", name.to_lowercase());
    let store = PostgresProvider::new_with_schema(&url(), Some(&schema)).await;
    let mut options = RuntimeOptions::default();
    options.observability.log_level = "error".into();
    peer_command::best_settings(&mut options, in_flight);
    theirs::Engine::start(Arc::new(store.expect("open the published store")), options).await
}

/// The server as a url; the published crate does not read `key=value`.
fn url() -> String {
    let given = std::env::var("DUROXIDE_TEST_POSTGRES_URL")
        .expect("DUROXIDE_TEST_POSTGRES_URL names no server; `cargo xtask postgres` starts one");
    if given.contains("://") {
        return given;
    }
    let value = |key: &str| {
        let pairs = given.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| value).last().unwrap_or_default()
    };
    let (user, port) = (value("user"), value("port"));
    format!("postgres://{user}@localhost:{port}/{}?host={}", value("dbname"), value("host"))
}
