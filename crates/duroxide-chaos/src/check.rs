//! The checker: reads histories, queues and ledgers when all is over, and says what is wrong with them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use duroxide::providers::ProviderAdmin;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{Client, Event, EventKind};
use serde::Serialize;

use crate::ledger::lines;
use crate::worker::expected;

/// What a run showed.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    seed: u64,
    kills: u32,
    kills_at_named_points: u32,
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

/// Checks everything the worker's lives left behind.
#[tokio::main]
pub(crate) async fn check(folder: &Path, seed: u64, kills: u32, named: u32) -> Report {
    let mut violations = Vec::new();
    check_file(folder, &mut violations);
    let url = format!("sqlite:{}", folder.join("chaos.db").display());
    let store = Arc::new(
        SqliteProvider::new(&url, None)
            .await
            .expect("open the store"),
    );
    let client = Client::new(store.clone());
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
    check_queues(&store, &mut violations).await;
    let effects = lines(&folder.join("effects"));
    let repeated = check_effects(&effects, &scheduled, &completed, &mut violations);
    let mut recoveries: Vec<u64> = lines(&folder.join("recoveries"))
        .iter()
        .filter_map(|l| l.parse().ok())
        .collect();
    recoveries.sort_unstable();
    Report {
        seed,
        kills,
        kills_at_named_points: named,
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

/// The smallest value that so many percent do not exceed; 0 if there is none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

fn check_file(folder: &Path, violations: &mut Vec<String>) {
    let db = rusqlite::Connection::open(folder.join("chaos.db")).expect("open the file");
    let verdict: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("integrity_check answers");
    if verdict != "ok" {
        violations.push(format!("integrity_check: {verdict}"));
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
async fn check_queues(store: &SqliteProvider, violations: &mut Vec<String>) {
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
