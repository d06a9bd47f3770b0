//! Histories recorded by the published crate replay here: every event keeps its text, and every prefix of every
//! history is reproduced by today's engine.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duroxide::providers::{KvEntry, WorkItem, fold_key_values};
use duroxide::{Event, EventKind, OrchestrationHandler, OrchestrationRegistry};
use duroxide_core::replay::{Execution, HostCall, Outcome, Progress, Turn, TurnLimits};
use semver::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::recorded_handlers::registries;

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) case: String,
    executions: Vec<Recorded>,
    #[serde(default)]
    children: HashMap<String, Vec<Recorded>>,
}

#[derive(Deserialize)]
struct Recorded {
    events: Vec<Box<RawValue>>,
}

impl Recorded {
    fn events(&self) -> Vec<Event> {
        self.events
            .iter()
            .map(|raw| serde_json::from_str(raw.get()).unwrap())
            .collect()
    }
}

impl Case {
    /// Every instance of the case, as its list of executions.
    pub(crate) fn instances(&self) -> Vec<(String, Vec<Vec<Event>>)> {
        let all = |runs: &[Recorded]| runs.iter().map(Recorded::events).collect();
        let mut instances = vec![(self.case.clone(), all(&self.executions))];
        for (child, executions) in &self.children {
            instances.push((child.clone(), all(executions)));
        }
        instances
    }

    pub(crate) fn assert_texts_are_kept(&self) {
        let recorded = self
            .executions
            .iter()
            .chain(self.children.values().flatten());
        for raw in recorded.flat_map(|execution| &execution.events) {
            let event: Event = serde_json::from_str(raw.get()).unwrap();
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(text, raw.get().trim(), "{}", self.case);
        }
    }
}

/// Where recorded histories are kept: those of the published crate here, our own in a folder per version.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../duroxide-core/tests/histories")
}

pub(crate) fn cases(folder: &Path) -> Vec<Case> {
    let mut cases: Vec<Case> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(|path| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
        .collect();
    cases.sort_by(|a, b| a.case.cmp(&b.case));
    assert!(cases.len() >= 28, "only {} histories found", cases.len());
    cases
}

#[test]
fn every_recorded_event_keeps_its_text() {
    for case in cases(&folder()) {
        case.assert_texts_are_kept();
    }
}

/// Whether an event is a decision of the code.
pub(crate) fn is_decision(event: &Event) -> bool {
    match &event.kind {
        EventKind::ActivityScheduled { .. }
        | EventKind::TimerCreated { .. }
        | EventKind::ExternalSubscribed { .. }
        | EventKind::QueueSubscribed { .. }
        | EventKind::SubOrchestrationScheduled { .. }
        | EventKind::OrchestrationChained { .. }
        | EventKind::CustomStatusUpdated { .. }
        | EventKind::KeyValueSet { .. }
        | EventKind::KeyValueCleared { .. }
        | EventKind::KeyValuesCleared => true,
        EventKind::ActivityCancelRequested { reason }
        | EventKind::SubOrchestrationCancelRequested { reason }
        | EventKind::ExternalSubscribedCancelled { reason }
        | EventKind::QueueSubscriptionCancelled { reason } => reason == "dropped_future",
        _ => false,
    }
}

/// What is compared of a decision: everything but times and generated child ids.
fn essence(event: &Event) -> String {
    let mut kind = event.kind.clone();
    match &mut kind {
        EventKind::TimerCreated { fire_at_ms } => *fire_at_ms = 0,
        EventKind::KeyValueSet {
            last_updated_at_ms, ..
        } => *last_updated_at_ms = 0,
        EventKind::SubOrchestrationScheduled { instance, .. } if instance.starts_with("sub::") => {
            "sub::".clone_into(instance);
        }
        _ => {}
    }
    format!("{kind:?}")
}

pub(crate) fn handler_of(
    registry: &OrchestrationRegistry,
    history: &[Event],
) -> Arc<dyn OrchestrationHandler> {
    let EventKind::OrchestrationStarted { name, version, .. } = &history[0].kind else {
        panic!("a history begins with its start");
    };
    let version = Version::parse(version).unwrap();
    registry.resolve_handler_exact(name, &version).unwrap()
}

/// Runs the code beyond a prefix; questions to the host stay open, as they did when workers answered them.
fn decide(execution: &mut Execution, now_ms: u64) -> Turn {
    execution.start_turn(now_ms, Vec::<WorkItem>::new());
    match execution.advance(&TurnLimits::default(), false) {
        Progress::Done(turn) => *turn,
        Progress::NeedsHost(calls) => {
            let calls: VecDeque<HostCall> = calls.into();
            panic!("asked the host although it must not: {calls:?}")
        }
    }
}

#[test]
fn every_prefix_of_every_recorded_history_is_reproduced() {
    let (_, registry) = registries();
    let instances = cases(&folder()).into_iter().flat_map(|case| {
        let name = case.case.clone();
        let named = move |(id, runs)| (format!("{name} / {id}"), runs);
        case.instances().into_iter().map(named)
    });
    for (case, executions) in instances {
        let mut kv = HashMap::new();
        for history in &executions {
            let handler = handler_of(&registry, history);
            for cut in 1..=history.len() {
                check_prefix(&case, history, cut, &handler, &kv);
            }
            fold_key_values(&mut kv, history);
        }
    }
}

fn check_prefix(
    case: &str,
    history: &[Event],
    cut: usize,
    handler: &Arc<dyn OrchestrationHandler>,
    kv: &HashMap<String, KvEntry>,
) {
    let (prefix, rest) = history.split_at(cut);
    let at = format!("{case}, first {cut} events");
    let mut execution = Execution::load(prefix, Arc::clone(handler), kv.clone())
        .unwrap_or_else(|divergence| panic!("{at}: {divergence}"));
    if prefix.iter().any(Event::is_terminal) {
        return;
    }
    let turn = decide(&mut execution, prefix[cut - 1].timestamp_ms);
    let decided: Vec<String> = turn
        .events
        .iter()
        .filter(|e| is_decision(e))
        .map(essence)
        .collect();
    let recorded: Vec<String> = rest
        .iter()
        .filter(|e| is_decision(e))
        .map(essence)
        .take(decided.len())
        .collect();
    if rest.is_empty() {
        assert!(
            decided.is_empty(),
            "{at}: decided {decided:?} beyond an open history"
        );
    }
    assert_eq!(decided, recorded, "{at}");
    if let Some(next) = rest.first().filter(|next| next.is_terminal()) {
        check_outcome(&at, &turn.outcome, next);
    }
}

fn check_outcome(at: &str, outcome: &Outcome, terminal: &Event) {
    match (&terminal.kind, outcome) {
        (EventKind::OrchestrationCompleted { output }, Outcome::Completed { output: ours }) => {
            assert_eq!(ours, output, "{at}");
        }
        (EventKind::OrchestrationFailed { details }, Outcome::Failed { details: ours }) => {
            assert_eq!(ours, details, "{at}");
        }
        (
            EventKind::OrchestrationContinuedAsNew { input },
            Outcome::ContinuedAsNew { input: ours, .. },
        ) => assert_eq!(ours, input, "{at}"),
        (recorded, ours) => panic!("{at}: recorded {recorded:?}, decided {ours:?}"),
    }
}

#[tokio::test]
async fn the_recorded_handlers_run_on_this_engine_too() {
    let (activities, orchestrations) = registries();
    let world = crate::support::World::start(activities, orchestrations).await;
    let status = world.run("fan", "fan_out_fifty", "").await;
    assert_eq!(crate::support::output(&status), "42925");
    assert!(!world.store.read("fan").await.unwrap().is_empty());
    world.stop().await;
}
