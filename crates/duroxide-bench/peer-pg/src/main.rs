//! One measurement of the published crate on its PostgreSQL store, printed as JSON. Shares every file but this one with
//! `duroxide-bench`.

#[path = "../../src/course.rs"]
mod course;
#[path = "../../src/engine.rs"]
mod engine;
#[path = "../../src/measure.rs"]
mod measure;
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
use std::time::Duration;

use clap::{Parser, Subcommand};
use published::RuntimeOptions;
use published_pg::PostgresProvider;

use crate::report::Row;
use crate::system::Subject;
use crate::workload::WORKLOADS;

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    One {
        subject: Subject,
        workload: String,
        seconds: u64,
        prefill: u32,
    },
    First {
        subject: Subject,
    },
}

#[tokio::main]
async fn main() {
    let folder = tempfile::Builder::new()
        .prefix("duroxide-bench")
        .tempdir_in(std::env::var("BENCH_DIR").unwrap_or_else(|_| ".".into()))
        .expect("a folder for the store");
    match Args::parse().command {
        What::One {
            subject,
            workload,
            seconds,
            prefill,
        } => {
            let time = Duration::from_secs(seconds);
            one(subject, &workload, time, prefill, folder.path()).await;
        }
        What::First { subject: _ } => {
            course::First::tell(open(folder.path(), 1).await).await;
        }
    }
}

async fn one(subject: Subject, name: &str, time: Duration, prefill: u32, folder: &Path) {
    let Some((_, workload)) = WORKLOADS.iter().find(|(known, _)| *known == name) else {
        eprintln!("{name} does not apply to the published crate");
        std::process::exit(1);
    };
    let open = || open(folder, workload.in_flight());
    let sample = course::run(open, subject, *workload, folder, time, prefill).await;
    let row = Row::of(subject, name, &sample, folder);
    println!("{}", serde_json::to_string(&row).expect("a row is plain data"));
}

/// The published crate on its PostgreSQL store, in a schema of its own: the best of the settings tried. Short polls help one
/// at a time, more dispatchers help many at once.
async fn open(folder: &Path, in_flight: usize) -> theirs::Engine {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let schema = format!("peer_{}", name.to_lowercase());
    let store = PostgresProvider::new_with_schema(&url(), Some(&schema)).await;
    let mut options = RuntimeOptions::default();
    options.observability.log_level = "error".into();
    if in_flight == 1 {
        options.dispatcher_min_poll_interval = Duration::from_millis(1);
    } else {
        options.orchestration_concurrency = 8;
        options.worker_concurrency = 8;
    }
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
