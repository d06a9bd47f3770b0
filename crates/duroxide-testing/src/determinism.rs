//! The twin-run guard: every turn is executed more than once, in one process, and must decide the same.
//!
//! Each `HashMap` of the standard library has a seed of its own, so code whose decisions depend on hash order decides
//! differently in one of the runs.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::provider::KvEntry;
use duroxide_core::replay::{Execution, Progress, TurnLimits};
use duroxide_core::{Event, EventKind, OrchestrationHandler};
use duroxide_runtime::registry::OrchestrationRegistry;
use semver::Version;

/// How often each turn is executed.
const RUNS: usize = 2;

/// Executes every turn of a history more than once, with other hash seeds, and compares what it decides with each other
/// and with the record. Key-values from earlier executions are not known here, so a history that reads them is checked
/// with [`replay`](crate::replay()) instead.
///
/// # Errors
///
/// The first turn that decides something else, in words.
pub fn check_determinism(
    history: &[Event],
    orchestrations: &OrchestrationRegistry,
) -> Result<(), String> {
    let Some((name, version)) = history.iter().find_map(Event::started_handler) else {
        return Err("the history has no start".to_owned());
    };
    let version = Version::parse(&version).map_err(|e| e.to_string())?;
    let handler = orchestrations
        .resolve_handler_exact(&name, &version)
        .ok_or_else(|| format!("{name}@{version} is not registered"))?;
    if history.iter().any(|e| e.execution_id > 1) {
        return Ok(());
    }
    for cut in turn_ends(history) {
        let runs: Vec<String> = (0..RUNS)
            .map(|_| decisions(&history[..cut], &handler))
            .collect::<Result<_, _>>()?;
        if let Some(other) = runs.iter().find(|run| **run != runs[0]) {
            return Err(format!(
                "after event {}, one run decides {} and another {other}",
                history[cut - 1].event_id,
                runs[0]
            ));
        }
    }
    Ok(())
}

/// Where turns ended: before each arrival that follows a decision, and at the end.
fn turn_ends(history: &[Event]) -> Vec<usize> {
    let terminal = history
        .iter()
        .position(Event::is_terminal)
        .unwrap_or(history.len());
    (1..=terminal)
        .filter(|cut| *cut == terminal || is_arrival(&history[*cut].kind))
        .collect()
}

fn is_arrival(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
            | EventKind::ExternalEvent { .. }
            | EventKind::QueueEventDelivered { .. }
            | EventKind::OrchestrationCancelRequested { .. }
    )
}

fn decisions(history: &[Event], handler: &Arc<dyn OrchestrationHandler>) -> Result<String, String> {
    let kv: HashMap<String, KvEntry> = HashMap::new();
    let mut execution =
        Execution::load(history, Arc::clone(handler), kv).map_err(|report| report.to_string())?;
    let now_ms = history.last().map_or(0, |event| event.timestamp_ms);
    execution.start_turn(now_ms, Vec::new());
    let kinds: Vec<EventKind> = match execution.advance(&TurnLimits::default(), false) {
        Progress::Done(turn) => turn.events.into_iter().map(|event| event.kind).collect(),
        Progress::NeedsHost(_) => Vec::new(),
    };
    Ok(format!("{kinds:?}"))
}
