//! Several nodes on one store, each a process of its own. In: a folder, which names the store. Out: the other nodes,
//! while the first one is measured; and what idle ones cost.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::NoTls;

use crate::measure::{Sample, cpu_seconds};
use crate::open;
use crate::system::{Subject, System};
use crate::workload::{QUIET, Workload, closed_loop, looped};

/// How many nodes there are beside the one that is measured.
const OTHERS: usize = 3;

/// Workloads that several nodes share. The processor time is that of the first node.
pub(crate) const NAMES: &[(&str, Workload)] = &[
    ("nodes@64", looped("hello", 0, 64, 1)),
    ("nodes-idle", Workload::Idle { parked: 0 }),
];

/// The other nodes; they end with this.
pub(crate) struct Others(Vec<Child>);

impl Others {
    pub(crate) fn start(subject: Subject, folder: &Path) -> Self {
        let program = std::env::current_exe().expect("a running program has a path");
        let one = |_| {
            Command::new(&program)
                .args(["serve", subject.label()])
                .arg(folder)
                .stdin(Stdio::piped())
                .spawn()
                .expect("start a node")
        };
        Self((0..OTHERS).map(one).collect())
    }
}

impl Others {
    /// Processor time of each so far, in seconds, to the nanosecond.
    fn cpu_seconds(&self) -> Vec<f64> {
        self.0.iter().map(|node| cpu_of(node.id())).collect()
    }
}

/// What the threads of a process have used.
fn cpu_of(process: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let times = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let told = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        told.split_whitespace().next()?.parse::<f64>().ok()
    });
    times.sum::<f64>() / 1e9
}

/// Processor time of all nodes, and transactions of the database.
struct Used {
    cpu_seconds: Vec<f64>,
    transactions: i64,
}

impl Used {
    async fn so_far(others: &Others, client: &tokio_postgres::Client) -> Self {
        let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        let row = client.query_one(sql, &[]).await.expect("count");
        let mut cpu = others.cpu_seconds();
        cpu.push(cpu_seconds());
        Self {
            cpu_seconds: cpu,
            transactions: row.get(0),
        }
    }
}

/// Watches all nodes while none has anything to do, tells what each costs, and then measures one `hello` after another.
/// The share of a core in the sample is that of the busiest node.
pub(crate) async fn idle(
    subject: Subject,
    folder: &Path,
    others: &Others,
    time: Duration,
) -> Sample {
    let (client, connection) = tokio_postgres::connect(&open::server(), NoTls)
        .await
        .expect("connect");
    tokio::spawn(connection);
    let engine = Arc::new(open::open(subject, folder).await);
    // Nodes start, find each other, and close what they do not need.
    tokio::time::sleep(QUIET).await;
    let window = time.max(QUIET);
    let before = Used::so_far(others, &client).await;
    tokio::time::sleep(window).await;
    let after = Used::so_far(others, &client).await;
    let times = after.cpu_seconds.iter().zip(&before.cpu_seconds);
    let percent: Vec<f64> = times
        .map(|(after, before)| (after - before) / window.as_secs_f64() * 100.0)
        .collect();
    // Of which one is the count itself.
    let transactions = (after.transactions - before.transactions - 1) as f64;
    let each = transactions / window.as_secs_f64() / percent.len() as f64;
    eprintln!("  {percent:.3?} % of a core each, {each:.2} transactions per second each");
    let sample = Sample::begin(1);
    let latencies = closed_loop(&engine, "hello", 0, 1, time, "meanwhile").await;
    let mut sample = sample.finish(latencies);
    sample.idle_percent = percent.into_iter().reduce(f64::max);
    if let Ok(engine) = Arc::try_unwrap(engine) {
        engine.stop().await;
    }
    sample
}

impl Drop for Others {
    fn drop(&mut self) {
        for node in &mut self.0 {
            drop(node.stdin.take());
            let _ = node.wait();
        }
    }
}

/// Runs a node until its input ends.
#[tokio::main]
pub(crate) async fn serve(subject: Subject, folder: &Path) {
    let engine = open::open(subject, folder).await;
    let waited = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    // Its end is all there is to it.
    let _ = waited.await;
    engine.stop().await;
}
