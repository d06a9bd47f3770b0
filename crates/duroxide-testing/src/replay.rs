//! Recorded histories against today's code, for an application's CI.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::provider::{KvEntry, fold_key_values};
use duroxide_core::replay::{Divergence, Execution};
use duroxide_core::{Event, OrchestrationHandler};
use serde::Deserialize;

/// Why a history does not replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// The text is no history.
    Unreadable(String),
    /// Code and history do not fit together: what is recorded against what the code attempted.
    Diverged(Divergence),
}

impl ReplayError {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "D0701",
            Self::Diverged(_) => "D0702",
        }
    }
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "not a recorded history: {why}"),
            Self::Diverged(report) => write!(f, "the code does not fit the history: {report}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// A history that replays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Executions that were replayed.
    pub executions: usize,
    /// Events that were replayed.
    pub events: usize,
}

/// Either a list of events, or an export with executions.
#[derive(Deserialize)]
#[serde(untagged)]
enum Export {
    Events(Vec<Event>),
    Executions { executions: Vec<Recorded> },
}

#[derive(Deserialize)]
struct Recorded {
    /// A line of `duroxide export` calls them its history.
    #[serde(alias = "history")]
    events: Vec<Event>,
}

/// Replays a recorded history, as JSON: a list of events, or an object with `executions`, each with `events` or, as in a
/// line of `duroxide export`, with a `history`. The handler must be the one of the recorded version.
///
/// # Errors
///
/// When the text is no history, or when the code decides something else than what is recorded.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write `Arc::new(handler)` in place"
)]
pub fn replay(
    history_json: &str,
    handler: Arc<dyn OrchestrationHandler>,
) -> Result<Replayed, ReplayError> {
    let export: Export =
        serde_json::from_str(history_json).map_err(|e| ReplayError::Unreadable(e.to_string()))?;
    let executions: Vec<Vec<Event>> = match export {
        Export::Events(events) => vec![events],
        Export::Executions { executions } => executions.into_iter().map(|e| e.events).collect(),
    };
    let mut replayed = Replayed {
        executions: 0,
        events: 0,
    };
    let mut kv = HashMap::new();
    for history in &executions {
        replay_events(history, &handler, &kv)?;
        replayed.executions += 1;
        replayed.events += history.len();
        fold_key_values(&mut kv, history);
    }
    Ok(replayed)
}

/// Replays one execution; `kv` are the key-values at its beginning.
///
/// # Errors
///
/// When the code decides something else than what is recorded.
pub fn replay_events(
    history: &[Event],
    handler: &Arc<dyn OrchestrationHandler>,
    kv: &HashMap<String, KvEntry>,
) -> Result<(), ReplayError> {
    Execution::load(history, Arc::clone(handler), kv.clone())
        .map(|_| ())
        .map_err(ReplayError::Diverged)
}
