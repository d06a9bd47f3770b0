//! What all parts of one run share: who polls, chance, the timeline, the faults that are on, and what went wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide_core::clock::Clock;
use duroxide_store::TokioClock;
use tokio_util::sync::CancellationToken;

use crate::effects::Effects;
use crate::leases::LeaseBook;
use crate::plan::Rates;
use crate::rng::Rng;
use crate::sched::{Group, Scheduler};

/// When simulated time begins, in milliseconds since the Unix epoch.
pub const EPOCH_MS: u64 = 1_800_000_000_000;

/// What all parts of one run share.
#[derive(Debug)]
pub struct Sim {
    pub scheduler: Arc<Scheduler>,
    pub clock: TokioClock,
    /// How far time has been moved on by hand.
    ahead_ms: AtomicU64,
    chance: Mutex<Rng>,
    timeline: Mutex<Timeline>,
    weather: Mutex<Weather>,
    names: Mutex<BTreeMap<Group, String>>,
    pub effects: Effects,
    pub leases: LeaseBook,
    /// When each event was stored, which is later than it was decided.
    stored: Mutex<BTreeMap<(String, u64, u64), u64>>,
    /// Fires when faults stop.
    pub healed: CancellationToken,
}

/// The faults that are on.
#[derive(Debug, Default)]
struct Weather {
    rates: Rates,
    partitioned: BTreeSet<usize>,
    outage: bool,
    faults: u64,
    healed_ms: Option<u64>,
    /// When a call last did something that its node was told late of, or never.
    unheard_ms: u64,
    collided: BTreeSet<String>,
    sessions_max: BTreeMap<String, usize>,
    work_ms: u64,
    /// Nodes to which something happened that may cost them a lease, with when.
    disturbed: Vec<(usize, u64, u64)>,
    /// Renewals of a node that failed in a row.
    failed_renewals: BTreeMap<usize, u32>,
    /// Nodes whose last call went wrong at this time.
    last_fault_ms: BTreeMap<usize, u64>,
}

/// What happened, in order.
#[derive(Debug)]
struct Timeline {
    hash: Hasher,
    lines: Option<Vec<String>>,
    violations: Vec<String>,
}

/// FNV-1a over everything that is written to it.
#[derive(Debug)]
struct Hasher(u64);

impl fmt::Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    Slow(Duration, Duration),
    FailsBefore(Duration),
    FailsAfter(Duration),
    Never,
    /// The store is out of reach; told after a while.
    Away(Duration),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sim {
    /// A run with these sources of chance; with a timeline to read, or only its hash.
    #[must_use]
    pub fn new(mut rng: Rng, rates: Rates, traced: bool) -> Arc<Self> {
        Arc::new(Self {
            scheduler: Scheduler::new(rng.fork()),
            clock: TokioClock::starting_at(EPOCH_MS),
            ahead_ms: AtomicU64::new(0),
            chance: Mutex::new(rng),
            timeline: Mutex::new(Timeline {
                hash: Hasher(0xcbf2_9ce4_8422_2325),
                lines: traced.then(Vec::new),
                violations: Vec::new(),
            }),
            weather: Mutex::new(Weather {
                rates,
                ..Weather::default()
            }),
            names: Mutex::default(),
            effects: Effects::default(),
            leases: LeaseBook::default(),
            stored: Mutex::default(),
            healed: CancellationToken::new(),
        })
    }

    /// What a clock shows that is right.
    #[must_use]
    pub fn time_ms(&self) -> u64 {
        self.clock.now_ms() + self.ahead_ms.load(Ordering::SeqCst)
    }

    /// Milliseconds since the run began.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.time_ms().saturating_sub(EPOCH_MS)
    }

    /// Moves the time on, for all who look at the clock of the run. Waiting tasks do not notice by themselves.
    pub fn jump(&self, by: Duration) {
        self.ahead_ms
            .fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }

    /// An event is stored now.
    pub fn store_event(&self, instance: &str, execution: u64, event: u64) {
        let now = self.now_ms();
        lock(&self.stored).insert((instance.to_owned(), execution, event), now);
    }

    /// When an event was stored; of several lives of an id, in the last.
    #[must_use]
    pub fn stored_ms(&self, instance: &str, execution: u64, event: u64) -> Option<u64> {
        let key = (instance.to_owned(), execution, event);
        lock(&self.stored).get(&key).copied()
    }

    /// Draws something.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut lock(&self.chance))
    }

    /// A group with a name for the timeline.
    pub fn group(&self, name: impl Into<String>) -> Group {
        let group = self.scheduler.group();
        lock(&self.names).insert(group, name.into());
        group
    }

    /// Who is being polled.
    #[must_use]
    pub fn who(&self) -> String {
        let current = self.scheduler.current();
        let names = lock(&self.names);
        let name = current.and_then(|group| names.get(&group).cloned());
        name.unwrap_or_else(|| "world".to_owned())
    }

    /// Writes a line into the timeline.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        let (now, who) = (self.now_ms(), self.who());
        let mut timeline = lock(&self.timeline);
        let _infallible = writeln!(timeline.hash, "{now} {who} {what}");
        if let Some(lines) = &mut timeline.lines {
            lines.push(format!(
                "{:>4}.{:03} {who:<9} {what}",
                now / 1_000,
                now % 1_000
            ));
        }
    }

    /// Writes down that something must not be.
    pub fn violation(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(format_args!("VIOLATION {what}"));
        lock(&self.timeline).violations.push(what);
    }

    /// What must not be, so far.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        lock(&self.timeline).violations.clone()
    }

    /// The hash of the timeline, and its lines if they were kept.
    #[must_use]
    pub fn timeline(&self) -> (u64, Vec<String>) {
        let timeline = lock(&self.timeline);
        (timeline.hash.0, timeline.lines.clone().unwrap_or_default())
    }

    /// How many calls went wrong.
    #[must_use]
    pub fn faults(&self) -> u64 {
        lock(&self.weather).faults
    }

    /// When a call of this node last went wrong.
    #[must_use]
    pub fn last_fault_ms(&self, node: usize) -> Option<u64> {
        lock(&self.weather).last_fault_ms.get(&node).copied()
    }

    /// Whether something happened in this span that may cost a node life a lease: it stood still, could not reach the
    /// store, or a call of it took very long.
    #[must_use]
    pub fn was_disturbed(&self, node: usize, from_ms: u64, to_ms: u64) -> bool {
        let weather = lock(&self.weather);
        let overlaps = |(of, begin, end): &(usize, u64, u64)| {
            *of == node && *begin <= to_ms && from_ms <= *end
        };
        weather.disturbed.iter().any(overlaps)
    }

    /// For how much of this time something disturbed the node that was disturbed most.
    pub fn disturbed_ms(&self, from_ms: u64, to_ms: u64) -> u64 {
        let mut by_node = BTreeMap::<usize, u64>::new();
        for (node, begin, end) in &lock(&self.weather).disturbed {
            let overlap = (*end).min(to_ms).saturating_sub((*begin).max(from_ms));
            *by_node.entry(*node).or_default() += overlap;
        }
        by_node.into_values().max().unwrap_or(0)
    }

    /// Something happens to a node from now on, for this long, that may cost it a lease.
    pub fn disturb(&self, node: usize, length: Duration) {
        let now = self.now_ms();
        let end = now + length.as_millis() as u64;
        lock(&self.weather).disturbed.push((node, now, end));
    }

    pub fn set_partitioned(&self, node: usize, cut: bool) {
        let mut weather = lock(&self.weather);
        if cut {
            weather.partitioned.insert(node);
        } else {
            weather.partitioned.remove(&node);
        }
    }

    pub fn set_outage(&self, outage: bool) {
        lock(&self.weather).outage = outage;
    }

    /// From now on nothing goes wrong.
    pub fn heal(&self) {
        let mut weather = lock(&self.weather);
        weather.rates = Rates {
            jitter: weather.rates.jitter,
            ..Rates::default()
        };
        weather.partitioned.clear();
        weather.outage = false;
        weather.healed_ms = Some(self.now_ms());
        drop(weather);
        self.healed.cancel();
    }

    /// Waits, but not longer than faults last.
    pub async fn wait(&self, time: Duration) {
        tokio::select! {
            biased;
            () = tokio::time::sleep(time) => {}
            () = self.healed.cancelled() => {}
        }
    }

    /// How many sessions a node life may serve.
    pub fn set_sessions_max(&self, life: &str, most: usize) {
        lock(&self.weather)
            .sessions_max
            .insert(life.to_owned(), most);
    }

    /// How many sessions a node life may serve.
    #[must_use]
    pub fn sessions_max(&self, life: &str) -> usize {
        let weather = lock(&self.weather);
        weather
            .sessions_max
            .get(life)
            .copied()
            .unwrap_or(usize::MAX)
    }

    /// How long all activities of the run take together.
    pub fn set_work_ms(&self, work_ms: u64) {
        lock(&self.weather).work_ms = work_ms;
    }

    /// How long all activities of the run take together.
    #[must_use]
    pub fn work_ms(&self) -> u64 {
        lock(&self.weather).work_ms
    }

    /// Whether a message comes that nobody can read.
    pub fn spoils(&self) -> bool {
        let garbage = lock(&self.weather).rates.garbage;
        self.draw(|rng| rng.chance(garbage))
    }

    /// Whether a completion is delivered twice.
    pub fn duplicates(&self) -> bool {
        let double = lock(&self.weather).rates.double;
        self.draw(|rng| rng.chance(double))
    }

    /// A child of this instance could not have the id it was to have.
    pub fn collided(&self, instance: &str) {
        lock(&self.weather).collided.insert(instance.to_owned());
    }

    /// Whether a child of this instance, or of a child of it, could not have the id it was to have.
    #[must_use]
    pub fn has_collided(&self, root: &str) -> bool {
        let weather = lock(&self.weather);
        weather.collided.iter().any(|id| id.starts_with(root))
    }

    /// Since when nothing goes wrong, leases of those that died or were never told of them included.
    #[must_use]
    pub fn well_since_ms(&self) -> Option<u64> {
        let weather = lock(&self.weather);
        Some(weather.healed_ms?.max(weather.unheard_ms) + 15_000)
    }

    /// A call has done what it does, and its node is told late, or never.
    pub fn unheard(&self) {
        let now = self.now_ms();
        lock(&self.weather).unheard_ms = now;
    }

    /// Whether steps within one call are interleaved here.
    pub fn jitters(&self) -> bool {
        let jitter = lock(&self.weather).rates.jitter;
        self.draw(|rng| rng.chance(jitter))
    }

    /// Whether a waiting claim misses what happens meanwhile.
    pub fn is_deaf(&self) -> bool {
        let deaf = lock(&self.weather).rates.deaf;
        self.draw(|rng| rng.chance(deaf))
    }

    /// What happens to a call of a node.
    pub fn fault(&self, node: usize, operation: &'static str) -> Fault {
        let mut weather = lock(&self.weather);
        let mut rng = lock(&self.chance);
        if weather.outage || weather.partitioned.contains(&node) {
            weather.faults += 1;
            let now = self.now_ms();
            weather.last_fault_ms.insert(node, now);
            return Fault::Away(rng.millis(1, 1_000));
        }
        let rates = weather.rates;
        if operation.starts_with("renew_") {
            weather.failed_renewals.entry(node).or_default();
        }
        if !rates.only.is_empty() && !rates.only.contains(&operation) {
            return Fault::None;
        }
        let fault = if rng.chance(rates.fails_before) {
            Fault::FailsBefore(rng.millis(0, 200))
        } else if rng.chance(rates.fails_after) {
            Fault::FailsAfter(rng.millis(0, 500))
        } else if rng.chance(rates.never) {
            Fault::Never
        } else if rng.chance(rates.late) {
            if rng.chance(500) {
                Fault::Slow(rng.millis(100, rates.late_ms), Duration::ZERO)
            } else {
                Fault::Slow(Duration::ZERO, rng.millis(100, rates.late_ms))
            }
        } else if rng.chance(rates.slow) {
            Fault::Slow(rng.millis(0, 30), rng.millis(0, 30))
        } else {
            return Fault::None;
        };
        weather.faults += 1;
        let now = self.now_ms();
        weather.last_fault_ms.insert(node, now);
        if operation.starts_with("renew_") {
            let is_failure = matches!(fault, Fault::FailsBefore(_) | Fault::FailsAfter(_));
            let failed = weather.failed_renewals.entry(node).or_default();
            *failed = if is_failure { *failed + 1 } else { 0 };
            if *failed >= 2 {
                weather.disturbed.push((node, now, now + 60_000));
            }
        }
        fault
    }
}
