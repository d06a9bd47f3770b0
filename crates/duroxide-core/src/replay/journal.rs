//! The next event against what the code asked for. In: recorded and new events, one at a time. Out: answered
//! operations, or the report that code and history do not fit together.

use super::cause::FailedBy;
use super::divergence::{Divergence, mismatch_headline, missing_headline};
use super::execution::{DROPPED_FUTURE, Execution, Origin};
use super::notes::{ChildEnded, Unused};
use crate::defect::Defect;
use crate::durable::OperationKind;
use crate::durable::{Call, Resolution, SYSCALL_PATCHED};
use crate::durable::{Command, CommandKind};
use crate::event::{ErrorDetails, Event, EventKind};
use crate::ids::INITIAL_EVENT_ID;
use crate::rewound::{REWIND_QUEUE, Rewound};
use crate::work_item::termination_reason;

impl Execution {
    /// Applies one event to the operations of the code.
    pub(super) fn apply(&mut self, event: &Event, origin: Origin) -> Result<(), Divergence> {
        match &event.kind {
            EventKind::OrchestrationStarted { .. } => {
                return Err(
                    Divergence::new("corrupted history: a second OrchestrationStarted").at(event),
                );
            }
            EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. } => self.ended = true,
            EventKind::OrchestrationCancelRequested { reason } => {
                self.request_cancellation(reason, origin);
            }
            EventKind::ActivityScheduled { .. }
            | EventKind::TimerCreated { .. }
            | EventKind::ExternalSubscribed { .. }
            | EventKind::SubOrchestrationScheduled { .. }
            | EventKind::OrchestrationChained { .. }
            | EventKind::CustomStatusUpdated { .. }
            | EventKind::KeyValueSet { .. }
            | EventKind::KeyValueCleared { .. }
            | EventKind::KeyValuesCleared => self.match_decision(event)?,
            EventKind::QueueSubscribed { .. } => {
                self.match_decision(event)?;
                self.due = Some(origin);
            }
            EventKind::ActivityCompleted { result } => {
                let mut result = result.clone();
                if Defect::FreshInReplay.is_on() && origin != Origin::New {
                    result = defective_fresh(result);
                }
                let with = Resolution::Outcome(Ok(result));
                self.answer(event, &OperationKind::Activity, with, origin)?;
            }
            EventKind::ActivityFailed { details } => {
                self.abort_on_system_failure(event, details);
                let with = Resolution::Outcome(Err(Box::new(details.clone())));
                self.answer(event, &OperationKind::Activity, with, origin)?;
            }
            EventKind::TimerFired { .. } if event.source_event_id == Some(INITIAL_EVENT_ID) => {
                self.time_is_up();
            }
            EventKind::TimerFired { .. } => {
                self.answer(event, &OperationKind::Timer, Resolution::Fired, origin)?;
            }
            EventKind::SubOrchestrationCompleted { result } => {
                let with = Resolution::Outcome(Ok(result.clone()));
                self.answer(event, &child(), with, origin)?;
                self.note_child(event, None, origin);
            }
            EventKind::SubOrchestrationFailed { details } => {
                self.abort_on_system_failure(event, details);
                let with = Resolution::Outcome(Err(Box::new(details.clone())));
                self.answer(event, &child(), with, origin)?;
                self.note_child(event, Some(details), origin);
            }
            EventKind::ExternalEvent { name, data } => {
                if event.source_event_id.is_some() {
                    self.earlier_signals.take(name);
                }
                if self.shared.cell().operations.signal(name, data) {
                    self.due = Some(origin);
                } else {
                    self.note_lost_signal(name, origin);
                }
            }
            EventKind::QueueEventDelivered { name, .. } if name == REWIND_QUEUE => {
                // One that the kept part of the record has is of an earlier rewind.
                let shared = self.rewound.as_ref().and_then(|it| it.shares.first());
                self.asked_again |= shared.is_some_and(|(_, last)| event.event_id > *last);
            }
            EventKind::QueueEventDelivered { name, data } => {
                self.shared.cell().operations.deliver(name, data);
                self.due = Some(origin);
            }
            EventKind::ActivityCancelRequested { reason }
            | EventKind::SubOrchestrationCancelRequested { reason }
            | EventKind::ExternalSubscribedCancelled { reason }
            | EventKind::QueueSubscriptionCancelled { reason } => {
                if reason == DROPPED_FUTURE {
                    self.match_drop(event)?;
                }
                let source = event.source_event_id.unwrap_or_default();
                self.shared.cell().operations.mark_cancel_recorded(source);
            }
        }
        Ok(())
    }

    /// The first request reaches code that watches for it, or ends the execution with this turn. Later ones are not
    /// admitted; where one is recorded, it ended the execution. A request to terminate always does.
    fn request_cancellation(&mut self, reason: &str, origin: Origin) {
        if let Some(plain) = termination_reason(reason) {
            self.terminated = true;
            self.winds_down = false;
            self.cancel_reason = Some(plain.to_owned());
            return;
        }
        let first = self.cancel_reason.is_none();
        self.winds_down = first && self.shared.cell().request_cancellation(reason);
        if self.winds_down {
            self.due = Some(origin);
        }
        self.cancel_reason.get_or_insert_with(|| reason.to_owned());
    }

    /// The deadline of the instance has passed. A value that was returned before it, or a cancellation, stands; a
    /// further execution is not begun any more.
    fn time_is_up(&mut self) {
        let goes_on = self.handler.is_suspended() || self.shared.cell().next.is_some();
        if goes_on && !self.is_cancelled() {
            let details = self.shared.cell().extras.time_is_up();
            self.turn.abort.get_or_insert((FailedBy::Timeout, details));
        }
    }

    /// Whether a request to cancel ends the execution with this turn, whatever the code does.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel_reason.is_some() && !self.winds_down
    }

    /// A recorded decision: the oldest request of the code must be the same.
    fn match_decision(&mut self, event: &Event) -> Result<(), Divergence> {
        let mut cell = self.shared.cell();
        let place = matching_place(cell.commands.iter(), &event.kind);
        if place.is_none() && is_patch(&event.kind) {
            // Its place in the code was patched once, and the condition is gone since.
            drop(cell);
            self.passed_over.insert(event.event_id);
            return Ok(());
        }
        let Some(place) = place else {
            return Err(match cell.commands.front() {
                Some(command) => Divergence::new(mismatch_headline(&event.kind))
                    .at(event)
                    .attempted(command),
                None => Divergence::new(missing_headline(&event.kind))
                    .at(event)
                    .instead(self.handler.ending(), cell.next.as_ref()),
            });
        };
        let command = cell
            .commands
            .remove(place)
            .expect("the place was found in this queue");
        if let Some(slot) = command.operation {
            if let EventKind::SubOrchestrationScheduled { instance, .. } = &event.kind {
                cell.operations
                    .child_recorded(slot, instance, event.timestamp_ms);
            }
            cell.operations.recorded(slot, event.event_id);
        }
        let comes_again = |rewound: &&Rewound| rewound.again.contains(&event.event_id);
        if let Some(rewound) = self.rewound.as_ref().filter(comes_again) {
            let trace = cell.trace.clone();
            let (id, kind) = (event.event_id, &event.kind);
            let action = command.kind;
            let action = action.to_action(id, kind, trace.as_ref(), Some(rewound));
            self.again.extend(action.map(|it| (event.event_id, it)));
        }
        Ok(())
    }

    fn answer(
        &mut self,
        event: &Event,
        expected: &OperationKind,
        with: Resolution,
        origin: Origin,
    ) -> Result<(), Divergence> {
        let source = event.source_event_id.unwrap_or_default();
        if self.passed_over.contains(&source) {
            return Ok(());
        }
        let mut cell = self.shared.cell();
        let Some(operation) = cell.operations.by_event(source) else {
            return Err(Divergence::new("completion without open schedule").at(event));
        };
        if operation.kind.noun() != expected.noun() {
            return Err(Divergence::new(format!(
                "completion kind mismatch: expected {}",
                operation.kind.noun()
            ))
            .at(event));
        }
        if !cell.operations.answer(source, with) {
            return Err(Divergence::new("completion without open schedule").at(event));
        }
        drop(cell);
        self.due = Some(origin);
        Ok(())
    }

    /// A failure that is not the author's to handle ends the execution, unless the code dropped the operation or asked
    /// to see such failures.
    fn abort_on_system_failure(&mut self, event: &Event, details: &ErrorDetails) {
        let source = event.source_event_id.unwrap_or_default();
        let fatal = self
            .shared
            .cell()
            .operations
            .by_event(source)
            .is_some_and(|operation| operation.is_held() && !operation.surfaces_failures);
        if fatal && !details.is_application() {
            self.abort(FailedBy::Operation, details.clone());
        }
    }

    /// A recorded drop: the code must have dropped the same future by now.
    fn match_drop(&mut self, event: &Event) -> Result<(), Divergence> {
        let source = event.source_event_id.unwrap_or_default();
        let dropped = self
            .shared
            .cell()
            .operations
            .by_event(source)
            .is_some_and(|operation| matches!(operation.call, Call::Dropped { .. }));
        if !dropped {
            let what = match event.kind {
                EventKind::ActivityCancelRequested { .. } => "activities",
                EventKind::SubOrchestrationCancelRequested { .. } => "sub-orchestrations",
                EventKind::ExternalSubscribedCancelled { .. } => "external waits",
                _ => "persistent waits",
            };
            return Err(Divergence::new(format!(
                "cancellation mismatch ({what}): event {source} is recorded as dropped, the code still holds it"
            ))
            .at(event));
        }
        Ok(())
    }

    fn note_child(&mut self, event: &Event, failure: Option<&ErrorDetails>, origin: Origin) {
        if origin == Origin::New {
            let cell = self.shared.cell();
            let source = event.source_event_id.unwrap_or_default();
            let ended = cell
                .operations
                .by_event(source)
                .and_then(|operation| ChildEnded::of(&operation.kind, failure, event.timestamp_ms));
            self.turn.notes.children_ended.extend(ended);
        }
    }

    fn note_lost_signal(&mut self, name: &str, origin: Origin) {
        if origin == Origin::New {
            self.turn.notes.unused.push(Unused::NobodyWaits);
            tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %self.shared.identity.instance_id,
                execution_id = self.shared.identity.execution_id,
                event_name = %name,
                "skipping ExternalEvent delivery: no pending subscription slot (event remains in history for audit)"
            );
        }
    }
}

/// Another id, if this is one.
fn defective_fresh(result: String) -> String {
    let is_id = result.len() == 36 && result.matches('-').count() == 4;
    if is_id {
        result.chars().rev().collect()
    } else {
        result
    }
}

fn is_patch(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ActivityScheduled { name, .. } if name == SYSCALL_PATCHED)
}

fn child() -> OperationKind {
    OperationKind::Child {
        name: String::new(),
        instance: String::new(),
        scheduled_ms: 0,
    }
}

/// Where the request that a recorded decision repeats stands. It must be the oldest one, with two exceptions: a run of
/// key removals may be recorded in any order, because earlier engines did not order them, and what a call asks for
/// whose future is not polled yet may be recorded later, because earlier engines asked only then.
fn matching_place<'a>(
    commands: impl Iterator<Item = &'a Command>,
    recorded: &EventKind,
) -> Option<usize> {
    let clears = matches!(recorded, EventKind::KeyValueCleared { .. });
    for (place, command) in commands.enumerate() {
        if command.kind.reproduces(recorded) {
            return Some(place);
        }
        let is_clear = matches!(command.kind, CommandKind::ClearKv { .. });
        if !(command.may_come_later || clears && is_clear) {
            return None;
        }
    }
    None
}
