//! Which claimed messages become events. In: work items of one batch, in order. Out: arrivals in the turn's delta, and a
//! note for each message that has no effect.

use super::execution::Execution;
use super::notes::Unused;
use super::operations::OperationKind;
use crate::event::{ErrorDetails, EventKind};
use crate::work_item::WorkItem;

/// A completion as it arrives: for which execution and schedule, and what it says.
struct Completion {
    execution_id: u64,
    id: u64,
    noun: &'static str,
    missing: &'static str,
    kind: EventKind,
}

impl Execution {
    /// Turns one message into an event, drops it, or notes that it fits no schedule. The first such note wins, and it
    /// ends the execution only if what came before it did not.
    pub(super) fn admit(&mut self, message: WorkItem) {
        match message {
            WorkItem::ActivityCompleted {
                execution_id,
                id,
                result,
                ..
            } => self.admit_completion(Completion {
                execution_id,
                id,
                noun: "activity",
                missing: "completion",
                kind: EventKind::ActivityCompleted { result },
            }),
            WorkItem::ActivityFailed {
                execution_id,
                id,
                details,
                ..
            } => self.admit_completion(Completion {
                execution_id,
                id,
                noun: "activity",
                missing: "completion",
                kind: EventKind::ActivityFailed { details },
            }),
            WorkItem::TimerFired {
                execution_id,
                id,
                fire_at_ms,
                ..
            } => self.admit_completion(Completion {
                execution_id,
                id,
                noun: "timer",
                missing: "timer",
                kind: EventKind::TimerFired { fire_at_ms },
            }),
            WorkItem::SubOrchCompleted {
                parent_execution_id,
                parent_id,
                result,
                ..
            } => self.admit_completion(Completion {
                execution_id: parent_execution_id,
                id: parent_id,
                noun: "suborchestration",
                missing: "sub-orchestration",
                kind: EventKind::SubOrchestrationCompleted { result },
            }),
            WorkItem::SubOrchFailed {
                parent_execution_id,
                parent_id,
                details,
                ..
            } => self.admit_completion(Completion {
                execution_id: parent_execution_id,
                id: parent_id,
                noun: "suborchestration",
                missing: "sub-orchestration",
                kind: EventKind::SubOrchestrationFailed { details },
            }),
            WorkItem::ExternalRaised { name, data, .. } => {
                self.arrive(EventKind::ExternalEvent { name, data }, None);
            }
            WorkItem::QueueMessage { name, data, .. } => {
                self.arrive(EventKind::QueueEventDelivered { name, data }, None);
            }
            WorkItem::CancelInstance { reason, .. } => {
                // The reason is kept when the event is applied; a second request in one batch is seen here already.
                // A later one counts only while the code winds down: it ends the execution at once.
                let requested = self.turn.events.iter().any(|event| {
                    matches!(event.kind, EventKind::OrchestrationCancelRequested { .. })
                });
                if self.is_cancelled() || requested {
                    self.turn.notes.unused.push(Unused::CancelledAlready);
                } else {
                    self.arrive(EventKind::OrchestrationCancelRequested { reason }, None);
                }
            }
            // Starts are the dispatcher's business; activities never travel on this queue.
            WorkItem::StartOrchestration { .. }
            | WorkItem::ContinueAsNew { .. }
            | WorkItem::ActivityExecute { .. } => {}
        }
    }

    fn admit_completion(&mut self, completion: Completion) {
        let Completion {
            execution_id,
            id,
            noun,
            missing,
            kind,
        } = completion;
        if execution_id != self.execution_id() {
            self.note_ignored(
                id,
                Unused::AnotherExecution,
                "completion of another execution",
            );
            return;
        }
        let schedule = {
            let cell = self.shared.cell();
            cell.operations
                .by_event(id)
                .map(|operation| (operation.kind.noun(), operation.call.awaits_answer()))
        };
        match schedule {
            None if self.begins() => self.note_ignored(
                id,
                Unused::NeverScheduled,
                "ignoring a completion that came together with the start: nothing is scheduled yet",
            ),
            None => self.reject(ErrorDetails::nondeterminism(format!(
                "no matching schedule for {missing} id={id}"
            ))),
            Some((expected, _)) if expected != noun => {
                self.reject(ErrorDetails::nondeterminism(format!(
                    "completion kind mismatch for id={id}, expected '{expected}', got '{noun}'"
                )));
            }
            Some((_, awaits)) => {
                if awaits && self.turn.answered.insert(id) {
                    self.arrive(kind, Some(id));
                } else {
                    self.note_ignored(id, Unused::Duplicate, "ignoring duplicate completion");
                }
            }
        }
    }

    fn reject(&mut self, details: ErrorDetails) {
        let place = self.turn.events.len();
        self.turn.rejected.get_or_insert((place, details));
    }

    /// Whether this is the first turn of the execution. A schedule and the work it asks for are committed together, so no
    /// completion that comes with the start can be of this execution.
    fn begins(&self) -> bool {
        let first = self.turn.events.first().map(|event| &event.kind);
        matches!(first, Some(EventKind::OrchestrationStarted { .. }))
    }

    fn note_ignored(&mut self, id: u64, unused: Unused, why: &str) {
        self.turn.notes.unused.push(unused);
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %self.instance_id(),
            execution_id = self.execution_id(),
            source_event_id = id,
            "{why}"
        );
    }
}

impl OperationKind {
    /// Whether dropping the future cancels something that was recorded.
    pub(super) fn cancel_event(&self, reason: &str) -> Option<EventKind> {
        let reason = reason.to_owned();
        match self {
            Self::Activity => Some(EventKind::ActivityCancelRequested { reason }),
            Self::Child { .. } => Some(EventKind::SubOrchestrationCancelRequested { reason }),
            Self::Wait { .. } => Some(EventKind::ExternalSubscribedCancelled { reason }),
            Self::Dequeue { .. } => Some(EventKind::QueueSubscriptionCancelled { reason }),
            Self::Timer | Self::Cancellation => None,
        }
    }

    /// The order of cancel records within one turn.
    pub(super) fn cancel_rank(&self) -> u8 {
        match self {
            Self::Activity => 0,
            Self::Child { .. } => 1,
            Self::Wait { .. } => 2,
            Self::Dequeue { .. } => 3,
            Self::Timer => 4,
            Self::Cancellation => 5,
        }
    }
}
