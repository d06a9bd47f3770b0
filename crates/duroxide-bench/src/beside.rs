//! What goes on beside the work, and what it costs `hello`: a backup, retention, and being observed. In: a store,
//! filled where that matters. Out: two rows, without and with, measured in turns on the same store, so that a slow
//! minute of the disk hits both.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{CountBy, InstanceQuery, Provider};
use duroxide::{Client, Labels, Retention, RetentionPolicy, RetentionRule};

use crate::copies::Copies;
use crate::course::{self, FILE};
use crate::measure::{Latencies, Sample};
use crate::observed::Parts;
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
    /// Starts have labels, a subscriber formats every span and line, the node announces itself; or one of the three.
    Observed(Parts),
}

pub(crate) const NAMES: &[(&str, Beside)] = &[
    ("backup@64", Beside::Backup),
    ("retention@64", Beside::Retention),
    ("observed@64", Beside::Observed(Parts::ALL)),
    ("labels@64", Beside::Observed(Parts::LABELS)),
    ("spans@64", Beside::Observed(Parts::SPANS)),
    ("announced@64", Beside::Observed(Parts::ANNOUNCEMENTS)),
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
    if !matches!(what, Beside::Observed(_)) {
        course::seed(open::open(subject, folder).await).await;
        match subject {
            Subject::Postgres => fill_postgres::run(&open::schema(folder), prefill).await,
            _ => course::fill(&folder.join(FILE), prefill),
        }
    }
    // A store is fastest while it is empty, and only one of the two would be measured then.
    slice(subject, what, false, folder, time, SLICES.len()).await;
    let mut samples: [Option<Sample>; 2] = [None, None];
    for (number, goes_on) in SLICES.into_iter().enumerate() {
        let before = count(subject, folder).await;
        let (sample, longest) = slice(subject, what, goes_on, folder, time, number).await;
        let after = count(subject, folder).await;
        let with = if goes_on { "with" } else { "without" };
        let done = sample.latencies.count();
        let longest = longest.map_or(String::new(), |longest| {
            format!(", longest commit {} ms", longest.as_millis())
        });
        eprintln!(
            "  {with}: {done} orchestrations, {before} instances before, {after} after{longest}"
        );
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
) -> (Sample, Option<Duration>) {
    let store = open::store(subject, folder).await;
    let commits = Arc::clone(&store);
    let parts = match what {
        Beside::Observed(parts) => parts.in_slice(goes_on),
        // With what a program has by default.
        Beside::Backup | Beside::Retention => Parts::ANNOUNCEMENTS,
    };
    let mut options = parts.options();
    if goes_on && what == Beside::Retention {
        options.retention = Some(retention());
    }
    if what == Beside::Retention {
        // Nobody else asks for the longest commit, which is told once.
        options.observability.gauge_poll_interval = Duration::from_secs(86_400);
    }
    let client = Client::new(Arc::clone(&store));
    let engine = Engine::start(store, options).await;
    let copies = (goes_on && what == Beside::Backup).then(|| Copies::start(&folder.join(FILE)));
    let system = Arc::new(Labelled {
        engine,
        client,
        slice: number,
        labels: parts.labels(),
    });
    closed_loop(&system, "hello", 0, IN_FLIGHT, time / 5, "warm").await;
    longest_commit(&*commits).await;
    let sample = Sample::begin(1);
    let seen = until_copied(&system, time, copies.as_ref()).await;
    let sample = sample.finish(seen);
    let longest = longest_commit(&*commits).await;
    drop(copies);
    if let Ok(system) = Arc::try_unwrap(system) {
        system.stop().await;
    }
    (sample, longest)
}

/// The longest commit since this was asked last, where the store tells.
async fn longest_commit(store: &dyn Provider) -> Option<Duration> {
    let admin = store.as_management_capability()?;
    admin.readings().await.ok()?.commit_time_max
}

/// Runs `hello` for this time, and on until a whole copy was made, if copies are made.
async fn until_copied(
    system: &Arc<Labelled>,
    time: Duration,
    copies: Option<&Copies>,
) -> Latencies {
    let finished = || copies.map_or(usize::MAX, Copies::finished);
    let wanted = finished().saturating_add(1);
    let mut seen = closed_loop(system, "hello", 0, IN_FLIGHT, time, "run").await;
    let mut round = 0;
    while finished() < wanted {
        round += 1;
        let prefix = format!("on-{round}");
        let second = Duration::from_secs(1);
        let more = closed_loop(system, "hello", 0, IN_FLIGHT, second, &prefix).await;
        seen = seen.and(more);
    }
    seen
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
