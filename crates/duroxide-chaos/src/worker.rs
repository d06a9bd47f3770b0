//! The process that is killed: runs orchestrations, starts them ([`feed`]), and brings those to their end whose starter
//! is dead ([`heir`]).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duroxide::providers::TagFilter;
use duroxide::{Client, Runtime, RuntimeOptions};

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

/// What a life of the worker is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Life {
    /// Starts more and more, until it is killed.
    Feed,
    /// The same, and deletes what has ended.
    Soak { pace: Pace },
    /// Ends when everything has ended.
    Finish,
}

impl Life {
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
pub(crate) async fn run(folder: &Path, place: &Place, life: Life, skills: &Skills) {
    let began = Instant::now();
    life::announce(folder);
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
    note_recovery(folder, &client, began).await;
    let starter = Starter::new(client.clone(), folder, matches!(life, Life::Soak { .. }));
    let beats = Arc::new(AtomicBool::new(true));
    let notes = Notes::in_folder(folder);
    let pulse = tokio::spawn(pulse(client, notes, place.lease() / 2, Arc::clone(&beats)));
    match life {
        Life::Feed => start_orchestrations(folder, starter, Pace::AsFastAsTheyEnd).await,
        Life::Soak { pace } => start_orchestrations(folder, starter, pace).await,
        Life::Finish => {
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
    recoveries.write(&began.elapsed().as_millis().to_string());
}

/// Runs one small orchestration after another and notes when one takes so long that leases may have been lost
/// meanwhile: the machine stood still, the disk or the server was away, another process held the file.
async fn pulse(client: Client, notes: Notes, limit: Duration, beats: Arc<AtomicBool>) {
    let mut numbers = 0_u64..;
    while let (true, Some(number)) = (beats.load(Ordering::Relaxed), numbers.next()) {
        let pulse = format!("pulse-{}-{number}", life::number());
        let (from_ms, began) = (now_ms(), Instant::now());
        let started = client
            .start_orchestration(pulse.as_str(), "probe", "")
            .await;
        let ended = client
            .wait_for_orchestration(&pulse, Duration::from_secs(5))
            .await;
        tokio::time::sleep(PULSE).await;
        if started.is_err() || ended.is_err() || began.elapsed() > limit {
            notes.stall(from_ms, now_ms());
        }
        // One that cannot be deleted now is an instance like any other.
        let _deleted = client.delete_instance(&pulse, false).await;
    }
}
