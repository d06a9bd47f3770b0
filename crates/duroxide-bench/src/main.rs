//! `duroxide-bench`: one list of workloads, run against every store and against the published crate in the same run.
//! Each measurement has a process of its own; the published crate lives in a package of its own, `peer`, because it
//! links another SQLite, and is built the first time it is asked for.

mod beside;
mod copies;
mod course;
mod direct;
mod engine;
mod fill;
mod fill_postgres;
mod floor;
mod hygiene;
mod measure;
mod nodes;
mod observed;
mod open;
mod operate;
mod peer;
mod postgres_floor;
mod report;
mod system;
mod timed;
mod turns;
mod workload;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use tempfile::TempDir;

engine::engine!(ours, duroxide);

use crate::report::Row;
use crate::system::Subject;
use crate::workload::{WORKLOADS, Workload};

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
        #[arg(long, value_delimiter = ',', value_parser = known_workload)]
        workloads: Vec<String>,
        /// What to measure.
        #[arg(long, value_delimiter = ',', default_values_t = default_subjects(), value_enum)]
        subjects: Vec<Subject>,
        /// Seconds for each workload that runs for a time.
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Finished instances that `history`, `filled`, `operate`, `backup` and `retention` run among; messages of
        /// `sizes`.
        #[arg(long, default_value_t = 1_000_000)]
        prefill: u32,
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
        #[arg(value_parser = known_workload)]
        workload: String,
        seconds: u64,
        prefill: u32,
    },
    /// Copies the seed instance in a SQLite file. Used by `history`.
    Fill { file: PathBuf, count: u32 },
    /// Copies a SQLite file again and again, until its input ends. Used by `backup`.
    Copy { file: PathBuf },
    /// Another node on the same store, until its input ends. Used by `nodes`.
    Serve { subject: Subject, folder: PathBuf },
    /// An empty folder to the first result. Used by `startup`.
    First { subject: Subject },
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
        What::List => names().for_each(|name| println!("{name}")),
        What::Run {
            workloads,
            subjects,
            seconds,
            prefill,
            json,
            svg,
        } => {
            let rows = run_all(&workloads, &subjects, seconds, prefill);
            print!("{}", report::table(&rows));
            write_reports(&rows, json, svg);
        }
        What::One {
            subject,
            workload,
            seconds,
            prefill,
        } => {
            for row in one(subject, &workload, Duration::from_secs(seconds), prefill) {
                let text = serde_json::to_string(&row).expect("a row is plain data");
                println!("{text}");
            }
        }
        What::Fill { file, count } => fill::run(&file, count),
        What::Copy { file } => copies::copy(&file),
        What::Serve { subject, folder } => nodes::serve(subject, &folder),
        What::First { subject } => first(subject),
    }
}

/// Every workload, those without an engine last.
fn names() -> impl Iterator<Item = &'static str> {
    let engines = WORKLOADS.iter().map(|(name, _)| *name);
    let providers = turns::NAMES.iter().map(|(name, _)| *name);
    let nodes = nodes::NAMES.iter().map(|(name, _)| *name);
    let beside = beside::NAMES.iter().map(|(name, _)| *name);
    let hygiene = hygiene::NAMES.iter().map(|(name, _)| *name);
    let operators = beside.chain([operate::NAME]).chain(hygiene);
    let all = engines.chain(nodes).chain(operators).chain(providers);
    all.chain([floor::NAME])
}

fn known_workload(name: &str) -> Result<String, String> {
    if names().any(|known| known == name) {
        Ok(name.to_owned())
    } else {
        Err("there is no such workload; `list` names them all".to_owned())
    }
}

fn run_all(wanted: &[String], subjects: &[Subject], seconds: u64, prefill: u32) -> Vec<Row> {
    let is_wanted = |name: &&str| wanted.is_empty() || wanted.iter().any(|n| n == name);
    let mut rows = Vec::new();
    for name in names().filter(is_wanted) {
        for subject in subjects.iter().filter(|subject| subject.knows(name)) {
            eprintln!("measuring {name} on {subject} …");
            match measure(*subject, name, seconds, prefill) {
                found if found.is_empty() => eprintln!("  {name} on {subject} failed"),
                found => rows.extend(found),
            }
        }
    }
    rows
}

fn write_reports(rows: &[Row], json: Option<PathBuf>, svg: Option<PathBuf>) {
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(rows).expect("rows are plain data");
        std::fs::write(&path, text).expect("write the JSON report");
    }
    if let Some(path) = svg {
        std::fs::write(&path, report::svg(rows)).expect("write the chart");
    }
}

/// How long a measurement may take, its preparation included, beside many times the time that was asked for.
const LIMIT: Duration = Duration::from_secs(900);
/// And for each instance or message that a workload is asked for.
const PREFILL_EACH: Duration = Duration::from_millis(2);

/// Runs one measurement in a process of its own, so that memory and processor time are its own too.
fn measure(subject: Subject, workload: &str, seconds: u64, prefill: u32) -> Vec<Row> {
    let this = std::env::current_exe().expect("a running program has a path");
    let program = match subject {
        Subject::Published | Subject::PublishedDefault => peer::program(),
        Subject::PublishedPostgres => peer::postgres_program(),
        _ => this.clone(),
    };
    let mut child = Command::new(program)
        .args(["one", subject.label(), workload])
        .args([seconds.to_string(), prefill.to_string()])
        .env(course::FILLER, this)
        .stdout(Stdio::piped())
        .spawn()
        .expect("start a measurement");
    let limit = LIMIT + Duration::from_secs(20 * seconds) + PREFILL_EACH * prefill;
    let ended = ended_within(&mut child, limit);
    if !ended {
        // A peer whose instance was lost waits for it for ever.
        child.kill().expect("end a measurement");
    }
    let output = child.wait_with_output().expect("a measurement that ended");
    let text = String::from_utf8_lossy(&output.stdout);
    // The published crate logs to the same place.
    let rows = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    rows.collect()
}

fn ended_within(child: &mut Child, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if child.try_wait().expect("a child of ours").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// An empty folder on the disk that is measured.
fn folder() -> TempDir {
    let place = std::env::var("BENCH_DIR").unwrap_or_else(|_| ".".into());
    std::fs::create_dir_all(&place)
        .and_then(|()| {
            tempfile::Builder::new()
                .prefix("duroxide-bench")
                .tempdir_in(&place)
        })
        .unwrap_or_else(|error| panic!("no folder for the store in {place}: {error}"))
}

/// A folder whose store stays.
fn kept_folder(path: PathBuf) -> PathBuf {
    std::fs::create_dir_all(&path)
        .unwrap_or_else(|error| panic!("no folder for the store at {}: {error}", path.display()));
    path
}

#[tokio::main]
async fn one(subject: Subject, name: &str, time: Duration, prefill: u32) -> Vec<Row> {
    let folder = folder();
    let path = folder.path();
    if name == floor::NAME && subject == Subject::Postgres {
        return vec![postgres_floor::run(path, time).await];
    }
    if name == floor::NAME {
        return vec![floor::run(subject, path, time)];
    }
    if name == operate::NAME {
        // A store of a million takes minutes to fill: a folder that is named keeps it for the next run.
        return match std::env::var_os("BENCH_KEEP") {
            Some(kept) => operate::run(subject, &kept_folder(kept.into()), prefill).await,
            None => operate::run(subject, path, prefill).await,
        };
    }
    if let Some((_, what)) = beside::NAMES.iter().find(|(known, _)| *known == name) {
        return beside::run(subject, name, *what, path, time, prefill).await;
    }
    if let Some((_, what)) = hygiene::NAMES.iter().find(|(known, _)| *known == name) {
        return hygiene::run(name, *what, path, time, prefill).await;
    }
    if let Some((_, workload)) = nodes::NAMES.iter().find(|(known, _)| *known == name) {
        let others = nodes::Others::start(subject, path);
        let sample = match workload {
            Workload::Idle { .. } => nodes::idle(subject, path, &others, time).await,
            _ => {
                let open = || open::open(subject, path);
                course::run(open, subject, *workload, path, time, prefill).await
            }
        };
        drop(others);
        return vec![Row::of(subject, name, &sample, path)];
    }
    if let Some((_, callers)) = turns::NAMES.iter().find(|(known, _)| *known == name) {
        return vec![turns::run(subject, name, *callers, path, time).await];
    }
    let workload = WORKLOADS
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("no workload {name}; see `list`"))
        .1;
    let open = || open::open(subject, path);
    let sample = course::run(open, subject, workload, path, time, prefill).await;
    vec![Row::of(subject, name, &sample, path)]
}

#[tokio::main]
async fn first(subject: Subject) {
    let folder = folder();
    course::First::tell(open::open(subject, folder.path()).await).await;
}
