//! The checker: reads histories, queues and ledgers when all is over, and says what is wrong with them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderAdmin;
use duroxide::{Client, Event, EventKind};
use serde::Serialize;

use crate::ledger::lines;
use crate::store::Place;
use crate::worker::expected;

/// A life that takes longer to commit something has not recovered.
const RECOVERY_MAX_MS: u64 = 10_000;
/// Activities that one orchestration has in flight at most.
const EFFECTS_IN_FLIGHT: usize = 4;
/// How often what is done to the workers and their server.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Faults {
    pub(crate) kills: u32,
    pub(crate) crashes: u32,
    pub(crate) cuts: u32,
    pub(crate) promotions: u32,
}

impl Faults {
    /// As they are written on the command line.
    pub(crate) fn arguments(self) -> String {
        let Self {
            kills,
            crashes,
            cuts,
            promotions,
        } = self;
        format!(
            "--store postgres --kills {kills} --crashes {crashes} --cuts {cuts} --promotions {promotions}"
        )
    }
}

/// What a run showed.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    seed: u64,
    faults: Faults,
    kills_at_named_points: u32,
    /// How long a crash of the server and its recovery took at most.
    longest_outage_ms: u64,
    orchestrations: usize,
    effects: usize,
    repeated_effects: usize,
    /// Start to first commit of each life that got so far.
    recoveries: usize,
    recovery_ms_p50: u64,
    recovery_ms_p99: u64,
    recovery_ms_max: u64,
    /// Those that took longer than they should.
    recoveries_over_one_second: usize,
    pub(crate) violations: Vec<String>,
}

/// Checks everything the workers' lives left behind. Each of so many disturbed lives may have repeated what it had in flight.
#[tokio::main]
pub(crate) async fn check(folder: &Path, place: &Place, seed: u64, disturbed: u32) -> Report {
    let mut violations = Vec::new();
    if let Place::Sqlite { file, .. } = place {
        check_file(file, &mut violations);
    }
    let store = place.open().await;
    let client = Client::new(Arc::clone(&store));
    let store = store.as_management_capability();
    let store = store.expect("every store can be managed");
    let acknowledged = lines(&folder.join("started"));
    let started: Vec<&String> = acknowledged.iter().filter(|l| !l.contains(' ')).collect();
    let mailed: HashSet<&str> = acknowledged
        .iter()
        .filter_map(|l| l.strip_prefix("mailed "))
        .collect();
    for instance in &started {
        check_result(
            &client,
            instance,
            mailed.contains(instance.as_str()),
            &mut violations,
        )
        .await;
    }
    let mut completed = HashSet::new();
    let mut scheduled = HashSet::new();
    for instance in store.list_instances().await.expect("list") {
        for execution in store.list_executions(&instance).await.expect("executions") {
            let history = store
                .read_history_with_execution_id(&instance, execution)
                .await
                .expect("history");
            check_history(&instance, execution, &history, &mut violations);
            note_activities(
                &instance,
                execution,
                &history,
                &mut scheduled,
                &mut completed,
            );
        }
    }
    check_queues(store, &mut violations).await;
    let effects = lines(&folder.join("effects"));
    let repeated = check_effects(&effects, &scheduled, &completed, &mut violations);
    let mut recoveries: Vec<u64> = lines(&folder.join("recoveries"))
        .iter()
        .filter_map(|l| l.parse().ok())
        .collect();
    recoveries.sort_unstable();
    for slow in recoveries.iter().filter(|ms| **ms > RECOVERY_MAX_MS) {
        violations.push(format!("a life took {slow} ms to commit something"));
    }
    let excusable = disturbed as usize * crate::worker::IN_FLIGHT * EFFECTS_IN_FLIGHT;
    if repeated > excusable {
        violations.push(format!(
            "{repeated} effects were repeated, {excusable} could be"
        ));
    }
    Report {
        seed,
        faults: Faults::default(),
        kills_at_named_points: 0,
        longest_outage_ms: 0,
        orchestrations: started.len(),
        effects: effects.len(),
        repeated_effects: repeated,
        recoveries: recoveries.len(),
        recovery_ms_p50: percentile(&recoveries, 50),
        recovery_ms_p99: percentile(&recoveries, 99),
        recovery_ms_max: percentile(&recoveries, 100),
        recoveries_over_one_second: recoveries.iter().filter(|ms| **ms > 1_000).count(),
        violations,
    }
}

impl Report {
    /// What was done on the way.
    pub(crate) fn faults(&mut self, faults: Faults, longest_outage: Duration) {
        self.faults = faults;
        self.longest_outage_ms = u64::try_from(longest_outage.as_millis()).unwrap_or(u64::MAX);
    }

    /// Kills of a store that can end its process at named points.
    pub(crate) fn kills(&mut self, kills: u32, named: u32) {
        self.faults.kills = kills;
        self.kills_at_named_points = named;
    }
}

/// What must not be left when a soak has come to its end.
#[tokio::main]
pub(crate) async fn rest(place: &Place) -> Vec<String> {
    let mut violations = Vec::new();
    if let Place::Sqlite { file, .. } = place {
        check_file(file, &mut violations);
    }
    let store = place.open().await;
    let store = store.as_management_capability();
    check_queues(store.expect("every store can be managed"), &mut violations).await;
    violations
}

/// The smallest value that so many percent do not exceed; 0 if there is none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

fn check_file(file: &Path, violations: &mut Vec<String>) {
    let db = rusqlite::Connection::open(file).expect("open the file");
    let verdict: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("integrity_check answers");
    if verdict != "ok" {
        violations.push(format!("integrity_check: {verdict}"));
    }
    // The last life was shut down: whatever is still leased now would stay so.
    for table in ["instance_locks", "worker_queue", "orchestrator_queue"] {
        let held = match table {
            "orchestrator_queue" => "lock_token IS NOT NULL AND lock_token <> 'awaiting-start'",
            _ => "lock_token IS NOT NULL",
        };
        let count: i64 = db
            .query_row(
                &format!("SELECT COUNT(*) FROM {table} WHERE {held}"),
                [],
                |row| row.get(0),
            )
            .expect("the table is there");
        if count > 0 {
            violations.push(format!("{count} rows of {table} are still leased"));
        }
    }
}

/// Every acknowledged start ended, with the output it must have; every acknowledged letter was read.
async fn check_result(client: &Client, instance: &str, mailed: bool, violations: &mut Vec<String>) {
    let status = client
        .get_orchestration_status(instance)
        .await
        .expect("status");
    let duroxide::OrchestrationStatus::Completed { output, .. } = status else {
        violations.push(format!("{instance} did not complete: {status:?}"));
        return;
    };
    let whole = expected(instance);
    let values = client
        .get_kv_all_values(instance)
        .await
        .expect("key-values");
    if values.get("rounds").map(String::as_str) != Some("2") {
        violations.push(format!("{instance} has key-values {values:?}"));
    }
    let without_letter = whole.replace(&format!("letter of {instance}"), "no letter");
    if output != whole && (mailed || output != without_letter) {
        violations.push(format!("{instance} ended with {output:?}"));
    }
}

/// Ids without gaps, one beginning, one end and nothing behind it, one answer per schedule, answers after schedules.
fn check_history(instance: &str, execution: u64, history: &[Event], violations: &mut Vec<String>) {
    let mut say = |what: String| violations.push(format!("{instance}/{execution}: {what}"));
    let ids: Vec<u64> = history.iter().map(|e| e.event_id).collect();
    if ids != (1..=history.len() as u64).collect::<Vec<_>>() {
        say(format!("event ids {ids:?}"));
    }
    let starts = history
        .iter()
        .filter(|e| e.started_handler().is_some())
        .count();
    let ends = history.iter().filter(|e| e.is_terminal()).count();
    if starts != 1 || ends != 1 || !history.last().is_some_and(Event::is_terminal) {
        say(format!("{starts} starts and {ends} ends"));
    }
    for (schedule, answers) in unanswered(history) {
        say(format!("event {schedule} has {answers}"));
    }
    let mut answered = HashSet::new();
    for event in history {
        if let (Some(source), true) = (event.source_event_id, is_answer(&event.kind)) {
            if source >= event.event_id {
                say(format!("event {} answers {source}", event.event_id));
            }
            if !answered.insert(source) {
                say(format!("event {source} was answered twice"));
            }
        }
    }
}

/// Schedules of an execution that has ended without an answer or a cancellation, and answers of another kind than asked for.
/// Timers that lost their race are let go without a record.
fn unanswered(history: &[Event]) -> Vec<(u64, &'static str)> {
    let mut wrong = Vec::new();
    for event in history {
        let fits: fn(&EventKind) -> bool = match &event.kind {
            EventKind::ActivityScheduled { .. } => |answer| {
                matches!(
                    answer,
                    EventKind::ActivityCompleted { .. }
                        | EventKind::ActivityFailed { .. }
                        | EventKind::ActivityCancelRequested { .. }
                )
            },
            EventKind::SubOrchestrationScheduled { .. } => |answer| {
                matches!(
                    answer,
                    EventKind::SubOrchestrationCompleted { .. }
                        | EventKind::SubOrchestrationFailed { .. }
                        | EventKind::SubOrchestrationCancelRequested { .. }
                )
            },
            EventKind::TimerCreated { fire_at_ms } => {
                let is_its = |e: &&Event| e.source_event_id == Some(event.event_id);
                if let Some(fired) = history.iter().find(is_its)
                    && fired.timestamp_ms < *fire_at_ms
                {
                    wrong.push((event.event_id, "fired early"));
                }
                continue;
            }
            _ => continue,
        };
        let mut answers = history
            .iter()
            .filter(|e| e.source_event_id == Some(event.event_id))
            .peekable();
        if answers.peek().is_none() {
            wrong.push((event.event_id, "no answer"));
        } else if !answers.all(|answer| fits(&answer.kind)) {
            wrong.push((event.event_id, "an answer of another kind"));
        }
    }
    wrong
}

fn is_answer(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
    )
}

fn note_activities(
    instance: &str,
    execution: u64,
    history: &[Event],
    scheduled: &mut HashSet<String>,
    completed: &mut HashSet<String>,
) {
    for event in history {
        match &event.kind {
            EventKind::ActivityScheduled { name, .. } => {
                scheduled.insert(format!("{instance} {execution} {} {name}", event.event_id));
            }
            EventKind::ActivityCompleted { .. } => {
                let source = event.source_event_id.unwrap_or_default();
                completed.insert(format!("{instance} {execution} {source}"));
            }
            _ => {}
        }
    }
}

/// Nothing waits in the queues but timers that lost their race, and nothing was set aside.
async fn check_queues(store: &dyn ProviderAdmin, violations: &mut Vec<String>) {
    let depths = store.get_queue_depths().await.expect("depths");
    if depths.worker_queue > 0 || depths.orchestrator_queue > 0 {
        violations.push(format!("left in the queues: {depths:?}"));
    }
    let dead = store.list_dead_letters(10).await.expect("dead letters");
    if !dead.is_empty() {
        violations.push(format!("dead letters: {dead:?}"));
    }
}

/// Every completed activity had its effect, every effect belongs to a recorded schedule; repeats fall together by key.
fn check_effects(
    effects: &[String],
    scheduled: &HashSet<String>,
    completed: &HashSet<String>,
    violations: &mut Vec<String>,
) -> usize {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for effect in effects {
        *seen.entry(effect).or_default() += 1;
    }
    let unknown: BTreeSet<&&str> = seen.keys().filter(|e| !scheduled.contains(**e)).collect();
    for effect in unknown {
        violations.push(format!("effect of nothing recorded: {effect}"));
    }
    let effective: HashSet<String> = seen
        .keys()
        .filter_map(|effect| effect.rsplit_once(' ').map(|(key, _)| key.to_owned()))
        .collect();
    for key in completed.difference(&effective) {
        violations.push(format!("completed without effect: {key}"));
    }
    effects.len() - seen.len()
}
