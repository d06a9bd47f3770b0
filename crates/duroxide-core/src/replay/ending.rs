//! The end of a turn: what the code dropped is recorded, limits are checked, and an execution that is over leaves
//! nothing behind. Every way to end goes through here, so every way cancels, records and notifies alike.

use super::cause::FailedBy;
use super::execution::{DROPPED_FUTURE, Execution};
use super::limits::TurnLimits;
use super::turn_result::{ChildCancel, Outcome, Turn};
use crate::action::Action;
use crate::context::is_reserved_key;
use crate::durable::Call;
use crate::durable::{OnClose, Operation, OperationKind};
use crate::event::{ErrorDetails, Event, EventKind};

/// Closes the turn and hands over what it decided.
pub(super) fn finish(execution: &mut Execution, limits: &TurnLimits) -> Turn {
    let (mut outcome, mut failed_by) = execution.handler_outcome();
    let returned = !matches!(outcome, Outcome::ContinuedAsNew { .. }) && !execution.panicked();
    let aborted = execution.turn.abort.is_some();
    let violated = execution.enforce(limits, &mut outcome);
    if violated {
        failed_by = Some(FailedBy::Limit);
    }
    // Whichever came first ends it: a failure that the code cannot see, or the request to cancel. Code that winds down
    // ends it by returning.
    let ended_itself = !execution.is_undecided() && !execution.panicked() && !violated;
    let wound_down = execution.winds_down && ended_itself;
    let cancelled = !aborted && (execution.is_cancelled() || wound_down);
    if let Some(reason) = execution.cancel_reason.clone().filter(|_| cancelled) {
        outcome = Outcome::Failed {
            details: ErrorDetails::cancelled(reason),
        };
        failed_by = Some(FailedBy::Cancellation);
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
    execution.record_terminal(&outcome);
    let holds_queue_messages = execution.holds_queue_messages(&outcome);
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
        cancel_for_successor: state
            .cancel_for_successor
            .filter(|_| matches!(outcome, Outcome::ContinuedAsNew { .. })),
        outcome,
        failed_by,
        holds_queue_messages,
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
            Outcome::Failed { details } => (
                "orchestration_terminal_failed",
                child_reason(details, execution.terminated),
            ),
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
            if record.on_close == OnClose::Leave {
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
            // A child scheduled in the turn that ends the execution is never started, so no cancel is sent to it.
            OperationKind::Child { instance, .. } if !(self.over && record.is_new) => {
                self.children.push(ChildCancel {
                    instance: instance.clone(),
                    reason: record.on_close.reason(child_reason),
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
    on_close: OnClose,
    /// Scheduled in this turn.
    is_new: bool,
}

impl Execution {
    pub(super) fn panicked(&self) -> bool {
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
        let last = self.last_kept_event_id(self.last_event_id);
        // Replies and views are the engine's own: a client must not fail an instance with them.
        let own = |key: &&String| !is_reserved_key(key);
        let keys = self.shared.cell().kv.keys().filter(own).count();
        let violation = limits.violation(&self.turn.events, keys, last, outcome);
        let Some(text) = violation else {
            return false;
        };
        tracing::error!(target: "duroxide::runtime", instance_id = %self.instance_id(), "limit exceeded, failing orchestration: {text}");
        self.take_decisions_back();
        *outcome = Outcome::Failed {
            details: ErrorDetails::orchestration_failed(text),
        };
        true
    }

    /// Keeps of the delta only what came in from outside. The ids of the rest are free again.
    fn take_decisions_back(&mut self) {
        let base = self.turn.base_event_id;
        let answers_this_turn = |event: &Event| event.source_event_id.is_some_and(|id| id > base);
        self.turn
            .events
            .retain(|event| event.kind.is_arrival() && !answers_this_turn(event));
        for (id, event) in (base + 1..).zip(&mut self.turn.events) {
            event.event_id = id;
        }
        self.turn.actions.clear();
        self.turn.taken_back = true;
        self.last_event_id = self.last_kept_event_id(base);
    }

    /// The last event of the delta, or what came before it.
    fn last_kept_event_id(&self, before: u64) -> u64 {
        self.turn.events.last().map_or(before, |e| e.event_id)
    }

    /// Recorded operations that may be cancelled, in the order of their records.
    fn cancellable(&self, slots: Vec<usize>, wanted: impl Fn(&Operation) -> bool) -> Vec<Cancel> {
        let last_kept = if self.turn.taken_back {
            self.turn.base_event_id
        } else {
            self.last_kept_event_id(self.last_event_id)
        };
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
                    on_close: operation.on_close,
                    is_new: id > self.turn.base_event_id,
                })
            })
            .collect();
        records.sort_by_key(|record| (record.kind.cancel_rank(), record.id));
        records
    }

    fn keep_only_detached_starts(&mut self) {
        let cell = self.shared.cell();
        let is_left = |id: &u64| {
            cell.operations
                .by_event(*id)
                .is_some_and(|operation| operation.on_close == OnClose::Leave)
        };
        self.turn.actions.retain(|action| match action {
            Action::StartOrchestrationDetached { .. } => true,
            Action::StartSubOrchestration {
                scheduling_event_id,
                ..
            } => is_left(scheduling_event_id),
            _ => false,
        });
    }

    /// Whether further queue messages are of no use before the next turn.
    fn holds_queue_messages(&self, outcome: &Outcome) -> bool {
        let cell = self.shared.cell();
        let operations = &cell.operations;
        match outcome {
            Outcome::Waiting => operations.has_many_unread() && !operations.wants_queue_messages(),
            // The next execution begins with those that are unread.
            Outcome::ContinuedAsNew { .. } => operations.has_many_unread(),
            Outcome::Completed { .. } | Outcome::Failed { .. } => false,
        }
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

/// The reason that a child receives when its parent ends without a value. The children of a terminated parent are
/// terminated too.
pub(super) fn child_reason(details: &ErrorDetails, terminated: bool) -> &'static str {
    match details {
        _ if terminated => PARENT_TERMINATED,
        details if details.is_cancelled() => "parent canceled",
        _ => "parent failed",
    }
}

/// The reason that terminates a child.
const PARENT_TERMINATED: &str = "duroxide:terminate:parent terminated";
