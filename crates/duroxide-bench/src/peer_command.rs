//! The command line of a program that measures the published crate. In: a subject and a workload. Out: one row as JSON.
//! Shared by the packages `peer` and `peer-pg`, which differ in the store that they open.

use std::path::Path;
use std::time::Duration;

use clap::{Parser, Subcommand};
use published::RuntimeOptions;

use crate::course;
use crate::report::Row;
use crate::system::Subject;
use crate::theirs::Engine;
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

/// Runs the command; `open` opens the store in a folder for so many instances in flight.
pub(crate) async fn run(open: impl AsyncFn(Subject, &Path, usize) -> Engine) {
    let folder = tempfile::Builder::new()
        .prefix("duroxide-bench")
        .tempdir_in(std::env::var("BENCH_DIR").unwrap_or_else(|_| ".".into()))
        .expect("a folder for the store");
    let folder = folder.path();
    match Args::parse().command {
        What::One {
            subject,
            workload,
            seconds,
            prefill,
        } => {
            let Some((_, course)) = WORKLOADS.iter().find(|(known, _)| *known == workload) else {
                eprintln!("{workload} does not apply to the published crate");
                std::process::exit(1);
            };
            let open = || open(subject, folder, course.in_flight());
            let time = Duration::from_secs(seconds);
            let sample = course::run(open, subject, *course, folder, time, prefill).await;
            let row = Row::of(subject, &workload, &sample, folder);
            println!("{}", serde_json::to_string(&row).expect("a row is plain data"));
        }
        What::First { subject } => {
            course::First::tell(open(subject, folder, 1).await).await;
        }
    }
}

/// The best settings found: short polls help one at a time, more dispatchers help many at once.
pub(crate) fn best_settings(options: &mut RuntimeOptions, in_flight: usize) {
    if in_flight == 1 {
        options.dispatcher_min_poll_interval = Duration::from_millis(1);
    } else {
        options.orchestration_concurrency = 8;
        options.worker_concurrency = 8;
    }
}
