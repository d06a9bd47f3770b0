//! The twin-run guard: every turn is executed more than once, in one process, and must decide the same.
//!
//! Each `HashMap` of the standard library has a seed of its own, so code whose decisions depend on hash order decides
//! differently in one of the runs.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::provider::{KvEntry, fold_key_values};
use duroxide_core::{Event, EventKind, OrchestrationHandler};
use duroxide_runtime::registry::OrchestrationRegistry;
use semver::Version;

use crate::ending::{end_of, next_turn, other_end};

/// How often each turn is executed: a map of two keys is in the same order in all of them once in 65,536 times. Turns
/// far into a history, which cost more, are executed less often.
const RUNS: usize = 16;
const RUNS_OF_LATE_TURNS: usize = 3;
const LATE: usize = 32;

/// Executes every turn of an instance more than once, with other hash seeds, and compares what it decides with each
/// other and with the record. `history` holds all executions, one after another from the first, because a later one may
/// read key-values of those before it; [`check_execution`] takes one alone.
///
/// ```
/// use duroxide_core::{Event, OrchestrationContext};
/// use duroxide_runtime::registry::OrchestrationRegistry;
/// use duroxide_testing::check_determinism;
///
/// async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
///     ctx.schedule_activity("greet", name).await
/// }
///
/// let history: Vec<Event> = serde_json::from_str(r#"[{"event_id":1,"source_event_id":null,"instance_id":"i",
///   "execution_id":1,"timestamp_ms":1,"duroxide_version":"0.2.0","type":"OrchestrationStarted","name":"hello",
///   "version":"1.0.0","input":"Ada","parent_instance":null,"parent_id":null}]"#)?;
/// let orchestrations = OrchestrationRegistry::builder().register("hello", hello).build();
/// assert_eq!(check_determinism(&history, &orchestrations), Ok(()));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// The first turn that decides something else, in words; also if the first execution is missing.
pub fn check_determinism(
    history: &[Event],
    orchestrations: &OrchestrationRegistry,
) -> Result<(), String> {
    match history.first() {
        None => return Err("the history is empty".to_owned()),
        Some(first) if first.execution_id != 1 => {
            return Err(format!(
                "the history begins with execution {}; the key-values it began with are in those before it",
                first.execution_id
            ));
        }
        Some(_) => {}
    }
    let mut kv = HashMap::new();
    for execution in history.chunk_by(|a, b| a.execution_id == b.execution_id) {
        check_execution(execution, &kv, orchestrations)?;
        fold_key_values(&mut kv, execution);
    }
    Ok(())
}

/// Executes every turn of one execution more than once and compares what it decides, and how it ends with how it ended.
/// `kv` are the key-values at its beginning.
///
/// # Errors
///
/// The first turn that decides something else, in words.
pub fn check_execution(
    history: &[Event],
    kv: &HashMap<String, KvEntry>,
    orchestrations: &OrchestrationRegistry,
) -> Result<(), String> {
    let Some((name, version)) = history.iter().find_map(Event::started_handler) else {
        return Err("the history has no start".to_owned());
    };
    let version = Version::parse(&version).map_err(|e| e.to_string())?;
    let handler = orchestrations
        .resolve_handler_exact(&name, &version)
        .ok_or_else(|| format!("{name}@{version} is not registered"))?;
    for cut in turn_ends(history) {
        let times = if cut > LATE { RUNS_OF_LATE_TURNS } else { RUNS };
        let runs: Vec<Vec<EventKind>> = (0..times)
            .map(|_| decisions(&history[..cut], &handler, kv))
            .collect::<Result<_, _>>()?;
        if let Some(other) = runs.iter().find(|run| **run != runs[0]) {
            let last = &history[cut - 1];
            return Err(format!(
                "after event {} of execution {}, one run decides {:?} and another {other:?}",
                last.event_id, last.execution_id, runs[0]
            ));
        }
        if cut == end_of(history)
            && let Some((recorded, decided)) = other_end(history, &runs[0])
        {
            let execution = history[0].execution_id;
            return Err(format!(
                "execution {execution} ended with {recorded}, and now it decides {decided}"
            ));
        }
    }
    Ok(())
}

/// Where turns ended: before each arrival that follows a decision, and at the end.
fn turn_ends(history: &[Event]) -> Vec<usize> {
    let terminal = end_of(history);
    (1..=terminal)
        .filter(|cut| *cut == terminal || history[*cut].kind.is_arrival())
        .collect()
}

fn decisions(
    history: &[Event],
    handler: &Arc<dyn OrchestrationHandler>,
    kv: &HashMap<String, KvEntry>,
) -> Result<Vec<EventKind>, String> {
    let turn = next_turn(history, handler, kv).map_err(|report| report.to_string())?;
    let events = turn.into_iter().flat_map(|turn| turn.events);
    Ok(events.map(|event| event.kind).collect())
}
