//! The process that is killed: runs orchestrations, starts them ([`feed`]), and brings those to their end whose starter
//! is dead ([`heir`]).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duroxide::providers::TagFilter;
use duroxide::{Client, Runtime, RuntimeOptions};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::disturbances::Notes;
use crate::feed::{self, Pace, RETRY_PAUSE, Starter};
use crate::ledger::{Ledger, now_ms};
use crate::skills::{Skills, TAG};
use crate::store::Place;
use crate::workload::{Effects, activities, orchestrations};
use crate::{clock, deadly, heir, life};

/// How often a call is tried again while the store is away.
const RETRIES: u32 = 600;
/// How often the worker looks whether it can still write.
const PULSE: Duration = Duration::from_millis(20);
/// A small orchestration that takes longer than this part of a lease is a stall. A lease is lost if the commit of its
/// claim and the commits before its first renewal, half a lease later, take half a lease together: neither alone need
/// take as long.
const STALLS_PER_LEASE: u32 = 5;

/// What a run of the worker process is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WorkerRun {
    /// Starts more and more, until it is killed.
    Feed,
    /// The same, and deletes what has ended.
    Soak { pace: Pace },
    /// Ends when everything has ended.
    Finish,
}

impl WorkerRun {
    pub(crate) fn of(finish: bool, soak: bool, pace: Pace) -> Self {
        match (finish, soak) {
            (true, _) => Self::Finish,
            (false, true) => Self::Soak { pace },
            (false, false) => Self::Feed,
        }
    }
}

/// Runs until it is killed, or until everything has ended.
#[tokio::main]
pub(crate) async fn run(folder: &Path, place: &Place, run: WorkerRun, skills: &Skills) {
    let began = Instant::now();
    life::announce(folder);
    log_leases(folder);
    let clock = clock::of(folder);
    let store = place.open(clock.clone()).await;
    let effects = Effects::new(folder, skills);
    let mut builder = Runtime::builder()
        .with_provider(Arc::clone(&store))
        .with_activities(activities(&Arc::new(effects)))
        .with_orchestrations(orchestrations(skills))
        .with_options(options(place, skills));
    if let Some(clock) = clock {
        builder = builder.with_clock(clock);
    }
    let runtime = builder.build().await.expect("the options are valid");
    let client = Client::new(store);
    let beats = Arc::new(AtomicBool::new(true));
    let notes = Notes::in_folder(folder);
    let limit = PULSE + place.lease() / STALLS_PER_LEASE;
    // First of all: what its predecessor left is claimed from now on.
    let pulse = tokio::spawn(pulse(client.clone(), notes, limit, Arc::clone(&beats)));
    note_recovery(folder, &client, began).await;
    let starter = Starter::new(client, folder, matches!(run, WorkerRun::Soak { .. }));
    match run {
        WorkerRun::Feed => start_orchestrations(folder, starter, Pace::AsFastAsTheyEnd).await,
        WorkerRun::Soak { pace } => start_orchestrations(folder, starter, pace).await,
        WorkerRun::Finish => {
            heir::finish(folder, &starter).await;
            if skills.poison.is_some() {
                deadly::is_over(&starter.client).await;
            }
            beats.store(false, Ordering::Relaxed);
            pulse.await.expect("the pulse");
            runtime.shutdown(Some(5_000)).await;
        }
    }
}

/// Writes down why leases were lost, for whoever asks why something ran twice. Not synced: a log, not a ledger.
fn log_leases(folder: &Path) {
    let logs = folder.join("logs");
    std::fs::create_dir_all(&logs).expect("a folder for logs");
    let log = std::fs::File::create(logs.join(life::number().to_string())).expect("a log");
    let filter = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("duroxide::runtime::worker", LevelFilter::DEBUG);
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(log)
        .with_filter(filter);
    tracing_subscriber::registry().with(lines).init();
}

async fn start_orchestrations(folder: &Path, starter: Starter, pace: Pace) {
    let heir = tokio::spawn(heir::serve(folder.to_owned(), starter.clone()));
    feed::run(starter, pace).await;
    heir.abort();
}

fn options(place: &Place, skills: &Skills) -> RuntimeOptions {
    RuntimeOptions {
        orchestrator_lock_timeout: place.lease(),
        worker_lock_timeout: place.lease(),
        session_lock_timeout: place.lease(),
        session_lock_renewal_buffer: place.lease() / 2,
        // Where lives are short, what is innocent is tried often.
        max_attempts: skills.poison.unwrap_or(1_000),
        worker_tag_filter: if skills.serves_tag {
            TagFilter::default_and([TAG])
        } else {
            TagFilter::DefaultOnly
        },
        ..RuntimeOptions::default()
    }
}

/// Measures how soon after its start a life commits something.
async fn note_recovery(folder: &Path, client: &Client, began: Instant) {
    let probe = format!("probe-{}", life::number());
    // A server that is away is no reason to end.
    for _ in 0..RETRIES {
        let started = client
            .start_orchestration(probe.as_str(), "probe", "")
            .await;
        let patience = Duration::from_secs(60);
        if started.is_ok()
            && client
                .wait_for_orchestration(&probe, patience)
                .await
                .is_ok()
        {
            break;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    let recoveries = Ledger::open(&folder.join("recoveries"));
    recoveries.write(&format!("{} {}", began.elapsed().as_millis(), now_ms()));
}

/// Runs one small orchestration after another and notes when one takes so long that leases may have been lost
/// meanwhile: the machine stood still, the disk or the server was away, another process held the file.
async fn pulse(client: Client, notes: Notes, limit: Duration, beats: Arc<AtomicBool>) {
    let mut numbers = 0_u64..;
    // No moment lies between two beats.
    let (mut from_ms, mut began) = (now_ms(), Instant::now());
    while let (true, Some(number)) = (beats.load(Ordering::Relaxed), numbers.next()) {
        let pulse = format!("pulse-{}-{number}", life::number());
        let started = client
            .start_orchestration(pulse.as_str(), "probe", "")
            .await;
        let ended = client
            .wait_for_orchestration(&pulse, Duration::from_secs(5))
            .await;
        tokio::time::sleep(PULSE).await;
        // One that cannot be deleted now is an instance like any other. The deletion is part of the
        // beat: a machine that stands still does so during a deletion as well.
        let _deleted = client.delete_instance(&pulse, false).await;
        let (to_ms, took) = (now_ms(), began.elapsed());
        began = Instant::now();
        if started.is_err() || ended.is_err() || took > limit {
            notes.stall(from_ms, to_ms);
        }
        from_ms = to_ms;
    }
}
