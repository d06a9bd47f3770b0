//! The list of workloads, and how each is driven.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::measure::{Latencies, Sample};
use crate::system::System;

/// One workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// One orchestration name again and again, so many in flight.
    Loop {
        orchestration: &'static str,
        input: u32,
        in_flight: usize,
        /// Units of work in each, for the cost of one.
        units: u32,
    },
    /// One instance with many activities in sequence.
    Long { activities: u32 },
    /// Timers that are due at the same moment.
    Timers { count: u32 },
    /// Raise to result, one at a time.
    Events,
    /// One instance that continues as new again and again.
    ContinueAsNew { executions: u32 },
    /// Processor time of an idle runtime with parked instances, and hello latency meanwhile.
    Idle { parked: u32 },
    /// One orchestration name again and again, among many finished instances.
    History { in_flight: usize },
    /// An empty folder to the first result, each time in a new process.
    Startup,
}

impl Workload {
    /// How many orchestrations run at once.
    #[allow(dead_code, reason = "only the published crate's half is tuned by it")]
    pub(crate) fn in_flight(self) -> usize {
        match self {
            Self::Loop { in_flight, .. } | Self::History { in_flight } => in_flight,
            Self::Timers { .. } => MANY,
            Self::Long { .. }
            | Self::Events
            | Self::ContinueAsNew { .. }
            | Self::Idle { .. }
            | Self::Startup => 1,
        }
    }
}

/// How many are started at once where the number does not matter.
const MANY: usize = 64;
/// How many run at once to find out how fast an engine is; more of them make the published crate fail instances.
const FEW: usize = 8;
/// How long an idle runtime is watched at least.
pub(crate) const QUIET: Duration = Duration::from_secs(10);

/// Every workload by name.
pub(crate) const WORKLOADS: &[(&str, Workload)] = &[
    ("hello@1", looped("hello", 0, 1, 1)),
    ("hello@64", looped("hello", 0, 64, 1)),
    ("chain@64", looped("chain", 5, 64, 5)),
    ("fanout@8", looped("fanout", 50, 8, 50)),
    ("subs@8", looped("subs", 10, 8, 10)),
    ("long@100", Workload::Long { activities: 100 }),
    ("long@800", Workload::Long { activities: 800 }),
    ("long@1000", Workload::Long { activities: 1_000 }),
    ("long@10000", Workload::Long { activities: 10_000 }),
    ("timers@1000", Workload::Timers { count: 1_000 }),
    ("timers@10000", Workload::Timers { count: 10_000 }),
    ("events@1", Workload::Events),
    ("can@100", Workload::ContinueAsNew { executions: 100 }),
    ("idle@0", Workload::Idle { parked: 0 }),
    ("idle@10000", Workload::Idle { parked: 10_000 }),
    ("idle@100000", Workload::Idle { parked: 100_000 }),
    ("history@1", Workload::History { in_flight: 1 }),
    ("history@64", Workload::History { in_flight: 64 }),
    ("startup", Workload::Startup),
];

pub(crate) const fn looped(
    orchestration: &'static str,
    input: u32,
    in_flight: usize,
    units: u32,
) -> Workload {
    Workload::Loop {
        orchestration,
        input,
        in_flight,
        units,
    }
}

/// Runs a workload for about so long.
async fn run<S: System>(system: &Arc<S>, workload: Workload, time: Duration) -> Sample {
    match workload {
        Workload::Loop {
            orchestration,
            input,
            in_flight,
            units,
        } => warm_loop(system, orchestration, input, in_flight, units, time).await,
        Workload::History { in_flight } => warm_loop(system, "hello", 0, in_flight, 1, time).await,
        Workload::Startup => unreachable!("each start has a process of its own"),
        Workload::Long { activities } => {
            one(system, "chain", 5, "warm").await;
            let sample = Sample::begin(activities);
            let latency = one(system, "chain", activities, "long").await;
            sample.finish(Latencies::of(vec![latency]))
        }
        Workload::ContinueAsNew { executions } => {
            one(system, "again", 3, "warm").await;
            let sample = Sample::begin(executions);
            let latency = one(system, "again", executions, "can").await;
            sample.finish(Latencies::of(vec![latency]))
        }
        Workload::Events => events(system, time).await,
        Workload::Timers { count } => timers(system, count).await,
        Workload::Idle { parked } => idle(system, parked, time).await,
    }
}

/// A closed loop after a warm-up: caches, prepared statements, the first pages of the file.
async fn warm_loop<S: System>(
    system: &Arc<S>,
    name: &'static str,
    input: u32,
    in_flight: usize,
    units: u32,
    time: Duration,
) -> Sample {
    closed_loop(system, name, input, in_flight, time / 5, "warm").await;
    let sample = Sample::begin(units);
    sample.finish(closed_loop(system, name, input, in_flight, time, "run").await)
}

async fn one<S: System>(system: &Arc<S>, name: &'static str, input: u32, prefix: &str) -> f64 {
    let id = format!("{prefix}-{name}");
    let started = Instant::now();
    system.begin(id.clone(), name, input.to_string()).await;
    system.result(&id).await;
    started.elapsed().as_secs_f64()
}

/// So many clients, each starting one and waiting for it, again and again.
pub(crate) async fn closed_loop<S: System>(
    system: &Arc<S>,
    name: &'static str,
    input: u32,
    in_flight: usize,
    time: Duration,
    prefix: &str,
) -> Latencies {
    let number = Arc::new(AtomicU64::new(0));
    let prefix: Arc<str> = prefix.into();
    let until = Instant::now() + time;
    let clients = (0..in_flight).map(|_| {
        let (system, number) = (Arc::clone(system), Arc::clone(&number));
        let prefix = Arc::clone(&prefix);
        tokio::spawn(async move {
            let mut seen = Vec::new();
            while Instant::now() < until {
                let id = format!("{prefix}-{name}-{}", number.fetch_add(1, Ordering::Relaxed));
                let started = Instant::now();
                system.begin(id.clone(), name, input.to_string()).await;
                system.result(&id).await;
                seen.push(started.elapsed().as_secs_f64());
            }
            seen
        })
    });
    let mut all = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        all.extend(client.await.expect("a client"));
    }
    Latencies::of(all)
}

async fn events<S: System>(system: &Arc<S>, time: Duration) -> Sample {
    let sample = Sample::begin(1);
    let until = Instant::now() + time;
    let mut seen = Vec::new();
    let mut number = 0;
    while Instant::now() < until {
        let id = format!("event-{number}");
        number += 1;
        system.begin(id.clone(), "wait_event", String::new()).await;
        while !system.is_running(&id).await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let started = Instant::now();
        system.raise(&id).await;
        system.result(&id).await;
        seen.push(started.elapsed().as_secs_f64());
    }
    sample.finish(Latencies::of(seen))
}

/// All due at one moment; the latency is how late each resumed.
async fn timers<S: System>(system: &Arc<S>, count: u32) -> Sample {
    // Time enough to start them all before they are due, also for slow engines.
    let probe = closed_loop(system, "hello", 0, FEW, Duration::from_secs(2), "probe").await;
    let starting = f64::from(count) / probe.count() as f64 * 2.0;
    let lead = Duration::from_secs_f64(2.0 + starting * 1.5);
    let due = SystemTime::now() + lead;
    let input = due.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    start_many(system, "timer", "timer", count, &input.to_string()).await;
    let left = due.duration_since(SystemTime::now());
    tokio::time::sleep(left.unwrap_or_default()).await;
    let sample = Sample::begin(1);
    let mut late = Vec::new();
    for n in 0..count {
        let answer = system.result(&format!("timer-{n}")).await;
        let micros: f64 = answer.parse().expect("microseconds");
        late.push(micros / 1e6);
    }
    sample.finish(Latencies::of(late))
}

/// Starts instances, many at a time, and says how far it is.
pub(crate) async fn start_many<S: System>(
    system: &Arc<S>,
    prefix: &'static str,
    name: &'static str,
    count: u32,
    input: &str,
) {
    let number = Arc::new(AtomicU64::new(0));
    let starters = (0..MANY).map(|_| {
        let (system, number) = (Arc::clone(system), Arc::clone(&number));
        let input = input.to_owned();
        tokio::spawn(async move {
            loop {
                let n = number.fetch_add(1, Ordering::Relaxed);
                if n >= u64::from(count) {
                    return;
                }
                if n > 0 && n % 10_000 == 0 {
                    eprintln!("  {n} of {count} started");
                }
                system
                    .begin(format!("{prefix}-{n}"), name, input.clone())
                    .await;
            }
        })
    });
    for starter in starters.collect::<Vec<_>>() {
        starter.await.expect("a starter");
    }
}

/// Waits until nothing more can be done now.
pub(crate) async fn settle<S: System>(system: &Arc<S>) {
    while system.depth().await > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// First a quiet window in which only the processor time counts, then one `hello` after another.
async fn idle<S: System>(system: &Arc<S>, parked: u32, time: Duration) -> Sample {
    start_many(system, "park", "park", parked, "").await;
    settle(system).await;
    // Caches close, threads that are not needed end.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let quiet = Sample::begin(1);
    tokio::time::sleep(time.max(QUIET)).await;
    let quiet = quiet.finish(Latencies::default());
    let sample = Sample::begin(1);
    let latencies = closed_loop(system, "hello", 0, 1, time, "meanwhile").await;
    let mut sample = sample.finish(latencies);
    sample.idle_percent = Some(quiet.cpu_percent());
    sample
}

/// Runs a workload on a system and shuts it down.
pub(crate) async fn drive<S: System>(system: S, workload: Workload, time: Duration) -> Sample {
    let system = Arc::new(system);
    let sample = run(&system, workload, time).await;
    if let Ok(system) = Arc::try_unwrap(system) {
        system.stop().await;
    }
    sample
}
