//! How a history ends, against how the code would end it.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::provider::KvEntry;
use duroxide_core::replay::{Divergence, Execution, Progress, Turn, TurnLimits};
use duroxide_core::{AppErrorKind, ErrorDetails, Event, EventKind, OrchestrationHandler};

/// Where the recorded end is, or would be.
pub(crate) fn end_of(history: &[Event]) -> usize {
    let end = history.iter().position(Event::is_terminal);
    end.unwrap_or(history.len())
}

/// The turn that the code takes when nothing new arrives. `None` if it asks something of the runtime.
pub(crate) fn next_turn(
    history: &[Event],
    handler: &Arc<dyn OrchestrationHandler>,
    kv: &HashMap<String, KvEntry>,
) -> Result<Option<Box<Turn>>, Divergence> {
    let mut execution = Execution::load(history, Arc::clone(handler), kv.clone())?;
    let now_ms = history.last().map_or(0, |event| event.timestamp_ms);
    execution.start_turn(now_ms, Vec::new());
    Ok(match execution.advance(&TurnLimits::default(), false) {
        Progress::Done(turn) => Some(turn),
        Progress::NeedsHost(_) => None,
    })
}

/// The recorded end and what the code does instead, if the code is what ended it.
pub(crate) fn other_end(history: &[Event], decided: &[EventKind]) -> Option<(String, String)> {
    let recorded = &history.get(end_of(history))?.kind;
    let by_code = match recorded {
        EventKind::OrchestrationCompleted { .. }
        | EventKind::OrchestrationContinuedAsNew { .. } => true,
        // A limit of the runtime fails an orchestration in the same words; code that breaks one goes on here.
        EventKind::OrchestrationFailed { details } => {
            let by_error = matches!(
                details,
                ErrorDetails::Application {
                    kind: AppErrorKind::OrchestrationFailed,
                    ..
                }
            );
            by_error && decided.last().is_some_and(is_end)
        }
        _ => false,
    };
    let same = decided.last() == Some(recorded) && decided.len() == 1;
    (by_code && !same).then(|| (format!("{recorded:?}"), format!("{decided:?}")))
}

fn is_end(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. }
    )
}
