//! `duroxide-bench`: one list of workloads, run against every store and against the published crate in the same run.
//! Each measurement has a process of its own; the published crate lives in a package of its own, `peer`, because it
//! links another SQLite, and is built the first time it is asked for.

mod engine;
mod floor;
mod measure;
mod open;
mod peer;
mod report;
mod system;
mod workload;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Parser, Subcommand};

engine::engine!(ours, duroxide);

use crate::report::Row;
use crate::system::Subject;
use crate::workload::WORKLOADS;

#[derive(Parser)]
#[command(about = "Measures Duroxide, and the published crate beside it")]
struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Names of all workloads.
    List,
    /// Runs workloads against subjects and prints a table with ratios to the published crate.
    Run {
        /// Workloads by name, or all.
        #[arg(long, value_delimiter = ',')]
        workloads: Vec<String>,
        /// What to measure.
        #[arg(long, value_delimiter = ',', default_values_t = default_subjects(), value_enum)]
        subjects: Vec<Subject>,
        /// Seconds for each workload that runs for a time.
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Writes all rows as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
        /// Writes a chart.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// One measurement, printed as JSON. Used by `run`.
    One {
        subject: Subject,
        workload: String,
        seconds: u64,
    },
}

fn default_subjects() -> Vec<Subject> {
    vec![
        Subject::SqliteFull,
        Subject::SqliteRelaxed,
        Subject::Published,
    ]
}

fn main() {
    match Args::parse().command {
        What::List => {
            for (name, _) in WORKLOADS {
                println!("{name}");
            }
            println!("{}", floor::NAME);
        }
        What::Run {
            workloads,
            subjects,
            seconds,
            json,
            svg,
        } => run_all(&workloads, &subjects, seconds, json, svg),
        What::One {
            subject,
            workload,
            seconds,
        } => {
            let row = one(subject, &workload, Duration::from_secs(seconds));
            println!(
                "{}",
                serde_json::to_string(&row).expect("a row is plain data")
            );
        }
    }
}

fn run_all(
    names: &[String],
    subjects: &[Subject],
    seconds: u64,
    json: Option<PathBuf>,
    svg: Option<PathBuf>,
) {
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let all = WORKLOADS.iter().map(|(name, _)| *name).chain([floor::NAME]);
    let mut rows = Vec::new();
    for name in all.filter(|name| wanted(name)) {
        for subject in subjects {
            eprintln!("measuring {name} on {subject} …");
            match measure(*subject, name, seconds) {
                Some(row) => rows.push(row),
                None => eprintln!("  {name} on {subject} failed or does not apply"),
            }
        }
    }
    print!("{}", report::table(&rows));
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&rows).expect("rows are plain data");
        std::fs::write(&path, text).expect("write the JSON report");
    }
    if let Some(path) = svg {
        std::fs::write(&path, report::svg(&rows)).expect("write the chart");
    }
}

/// Runs one measurement in a process of its own, so that memory and processor time are its own too.
fn measure(subject: Subject, workload: &str, seconds: u64) -> Option<Row> {
    let program = match subject {
        Subject::Published | Subject::PublishedDefault => peer::program(),
        _ => std::env::current_exe().expect("a running program has a path"),
    };
    let output = Command::new(program)
        .args(["one", subject.label(), workload, &seconds.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .expect("start a measurement");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last()?).ok()
}

#[tokio::main]
async fn one(subject: Subject, name: &str, time: Duration) -> Row {
    let folder = tempfile::Builder::new()
        .prefix("duroxide-bench")
        .tempdir_in(std::env::var("BENCH_DIR").unwrap_or_else(|_| ".".into()))
        .expect("a folder for the store");
    if name == floor::NAME {
        return floor::run(subject, folder.path(), time);
    }
    let workload = WORKLOADS
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("no workload {name}; see `list`"))
        .1;
    let engine = open::open(subject, folder.path()).await;
    let sample = workload::drive(engine, workload, time).await;
    Row::of(subject, name, &sample, folder.path())
}
