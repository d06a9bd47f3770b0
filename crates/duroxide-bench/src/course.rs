//! From an empty folder to a sample: filling the store before, or starting it again and again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::measure::{Latencies, Sample, cpu_seconds, peak_mb};
use crate::system::{Subject, System};
use crate::workload::{Workload, drive};

/// Name of the file of a SQLite store.
pub(crate) const FILE: &str = "bench.db";
/// The program that copies rows; ours also does it for the published crate.
pub(crate) const FILLER: &str = "BENCH_FILLER";
/// The instance that is copied.
pub(crate) const SEED: &str = "seed-0000000";
/// How often a process is started.
const STARTS: usize = 20;

/// Runs a workload on what `open` opens.
pub(crate) async fn run<S: System, F: Future<Output = S>>(
    open: impl Fn() -> F,
    subject: Subject,
    workload: Workload,
    folder: &Path,
    time: Duration,
    finished: u32,
) -> Sample {
    match workload {
        Workload::Startup => startup(subject),
        Workload::History { .. } => {
            seed(open().await).await;
            fill(&folder.join(FILE), finished);
            drive(open().await, workload, time).await
        }
        _ => drive(open().await, workload, time).await,
    }
}

/// Runs the instance that is copied.
pub(crate) async fn seed<S: System>(system: S) {
    system.begin(SEED.into(), "hello", "0".into()).await;
    system.result(SEED).await;
    system.stop().await;
}

/// Copies the seed in a process of its own, so that its memory and processor time are not ours.
pub(crate) fn fill(file: &Path, count: u32) {
    assert!(file.exists(), "only SQLite stores can be filled by copying");
    let filler = std::env::var_os(FILLER).expect("`run` names the filler");
    let status = Command::new(filler)
        .arg("fill")
        .arg(file)
        .arg(count.to_string())
        .status()
        .expect("start the filler");
    assert!(status.success(), "filling ended with {status}");
}

/// What a process tells of itself at its first result.
#[derive(Serialize, Deserialize)]
pub(crate) struct First {
    cpu_seconds: f64,
    peak_mb: f64,
}

impl First {
    /// Runs one `hello` and tells at once.
    pub(crate) async fn tell<S: System>(system: S) {
        system.begin("first".into(), "hello", "0".into()).await;
        system.result("first").await;
        let first = Self {
            cpu_seconds: cpu_seconds(),
            peak_mb: peak_mb(),
        };
        let line = serde_json::to_string(&first).expect("plain data");
        println!("{line}");
        system.stop().await;
    }
}

/// From starting the process to its first result.
fn startup(subject: Subject) -> Sample {
    let mut sample = Sample::begin(1);
    let (mut seen, mut cpu_seconds, mut peak_mb) = (Vec::new(), 0.0, 0.0_f64);
    for _ in 0..STARTS {
        let (seconds, first) = start_once(subject);
        seen.push(seconds);
        cpu_seconds += first.cpu_seconds;
        peak_mb = peak_mb.max(first.peak_mb);
    }
    sample = sample.finish(Latencies::of(seen));
    sample.seconds = sample.latencies.total_seconds();
    sample.cpu_seconds = cpu_seconds;
    sample.peak_mb = peak_mb;
    sample
}

fn start_once(subject: Subject) -> (f64, First) {
    let program = std::env::current_exe().expect("a running program has a path");
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(["first", subject.label()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("start a process");
    let output = child.stdout.take().expect("its output is piped");
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    // The published crate logs to the same place; what it says in between is not for us.
    let first = lines.find_map(|line| serde_json::from_str(&line).ok());
    let seconds = began.elapsed().as_secs_f64();
    lines.for_each(drop);
    child.wait().expect("it ends");
    (seconds, first.expect("a process tells of its first result"))
}
