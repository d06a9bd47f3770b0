//! The checker: reads histories, queues and ledgers when all is over, and says what is wrong with them.

mod effects;
pub(crate) mod history;
mod leases;
mod takeovers;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::Client;
use duroxide::providers::ProviderAdmin;
use serde::Serialize;

use self::effects::Recorded;
pub(crate) use self::effects::{Effect, key};
use self::history::ClockOfRun;
use self::takeovers::Takeovers;
use crate::clock;
use crate::disturbances::Disturbances;
use crate::ledger::{lines, lines_in};
use crate::ops::{self, Acknowledged};
use crate::store::Place;

/// A life that takes longer to commit something, the time without a server aside, has not recovered.
const RECOVERY_MAX_MS: u64 = 10_000;

/// How often what is done to the workers and their server.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Faults {
    pub(crate) kills: u32,
    pub(crate) crashes: u32,
    pub(crate) cuts: u32,
    pub(crate) promotions: u32,
    /// Kills with nothing else before and after: others take over in peace, and that is timed.
    pub(crate) quiet_kills: u32,
}

impl Faults {
    /// As they are written on the command line.
    pub(crate) fn arguments(self) -> String {
        let Self {
            kills,
            crashes,
            cuts,
            promotions,
            quiet_kills,
        } = self;
        format!(
            "--store postgres --kills {kills} --crashes {crashes} --cuts {cuts} --promotions {promotions} \
             --quiet-kills {quiet_kills}"
        )
    }
}

/// What a run showed.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    seed: u64,
    faults: Faults,
    /// How many kills at which points.
    kills_at_named_points: BTreeMap<&'static str, u32>,
    /// How long a crash of the server and its recovery took at most.
    longest_outage_ms: u64,
    orchestrations: usize,
    /// Of these, how many were cancelled, and how many were deleted.
    cancelled: usize,
    deleted: usize,
    effects: usize,
    repeated_effects: usize,
    /// How often somebody could not work for a part of a lease, which excuses repetitions, and for how long in all.
    stalls: usize,
    stalled_ms: u64,
    /// How often the clock was set, and how often work was tried that takes its process with it.
    clock_steps: u32,
    poisoned: u32,
    /// Start to first commit of each life that got so far.
    recoveries: usize,
    recovery_ms_p50: u64,
    recovery_ms_p99: u64,
    recovery_ms_max: u64,
    /// Those that took longer than they should.
    recoveries_over_one_second: usize,
    /// How soon others took over what a killed worker held; only where there are others.
    takeovers: Option<Takeovers>,
    pub(crate) violations: Vec<String>,
}

/// Checks everything that the workers' lives left behind.
#[tokio::main]
pub(crate) async fn check(folder: &Path, place: &Place, seed: u64) -> Report {
    let mut violations = lines(&folder.join("violations"));
    if let Place::Sqlite { file, .. } = place {
        leases::check_file(file, &mut violations);
    }
    let store = place.open(clock::of(folder)).await;
    let client = Client::new(Arc::clone(&store));
    let store = store.as_management_capability();
    let store = store.expect("every store can be managed");
    let acked = ops::acknowledged_in(&lines_in(&folder.join("acknowledged")));
    let there = store.list_instances().await.expect("list");
    let mut recorded = Recorded::default();
    let clock = ClockOfRun::of(folder);
    for instance in &there {
        let acked = acked.get(instance).copied().unwrap_or_default();
        let checked = check_instance(&client, store, instance, (acked, clock), &mut recorded);
        violations.extend(checked.await);
    }
    violations.extend(ops::missing(&acked, &there.iter().cloned().collect()));
    leases::check_queues(
        store,
        &there,
        there.iter().chain(acked.keys()),
        &mut violations,
    )
    .await;
    let lines_of = |name: &str| lines(&folder.join(name));
    let effects = lines_of("effects");
    let there: HashSet<String> = there.into_iter().collect();
    let is_deleted = |instance: &str| {
        !there.contains(instance) && acked.get(instance).is_some_and(|acked| acked.deleting)
    };
    let disturbances = Disturbances::of(folder, place.lease());
    let runs = effects::runs(&effects, &mut violations);
    let repeated = effects::check(&runs, &recorded, is_deleted, &disturbances, &mut violations);
    let noted = lines_of("recoveries");
    let noted = noted.iter().filter_map(|line| recovery(line));
    let recovered: Vec<(u64, u64)> = noted.collect();
    let mut recoveries: Vec<u64> = recovered.iter().map(|(took_ms, _)| *took_ms).collect();
    recoveries.sort_unstable();
    for (took_ms, at_ms) in recovered {
        let own_ms = disturbances.with_server(at_ms.saturating_sub(took_ms), at_ms);
        if own_ms > RECOVERY_MAX_MS {
            violations.push(format!("a life took {own_ms} ms to commit something"));
        }
    }
    violations.sort();
    violations.dedup();
    let (stalls, stalled_ms) = disturbances.stalled();
    let count =
        |which: fn(&Acknowledged) -> bool| acked.values().filter(|acked| which(acked)).count();
    Report {
        seed,
        faults: Faults::default(),
        kills_at_named_points: BTreeMap::new(),
        longest_outage_ms: 0,
        orchestrations: count(|acked| acked.started),
        cancelled: count(|acked| acked.cancelled),
        deleted: count(|acked| acked.deleted),
        effects: effects.len(),
        repeated_effects: repeated,
        stalls,
        stalled_ms,
        clock_steps: 0,
        poisoned: 0,
        recoveries: recoveries.len(),
        recovery_ms_p50: percentile(&recoveries, 50),
        recovery_ms_p99: percentile(&recoveries, 99),
        recovery_ms_max: percentile(&recoveries, 100),
        recoveries_over_one_second: recoveries.iter().filter(|ms| **ms > 1_000).count(),
        takeovers: None,
        violations,
    }
}

/// How long a life took to commit something, and when it did.
fn recovery(line: &str) -> Option<(u64, u64)> {
    let (took_ms, at_ms) = line.split_once(' ')?;
    Some((took_ms.parse().ok()?, at_ms.parse().ok()?))
}

/// What is wrong with an instance that has ended: its outcome, its key-values, its histories.
async fn check_instance(
    client: &Client,
    store: &dyn ProviderAdmin,
    instance: &str,
    (acked, clock): (Acknowledged, ClockOfRun),
    recorded: &mut Recorded,
) -> Vec<String> {
    let status = client.get_orchestration_status(instance).await;
    let values = client.get_kv_all_values(instance).await;
    let (status, values) = (status.expect("status"), values.expect("key-values"));
    let mut violations = Vec::from_iter(ops::wrong(instance, acked, &status, &values));
    for execution in store.list_executions(instance).await.expect("executions") {
        let history = store
            .read_history_with_execution_id(instance, execution)
            .await
            .expect("history");
        history::check(instance, execution, &history, clock, &mut violations);
        recorded.note(instance, execution, &history);
    }
    violations
}

impl Report {
    /// Whether anything was started, ended and deleted.
    pub(crate) fn deleted_any(&self) -> bool {
        self.deleted > 0
    }

    /// What was done on the way.
    pub(crate) fn faults(&mut self, faults: Faults, longest_outage: Duration) {
        self.faults = faults;
        self.longest_outage_ms = u64::try_from(longest_outage.as_millis()).unwrap_or(u64::MAX);
    }

    /// What else was done on the way.
    pub(crate) fn set_clock_and_poison(&mut self, clock_steps: u32, poisoned: u32) {
        self.clock_steps = clock_steps;
        self.poisoned = poisoned;
    }

    /// Measures how soon others took over, in a run whose workers lived until then.
    pub(crate) fn takeovers(&mut self, folder: &Path, place: &Place, until_ms: u64) {
        let runs = effects::runs(&lines(&folder.join("effects")), &mut Vec::new());
        let disturbances = Disturbances::of(folder, place.lease());
        let measured = takeovers::measure(&runs, &disturbances, until_ms, &mut self.violations);
        self.takeovers = Some(measured);
    }

    /// Kills of a store that can end its process at named points.
    pub(crate) fn kills(&mut self, kills: u32, named: BTreeMap<&'static str, u32>) {
        self.faults.kills = kills;
        self.kills_at_named_points = named;
    }
}

/// The smallest value that so many percent do not exceed; 0 if there is none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}
