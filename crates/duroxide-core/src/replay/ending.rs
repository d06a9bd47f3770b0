//! The end of a turn: what the code dropped is recorded, limits are checked, and an execution that is over leaves
//! nothing behind. Every way to end goes through here, so every way cancels, records and notifies alike.

use super::execution::{DROPPED_FUTURE, Execution};
use super::limits::TurnLimits;
use super::machines::Call;
use super::notes::Unused;
use super::operations::{Operation, OperationKind};
use super::turn::{ChildCancel, Outcome, Turn};
use crate::action::Action;
use crate::event::{ErrorDetails, EventKind};
use crate::limits::MAX_CARRY_FORWARD_EVENTS;

/// Closes the turn and hands over what it decided.
pub(super) fn finish(execution: &mut Execution, limits: &TurnLimits) -> Turn {
    let mut outcome = execution.handler_outcome();
    let returned = !matches!(outcome, Outcome::ContinuedAsNew { .. }) && !execution.panicked();
    let aborted = execution.turn.abort.is_some();
    let violated = execution.enforce(limits, &mut outcome);
    // Whichever came first ends it: a failure that the code cannot see, or the request to cancel. Code that winds down
    // ends it by returning.
    let ended_itself = !execution.is_undecided() && !execution.panicked() && !violated;
    let wound_down = execution.winds_down && ended_itself;
    let cancelled = !aborted && (execution.is_cancelled() || wound_down);
    if let Some(reason) = execution.cancel_reason.clone().filter(|_| cancelled) {
        outcome = Outcome::Failed {
            details: ErrorDetails::cancelled(reason),
        };
    }
    let mut ending = Ending {
        over: outcome != Outcome::Waiting,
        ..Ending::default()
    };
    // What the code dropped is its decision, unless the end was decided over its head.
    let by_code = returned && !aborted && !violated && !execution.is_cancelled();
    if by_code {
        ending.record_drops(execution);
    }
    if ending.over {
        ending.clean_up(execution, &outcome, by_code && !cancelled);
        execution.keep_only_detached_starts();
    }
    keep_oldest_letters(execution, &mut outcome);
    execution.record_terminal(&outcome);
    let state = std::mem::take(&mut execution.turn);
    execution.last_event_id = state
        .events
        .last()
        .map_or(execution.last_event_id, |e| e.event_id);
    Turn {
        events: state.events,
        actions: state.actions,
        cancelled_activities: ending.activities,
        cancelled_children: ending.children,
        unanswered: if ending.over {
            Vec::new()
        } else {
            state.host_calls
        },
        outcome,
        notes: state.notes,
    }
}

/// What the end of a turn cancels.
#[derive(Debug, Default)]
struct Ending {
    over: bool,
    activities: Vec<u64>,
    children: Vec<ChildCancel>,
}

impl Ending {
    /// Records what the code dropped in this turn.
    fn record_drops(&mut self, execution: &mut Execution) {
        let dropped = execution.shared.cell().operations.take_dropped();
        // An answer that came before the drop leaves nothing to cancel.
        let records = execution.cancellable(dropped, |operation| {
            matches!(
                operation.call,
                Call::Dropped {
                    answered: false,
                    ..
                }
            )
        });
        for record in records {
            self.cancel(
                execution,
                &record,
                DROPPED_FUTURE,
                "parent dropped sub-orchestration future",
            );
        }
    }

    /// Records and cancels everything that is still open when an execution ends.
    fn clean_up(&mut self, execution: &mut Execution, outcome: &Outcome, by_code: bool) {
        let (activity_reason, child_reason) = match outcome {
            Outcome::Waiting => return,
            Outcome::Completed { .. } => ("orchestration_terminal_completed", "parent completed"),
            Outcome::ContinuedAsNew { .. } => (
                "orchestration_terminal_continued_as_new",
                "parent continued as new",
            ),
            Outcome::Failed { details } if details.is_cancelled() => {
                ("orchestration_terminal_failed", "parent canceled")
            }
            Outcome::Failed { .. } => ("orchestration_terminal_failed", "parent failed"),
        };
        let all = execution
            .shared
            .cell()
            .operations
            .iter()
            .map(|(slot, _)| slot)
            .collect();
        let open = execution.cancellable(all, |operation| operation.call.awaits_answer());
        // Waits come first, as the published histories have them.
        let is_wait = |r: &Cancel| {
            matches!(
                r.kind,
                OperationKind::Wait { .. } | OperationKind::Dequeue { .. }
            )
        };
        let (waits, work): (Vec<_>, Vec<_>) = open.into_iter().partition(is_wait);
        for record in waits {
            self.cancel(execution, &record, "orchestration_terminal", "");
        }
        for record in work {
            // Code that returned dropped every child it still held; one that is left was deliberately forgotten.
            if by_code && matches!(record.kind, OperationKind::Child { .. }) {
                continue;
            }
            self.cancel(execution, &record, activity_reason, child_reason);
        }
    }

    fn cancel(
        &mut self,
        execution: &mut Execution,
        record: &Cancel,
        reason: &str,
        child_reason: &str,
    ) {
        let Some(event) = record.kind.cancel_event(reason) else {
            return;
        };
        execution.arrive(event, Some(record.id));
        execution
            .shared
            .cell()
            .operations
            .mark_cancel_recorded(record.id);
        match &record.kind {
            OperationKind::Activity => self.activities.push(record.id),
            // A child scheduled in the turn that ends the execution is never started, so there is nobody to tell.
            OperationKind::Child { instance, .. } if !(self.over && record.is_new) => {
                self.children.push(ChildCancel {
                    instance: instance.clone(),
                    reason: child_reason.to_owned(),
                });
            }
            OperationKind::Child { .. }
            | OperationKind::Timer
            | OperationKind::Wait { .. }
            | OperationKind::Dequeue { .. }
            | OperationKind::Cancellation => {}
        }
    }
}

/// An operation to cancel.
#[derive(Debug)]
struct Cancel {
    id: u64,
    kind: OperationKind,
    /// Scheduled in this turn.
    is_new: bool,
}

impl Execution {
    fn panicked(&self) -> bool {
        matches!(
            self.handler,
            super::handler_future::HandlerFuture::Panicked(_)
        ) || self.shared.cell().misuse.is_some()
    }

    /// Checks the limits; a violation replaces the outcome and takes the turn's decisions back.
    fn enforce(&mut self, limits: &TurnLimits, outcome: &mut Outcome) -> bool {
        if self.turn.abort.is_some() {
            return false;
        }
        let decided = self.turn.arrivals.min(self.turn.events.len());
        let last = self.last_kept_event_id(self.last_event_id);
        let keys = self.shared.cell().kv.len();
        let violation = limits.violation(&self.turn.events[decided..], keys, last, outcome);
        let Some(text) = violation else {
            return false;
        };
        tracing::error!(target: "duroxide::runtime", instance_id = %self.instance_id(), "limit exceeded, failing orchestration: {text}");
        self.turn.events.truncate(decided);
        self.turn.actions.clear();
        // The ids of what was taken back are free again.
        self.last_event_id = self.last_kept_event_id(self.turn.base_event_id);
        *outcome = Outcome::Failed {
            details: ErrorDetails::orchestration_failed(text),
        };
        true
    }

    /// The last event of the delta, or what came before it.
    fn last_kept_event_id(&self, before: u64) -> u64 {
        self.turn.events.last().map_or(before, |e| e.event_id)
    }

    /// Recorded operations that may be cancelled, in the order of their records.
    fn cancellable(&self, slots: Vec<usize>, wanted: impl Fn(&Operation) -> bool) -> Vec<Cancel> {
        let last_kept = self.last_kept_event_id(self.last_event_id);
        let cell = self.shared.cell();
        let mut records: Vec<Cancel> = slots
            .into_iter()
            .map(|slot| cell.operations.get(slot))
            .filter(|operation| !operation.cancel_recorded && wanted(operation))
            .filter_map(|operation| {
                let id = operation.event_id()?;
                (id <= last_kept).then(|| Cancel {
                    id,
                    kind: operation.kind.clone(),
                    is_new: id > self.turn.base_event_id,
                })
            })
            .collect();
        records.sort_by_key(|record| (record.kind.cancel_rank(), record.id));
        records
    }

    fn keep_only_detached_starts(&mut self) {
        self.turn
            .actions
            .retain(|action| matches!(action, Action::StartOrchestrationDetached { .. }));
    }

    fn record_terminal(&mut self, outcome: &Outcome) {
        let kind = match outcome {
            Outcome::Waiting => return,
            Outcome::Completed { output } => EventKind::OrchestrationCompleted {
                output: output.clone(),
            },
            Outcome::Failed { details } => EventKind::OrchestrationFailed {
                details: details.clone(),
            },
            Outcome::ContinuedAsNew { input, .. } => EventKind::OrchestrationContinuedAsNew {
                input: input.clone(),
            },
        };
        self.arrive(kind, None);
        self.ended = true;
        self.shared.cell().closed = true;
    }
}

/// Only so many unread messages cross into the next execution; the newest beyond that are dropped, aloud.
fn keep_oldest_letters(execution: &mut Execution, outcome: &mut Outcome) {
    let Outcome::ContinuedAsNew { carried, .. } = outcome else {
        return;
    };
    for (queue, data) in carried.iter().skip(MAX_CARRY_FORWARD_EVENTS) {
        execution.turn.notes.unused.push(Unused::BeyondCarryLimit);
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %execution.instance_id(),
            execution_id = execution.execution_id(),
            queue = %queue,
            bytes = data.len(),
            "dropping a queue message at continue-as-new: more than {MAX_CARRY_FORWARD_EVENTS} unread"
        );
    }
    carried.truncate(MAX_CARRY_FORWARD_EVENTS);
}
