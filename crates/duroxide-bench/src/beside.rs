//! What goes on beside the work, and what it costs `hello`: a backup, retention, and being observed. In: a store,
//! filled where that matters. Out: two rows, without and with, measured in turns on the same store, so that a slow
//! minute of the disk hits both.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duroxide::providers::{CountBy, InstanceQuery};
use duroxide::{Client, Labels, Retention, RetentionPolicy, RetentionRule, RuntimeOptions};
use tracing::instrument::WithSubscriber;

use crate::course::{self, FILE};
use crate::measure::Sample;
use crate::ours::Engine;
use crate::report::Row;
use crate::system::{Subject, System};
use crate::workload::closed_loop;
use crate::{fill_postgres, open};

/// What goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Another process copies the file, again and again.
    Backup,
    /// The node deletes what ended two seconds ago: first the instances that the store was filled with, then those of
    /// the run.
    Retention,
    /// Starts have labels, a subscriber formats every span and line, and the node announces itself.
    Observed,
}

pub(crate) const NAMES: &[(&str, Beside)] = &[
    ("backup@64", Beside::Backup),
    ("retention@64", Beside::Retention),
    ("observed@64", Beside::Observed),
];

const IN_FLIGHT: usize = 64;
/// Whether it goes on, slice by slice: what drifts in one direction hits both alike.
const SLICES: [bool; 8] = [false, true, true, false, false, true, true, false];

/// Runs `hello` for so long in each slice.
pub(crate) async fn run(
    subject: Subject,
    name: &str,
    what: Beside,
    folder: &Path,
    time: Duration,
    prefill: u32,
) -> Vec<Row> {
    if what != Beside::Observed {
        course::seed(open::open(subject, folder).await).await;
        match subject {
            Subject::Postgres => fill_postgres::run(&open::schema(folder), prefill).await,
            _ => course::fill(&folder.join(FILE), prefill),
        }
    }
    let mut samples: [Option<Sample>; 2] = [None, None];
    for (number, goes_on) in SLICES.into_iter().enumerate() {
        let before = count(subject, folder).await;
        let sample = slice(subject, what, goes_on, folder, time, number).await;
        let after = count(subject, folder).await;
        let with = if goes_on { "with" } else { "without" };
        let done = sample.latencies.count();
        eprintln!("  {with}: {done} orchestrations, {before} instances before, {after} after");
        let so_far = &mut samples[usize::from(goes_on)];
        *so_far = Some(match so_far.take() {
            Some(so_far) => so_far.and(sample),
            None => sample,
        });
    }
    let names = [format!("{name} without"), format!("{name} with")];
    let rows = samples.into_iter().flatten().zip(names);
    rows.map(|(sample, name)| Row::of(subject, &name, &sample, folder))
        .collect()
}

async fn count(subject: Subject, folder: &Path) -> u64 {
    let client = Client::new(open::store(subject, folder).await);
    let query = InstanceQuery::new();
    let all = client.count_instances(&query, CountBy::Nothing);
    all.await
        .map_or(0, |counts| counts.iter().map(|it| it.count).sum())
}

async fn slice(
    subject: Subject,
    what: Beside,
    goes_on: bool,
    folder: &Path,
    time: Duration,
    number: usize,
) -> Sample {
    let store = open::store(subject, folder).await;
    let mut options = RuntimeOptions::default();
    match what {
        Beside::Retention if goes_on => options.retention = Some(retention()),
        Beside::Observed if !goes_on => options.node_announce_interval = None,
        Beside::Backup | Beside::Retention | Beside::Observed => {}
    }
    let client = Client::new(Arc::clone(&store));
    let engine = Engine::start(store, options);
    let is_observed = goes_on && what == Beside::Observed;
    let engine = if is_observed {
        engine.with_subscriber(subscriber()).await
    } else {
        engine.await
    };
    let copies = (goes_on && what == Beside::Backup).then(|| Copies::start(&folder.join(FILE)));
    let system = Arc::new(Labelled {
        engine,
        client,
        slice: number,
        labels: if is_observed { labels() } else { Labels::new() },
    });
    closed_loop(&system, "hello", 0, IN_FLIGHT, time / 5, "warm").await;
    let sample = Sample::begin(1);
    let seen = closed_loop(&system, "hello", 0, IN_FLIGHT, time, "run").await;
    let sample = sample.finish(seen);
    drop(copies);
    if let Ok(system) = Arc::try_unwrap(system) {
        system.stop().await;
    }
    sample
}

fn retention() -> Retention {
    let rule = RetentionRule {
        ended_for: Some(Duration::from_secs(2)),
        ..RetentionRule::default()
    };
    Retention {
        policy: RetentionPolicy::new().rule(rule),
        interval: Duration::from_secs(1),
    }
}

/// What a program logs with: every span and line is formatted, and goes nowhere.
fn subscriber() -> impl Into<tracing::Dispatch> {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_writer(std::io::sink)
        .finish()
}

fn labels() -> Labels {
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    [("customer", "acme"), ("region", "north")].map(pair).into()
}

/// An engine whose instances have ids of their own in each slice, and labels.
struct Labelled {
    engine: Engine,
    client: Client,
    slice: usize,
    labels: Labels,
}

impl Labelled {
    fn id(&self, id: &str) -> String {
        format!("{id}-{}", self.slice)
    }
}

impl System for Labelled {
    async fn begin(&self, id: String, name: &'static str, input: String) {
        let id = self.id(&id);
        if self.labels.is_empty() {
            return self.engine.begin(id, name, input).await;
        }
        let labels = self.labels.clone();
        let started = self
            .client
            .start_orchestration_labelled(id, name, None, input, labels);
        started.await.expect("start");
    }

    async fn result(&self, id: &str) -> String {
        self.engine.result(&self.id(id)).await
    }

    async fn raise(&self, id: &str) {
        self.engine.raise(&self.id(id)).await;
    }

    async fn is_running(&self, id: &str) -> bool {
        self.engine.is_running(&self.id(id)).await
    }

    async fn depth(&self) -> usize {
        self.engine.depth().await
    }

    async fn stop(self) {
        self.engine.stop().await;
    }
}

/// A process that copies the file; it ends with this.
struct Copies(Child);

impl Copies {
    fn start(file: &Path) -> Self {
        let program = std::env::current_exe().expect("a running program has a path");
        let copying = Command::new(program)
            .arg("copy")
            .arg(file)
            .stdin(Stdio::piped())
            .spawn();
        Self(copying.expect("start the copies"))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let ended = self.0.wait().expect("a child of ours");
        assert!(ended.success(), "copying ended with {ended}");
    }
}

/// Copies a file again and again, until the input ends.
pub(crate) fn copy(file: &Path) {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    std::thread::spawn(move || {
        // Its end is all there is to it.
        let _ = std::io::stdin().read(&mut [0]);
        over.store(true, Ordering::Relaxed);
    });
    let to = file.with_extension("copy");
    let (mut whole, mut bytes) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let copied = duroxide::providers::sqlite::backup(file, &to, |_, _| {
            if is_over.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match copied {
            Ok(written) => {
                std::fs::remove_file(&to).expect("remove a copy");
                whole += 1;
                bytes += written;
            }
            Err(error) if is_over.load(Ordering::Relaxed) => drop(error),
            Err(error) => panic!("a copy failed: {error}"),
        }
    }
    eprintln!("  {whole} copies were finished, {} MB", bytes / 1_000_000);
}
