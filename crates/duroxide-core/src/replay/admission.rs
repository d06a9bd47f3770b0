//! Which claimed messages become events. In: work items of one batch, in order. Out: arrivals in the turn's delta, and
//! a note for each message that has no effect.

use super::execution::Execution;
use super::notes::{Stray, Unused};
use super::turn_state::Incoming;
use crate::defect::Defect;
use crate::durable::OperationKind;
use crate::event::{ErrorDetails, EventKind};
use crate::ids::INITIAL_EVENT_ID;
use crate::message::{is_engine_queue, message_parts};
use crate::rewind::RewindMessage;
use crate::rewound::REWIND_QUEUE;
use crate::work_item::{TERMINATE_PREFIX, WorkItem, sent_by_parent, termination_reason};

/// What kind of operation a completion claims to answer, in the words of the reports.
struct Answered {
    noun: &'static str,
    missing: &'static str,
}

const ACTIVITY: Answered = Answered {
    noun: "activity",
    missing: "completion",
};
const TIMER: Answered = Answered {
    noun: "timer",
    missing: "timer",
};
const CHILD: Answered = Answered {
    noun: "suborchestration",
    missing: "sub-orchestration",
};

impl Execution {
    /// Takes one message in, drops it, or notes that it fits no schedule. The first such note ends the execution,
    /// unless what came before it did.
    pub(super) fn admit(&mut self, message: WorkItem) {
        let schedule = message.answers();
        let mut complete = |answered: Answered, kind: EventKind| {
            if let Some((execution_id, id)) = schedule {
                self.admit_completion(execution_id, id, &answered, kind);
            }
        };
        match message {
            WorkItem::ActivityCompleted { result, .. } => {
                complete(ACTIVITY, EventKind::ActivityCompleted { result });
            }
            WorkItem::ActivityFailed { details, .. } => {
                complete(ACTIVITY, EventKind::ActivityFailed { details });
            }
            WorkItem::TimerFired {
                execution_id,
                id: INITIAL_EVENT_ID,
                fire_at_ms,
                ..
            } => self.admit_deadline(execution_id, fire_at_ms),
            WorkItem::TimerFired { fire_at_ms, .. } => {
                complete(TIMER, EventKind::TimerFired { fire_at_ms });
            }
            WorkItem::SubOrchCompleted { result, .. } => {
                complete(CHILD, EventKind::SubOrchestrationCompleted { result });
            }
            WorkItem::SubOrchFailed { details, .. } => {
                complete(CHILD, EventKind::SubOrchestrationFailed { details });
            }
            WorkItem::ExternalRaised { name, data, .. } => {
                self.expect(EventKind::ExternalEvent { name, data }, None);
            }
            WorkItem::QueueMessage { name, data, .. } if name == REWIND_QUEUE => {
                self.ask_again(name, data);
            }
            WorkItem::QueueMessage { name, data, .. } => self.admit_queue_message(name, data),
            WorkItem::CancelInstance { reason, .. } => self.admit_cancel(reason),
            // Starts are the dispatcher's business; activities never travel on this queue.
            WorkItem::StartOrchestration { .. }
            | WorkItem::ContinueAsNew { .. }
            | WorkItem::ActivityExecute { .. } => {}
        }
    }

    /// The first turn of a rewound execution asks for what has no answer. The message is recorded, so that a replay
    /// knows which failures are older than the rewind, and is consumed with that turn, so that nothing is asked for
    /// twice.
    fn ask_again(&mut self, name: String, data: String) {
        let message = RewindMessage::read(&data);
        let is_due = self.rewound.is_some() && !self.asked_again;
        if message != Some(RewindMessage::AskAgain) || !is_due {
            // A rewind that another one forestalled.
            self.turn.notes.unused.push(Unused::Repeated);
            return;
        }
        let again = std::mem::take(&mut self.again);
        let cell = self.shared.cell();
        let is_open = |id: &u64| {
            let operation = cell.operations.by_event(*id);
            operation.is_some_and(|operation| operation.call.awaits_answer())
                && !self.turn.answered.contains(id)
        };
        let open = again.into_iter().filter(|(id, _)| is_open(id));
        let actions: Vec<_> = open.map(|(_, action)| action).collect();
        drop(cell);
        self.turn.actions.extend(actions);
        self.asked_again = true;
        self.expect(EventKind::QueueEventDelivered { name, data }, None);
    }

    /// Whether an answer to an execution that this one shares events with counts: a success always, a failure only if
    /// it came after the rewind. What failed before the rewind was asked for anew. Activities of that execution were
    /// cancelled, so only children fail after it.
    fn shares_answer(&self, execution_id: u64, id: u64, kind: &EventKind) -> bool {
        let Some(rewound) = &self.rewound else {
            return false;
        };
        let counts = match kind {
            EventKind::ActivityFailed { .. } => false,
            EventKind::SubOrchestrationFailed { .. } => {
                self.asked_again || rewound.running.contains(&id)
            }
            _ => true,
        };
        counts && rewound.shares(execution_id, id)
    }

    /// The timer of the start itself says that the time of the instance is up. What says so at another time is of
    /// another life of the id.
    fn admit_deadline(&mut self, execution_id: u64, fire_at_ms: u64) {
        let deadline_ms = self.shared.cell().extras.deadline_ms;
        let is_ours = execution_id == self.execution_id() && deadline_ms == Some(fire_at_ms);
        if is_ours && self.turn.answered.insert(INITIAL_EVENT_ID) {
            self.expect(EventKind::TimerFired { fire_at_ms }, Some(INITIAL_EVENT_ID));
        } else {
            let why = "ignoring a deadline that this execution does not have";
            self.note_ignored(INITIAL_EVENT_ID, Unused::AnotherExecution, why);
        }
    }

    /// A message whose key was seen is a repeated one, also across executions. The engine's own queues take nothing
    /// from outside.
    fn admit_queue_message(&mut self, name: String, data: String) {
        let is_repeated = message_parts(&data).0.is_some_and(|key| {
            let in_batch = |incoming: &Incoming| match incoming {
                Incoming::Event {
                    kind: EventKind::QueueEventDelivered { name: other, data },
                    ..
                } => *other == name && message_parts(data).0 == Some(key),
                _ => false,
            };
            self.shared.cell().operations.has_seen(&name, key)
                || self.turn.incoming.iter().any(in_batch)
        });
        if is_repeated || is_engine_queue(&name) {
            self.turn.notes.unused.push(Unused::Repeated);
        } else {
            self.expect(EventKind::QueueEventDelivered { name, data }, None);
        }
    }

    /// A request to cancel counts once, also while the code winds down; a request to terminate counts after it, once.
    fn admit_cancel(&mut self, mut reason: String) {
        if let Some((sender, _)) = sent_by_parent(&reason) {
            tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %self.instance_id(),
                "ignoring a request to cancel from {sender}, which is not the parent"
            );
            self.turn.notes.unused.push(Unused::NotTheParent);
            return;
        }
        if Defect::SecondCancelKills.is_on() && self.cancel_reason.is_some() {
            reason = defective_termination(reason);
        }
        let terminates = termination_reason(&reason).is_some();
        let counts = |kind: &EventKind| match kind {
            EventKind::OrchestrationCancelRequested { reason } => {
                !terminates || termination_reason(reason).is_some()
            }
            _ => false,
        };
        let in_batch = self.turn.incoming.iter().any(|incoming| match incoming {
            Incoming::Event { kind, .. } => counts(kind),
            Incoming::Stray(_) => false,
        });
        if in_batch || self.terminated || self.cancel_reason.is_some() && !terminates {
            self.turn.notes.unused.push(Unused::CancelledAlready);
        } else {
            self.expect(EventKind::OrchestrationCancelRequested { reason }, None);
        }
    }

    fn expect(&mut self, kind: EventKind, source_event_id: Option<u64>) {
        self.turn.incoming.push_back(Incoming::Event {
            kind,
            source_event_id,
        });
    }

    fn admit_completion(
        &mut self,
        execution_id: u64,
        id: u64,
        answered: &Answered,
        kind: EventKind,
    ) {
        let Answered { noun, missing } = answered;
        let is_own = execution_id == self.execution_id();
        if !is_own && !self.shares_answer(execution_id, id, &kind) {
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
            None if self.passed_over.contains(&id) => self.note_ignored(
                id,
                Unused::Duplicate,
                "ignoring the answer to a patch that is no longer in the code",
            ),
            None if self.begins() => self.note_ignored(
                id,
                Unused::NeverScheduled,
                "ignoring a completion that came together with the start: nothing is scheduled yet",
            ),
            None => self.reject(
                id,
                kind,
                format!("no matching schedule for {missing} id={id}"),
            ),
            Some((expected, _)) if expected != *noun => self.reject(
                id,
                kind,
                format!(
                    "completion kind mismatch for id={id}, expected '{expected}', got '{noun}'"
                ),
            ),
            Some((_, awaits)) => {
                let mut is_new = awaits && self.turn.answered.insert(id);
                is_new |= Defect::DuplicateAccepted.is_on();
                if is_new {
                    self.expect(kind, Some(id));
                } else {
                    self.note_ignored(id, Unused::Duplicate, "ignoring duplicate completion");
                }
            }
        }
    }

    /// A completion that fits no schedule: sent by hand, by another life of the id, or by a store that lost history.
    fn reject(&mut self, id: u64, kind: EventKind, why: String) {
        if self.ignores_strays {
            self.note_ignored(id, Unused::Stray, &why);
            self.turn.notes.strays.push(Stray { id, kind, why });
        } else {
            let details = ErrorDetails::nondeterminism(why);
            self.turn.incoming.push_back(Incoming::Stray(details));
        }
    }

    /// Whether this is the first turn of the execution. A schedule and the work it asks for are committed together, so
    /// no completion that comes with the start can be of this execution.
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

fn defective_termination(reason: String) -> String {
    if termination_reason(&reason).is_some() {
        return reason;
    }
    format!("{TERMINATE_PREFIX}{reason}")
}
