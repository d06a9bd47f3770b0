//! Where an instance stands, from its rows; at most one event is read.

use duroxide_core::event::{ErrorDetails, EventKind};
use duroxide_core::provider::{ExecutionStatus, InstanceOutcome, OutcomeStatus};

use crate::codec;
use crate::error::Result;
use crate::ops::read_history;
use crate::tables::history;
use crate::tables::instances::{self, InstanceStanding};
use crate::tx::Tx;

pub(crate) fn run(tx: &Tx<'_>, instance: &str) -> Result<Option<InstanceOutcome>> {
    let Some(standing) = instances::standing(tx, instance)? else {
        // Commits that never named a handler leave a history without a row.
        let rows = read_history::latest(tx, instance)?;
        let events = codec::decode_events(instance, &rows)?;
        return Ok(InstanceOutcome::of_history(&events));
    };
    Ok(Some(InstanceOutcome {
        execution_id: standing.execution_id,
        status: status(tx, instance, &standing)?,
        custom_status: standing.custom_status,
        custom_status_version: standing.custom_status_version,
    }))
}

fn status(tx: &Tx<'_>, instance: &str, standing: &InstanceStanding) -> Result<OutcomeStatus> {
    let text = standing.output.clone().unwrap_or_default();
    Ok(
        match standing.status.as_deref().and_then(ExecutionStatus::parse) {
            Some(ExecutionStatus::Completed) => OutcomeStatus::Completed { output: text },
            Some(ExecutionStatus::Failed) => OutcomeStatus::Failed {
                details: failure(tx, instance, standing.execution_id)?
                    .unwrap_or_else(|| ErrorDetails::orchestration_failed(text)),
            },
            _ => OutcomeStatus::Running,
        },
    )
}

/// The row only has the failure's text; its details are in the event that ended the execution.
fn failure(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<Option<ErrorDetails>> {
    let row = history::last_of_type(tx, instance, execution_id, "OrchestrationFailed")?;
    let Some(row) = row else {
        return Ok(None);
    };
    Ok(match codec::decode_event(instance, &row)?.kind {
        EventKind::OrchestrationFailed { details } => Some(details),
        _ => None,
    })
}
