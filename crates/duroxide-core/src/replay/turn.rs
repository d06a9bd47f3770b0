//! One turn. In: claimed messages, and answers of the host. Out: events, actions and an outcome, or questions to the
//! host. Ends when the code waits, returns, or asks the host something; never waits for the answer.

use super::cause::FailedBy;
use super::ending;
use super::execution::{Execution, Origin};
use super::handler_future::HandlerFuture;
use super::host::{HostCall, HostRequest};
use super::limits::TurnLimits;
use super::notes::Unused;
use super::turn_result::{Outcome, Progress, Turn};
use super::turn_state::Incoming;
use crate::action::Action;
use crate::defect::Defect;
use crate::durable::{Cell, CommandKind};
use crate::event::{ErrorDetails, Event, EventKind};
use crate::label::carried_labels;
use crate::work_item::{WorkItem, termination_reason};

impl Execution {
    /// Whether this turn has decided to start an instance of this id.
    #[must_use]
    pub fn starts(&self, id: &str) -> bool {
        self.turn.actions.iter().any(|action| match action {
            Action::StartOrchestrationDetached { instance, .. }
            | Action::StartSubOrchestration { instance, .. } => instance == id,
            _ => false,
        })
    }

    /// Begins a turn with the messages claimed for it. Messages that do not concern this execution are dropped, and all
    /// of them when it has ended. Recorded time does not go back: a clock that is behind the last event counts as that.
    pub fn start_turn(&mut self, now_ms: u64, messages: Vec<WorkItem>) {
        if self.ended {
            self.turn.notes.unused = vec![Unused::Ended; messages.len()];
            return;
        }
        self.turns += 1;
        let mut cell = self.shared.cell();
        let mut recorded_ms = cell.now_ms.max(now_ms);
        if Defect::TimeGoesBack.is_on() {
            recorded_ms = now_ms;
        }
        cell.set_time(recorded_ms, now_ms);
        self.turn.now_ms = cell.now_ms;
        drop(cell);
        if self.turn.events.is_empty() {
            self.turn.base_event_id = self.last_event_id;
        }
        for message in messages {
            self.admit(message);
        }
    }

    /// Runs the code as far as it gets. With `ask_host` false, questions to the host are left unanswered. An execution
    /// that has ended decides nothing.
    pub fn advance(&mut self, limits: &TurnLimits, ask_host: bool) -> Progress {
        if self.ended {
            let notes = std::mem::take(&mut self.turn.notes);
            return Progress::Done(Box::new(Turn::nothing(notes)));
        }
        let presence = std::sync::Arc::clone(&self.shared.presence);
        let _driving = presence.enter();
        if let Err(divergence) = self.run(ask_host) {
            self.turn.abort = Some((FailedBy::Divergence, divergence.to_details()));
            self.record_the_rest();
        }
        let open = self.open_host_calls();
        if ask_host && !open.is_empty() && !self.is_over() {
            return Progress::NeedsHost(open);
        }
        self.turn.host_calls = open;
        Progress::Done(Box::new(ending::finish(self, limits)))
    }

    /// Records the host's answer to one question.
    pub fn answer_host(&mut self, call: &HostCall, answer: Result<String, String>) {
        self.record_host_answer(call, answer.map_err(ErrorDetails::activity_failed));
    }

    /// Records the host's answer to one question, or how it failed.
    pub fn record_host_answer(&mut self, call: &HostCall, answer: Result<String, ErrorDetails>) {
        let kind = match answer {
            Ok(result) => EventKind::ActivityCompleted { result },
            Err(details) => EventKind::ActivityFailed { details },
        };
        self.turn
            .host_calls
            .retain(|open| open.activity_id != call.activity_id);
        self.arrive(kind, Some(call.activity_id));
    }

    /// Ends the execution, unless its end is decided already. Later arrivals are recorded, but the code runs no more.
    pub(super) fn abort(&mut self, by: FailedBy, details: ErrorDetails) {
        if self.is_undecided() && !self.is_cancelled() {
            self.turn.abort.get_or_insert((by, details));
        }
    }

    /// Whether nothing the host says can matter any more.
    fn is_over(&self) -> bool {
        self.turn.abort.is_some() || self.is_cancelled() || !self.is_undecided()
    }

    /// Whether the code has neither returned, nor panicked, nor asked for another execution.
    pub(super) fn is_undecided(&self) -> bool {
        self.handler.is_suspended() && self.shared.cell().next.is_none()
    }

    fn open_host_calls(&mut self) -> Vec<HostCall> {
        let calls = std::mem::take(&mut self.turn.host_calls);
        let cell = self.shared.cell();
        calls
            .into_iter()
            .filter(|call| {
                cell.operations
                    .by_event(call.activity_id)
                    .is_some_and(crate::durable::Operation::is_held)
            })
            .collect()
    }

    /// Feeds arrivals, then turns the code's requests into events, until nothing is left to do.
    /// Returns with arrivals left if the host must answer before the next of them.
    fn run(&mut self, ask_host: bool) -> Result<(), super::Divergence> {
        loop {
            if let Some(event) = self.turn.events.get(self.turn.applied).cloned() {
                self.turn.applied += 1;
                if !matches!(event.kind, EventKind::OrchestrationStarted { .. }) {
                    self.step(&event, Origin::New)?;
                }
                continue;
            }
            if self.hand_over_earlier_signal() {
                continue;
            }
            if self.signal_is_early() {
                if self.record_next_command() {
                    continue;
                }
                if ask_host && self.asks_host() {
                    return Ok(());
                }
            }
            match self.turn.incoming.pop_front() {
                Some(Incoming::Event {
                    kind,
                    source_event_id,
                }) => {
                    if !self.comes_too_late(&kind) {
                        self.arrive(kind, source_event_id);
                    }
                }
                Some(Incoming::Stray(details)) => {
                    self.poll_if_due();
                    self.abort(FailedBy::StrayCompletion, details);
                }
                None => {
                    self.poll_if_due();
                    if self.turn.abort.is_some() || !self.record_next_command() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Records a signal that came before a rewind, if a wait for it is open now; false if there is none.
    fn hand_over_earlier_signal(&mut self) -> bool {
        if self.earlier_signals.is_empty() || self.is_over() {
            return false;
        }
        let awaited = {
            let cell = self.shared.cell();
            let operations = &cell.operations;
            let wait = |name: &str| operations.wait_for(name);
            self.earlier_signals.first_awaited(wait)
        };
        let Some((wait, name, data)) = awaited else {
            return false;
        };
        self.arrive(EventKind::ExternalEvent { name, data }, Some(wait));
        true
    }

    /// Whether the next arrival is a signal that no recorded wait awaits. What the code decided before it is then
    /// recorded first, questions to the host included, as it would be if the signal had come in a batch of its own: how
    /// messages are batched must not decide which of them are lost.
    fn signal_is_early(&mut self) -> bool {
        let Some(Incoming::Event {
            kind: EventKind::ExternalEvent { name, .. },
            ..
        }) = self.turn.incoming.front()
        else {
            return false;
        };
        let name = name.clone();
        self.poll_if_due();
        !self.is_over() && !self.shared.cell().operations.is_awaited(&name)
    }

    /// Whether this is a request to cancel, and the code, which watched for one, had ended before it came. Code that
    /// watches can put things right; a request that comes with the message that lets it end must not take that away, as
    /// it would not in a batch of its own. A value that was returned stands, and another execution gets the request.
    fn comes_too_late(&mut self, kind: &EventKind) -> bool {
        let EventKind::OrchestrationCancelRequested { reason } = kind else {
            return false;
        };
        if Defect::LateCancelKills.is_on() {
            return false;
        }
        if termination_reason(reason).is_some() {
            return false;
        }
        self.poll_if_due();
        let is_undisturbed = self.turn.abort.is_none() && self.cancel_reason.is_none();
        if !self.ended_watching || !is_undisturbed || self.panicked() {
            return false;
        }
        match self.shared.cell().next {
            Some(_) => self.turn.cancel_for_successor = Some(reason.clone()),
            None => self.turn.notes.unused.push(Unused::Ended),
        }
        true
    }

    fn asks_host(&mut self) -> bool {
        self.turn.host_calls = self.open_host_calls();
        !self.turn.host_calls.is_empty()
    }

    /// Records what came in without an effect: the end is decided.
    fn record_the_rest(&mut self) {
        for incoming in std::mem::take(&mut self.turn.incoming) {
            if let Incoming::Event {
                kind,
                source_event_id,
            } = incoming
            {
                self.arrive(kind, source_event_id);
            }
        }
    }

    /// Turns the oldest request into an event; false if there is none.
    fn record_next_command(&mut self) -> bool {
        let execution_id = self.execution_id();
        let Some(kind) = self.shared.cell().commands.front().map(|c| c.kind.clone()) else {
            return false;
        };
        if Defect::UnrecordedStart.is_on() && self.defective_send_unrecorded(&kind) {
            return true;
        }
        let event_id = self.next_event_id();
        let event = kind.to_event(event_id, execution_id);
        if let Some(request) = HostRequest::of_event(&event) {
            self.turn.host_calls.push(HostCall {
                activity_id: event_id,
                request,
            });
        } else {
            let trace = self.shared.cell().trace.clone();
            let rewound = self.rewound.as_ref();
            let action = kind.to_action(event_id, &event, trace.as_ref(), rewound);
            self.turn.actions.extend(action);
        }
        self.arrive(event, None);
        true
    }

    /// Sends a detached start and forgets that the code asked for it.
    fn defective_send_unrecorded(&mut self, kind: &CommandKind) -> bool {
        if !matches!(kind, CommandKind::Detached { .. }) {
            return false;
        }
        let event_id = self.next_event_id();
        let event = kind.to_event(event_id, self.execution_id());
        let trace = self.shared.cell().trace.clone();
        let action = kind.to_action(event_id, &event, trace.as_ref(), None);
        self.turn.actions.extend(action);
        self.shared.cell().commands.pop_front();
        true
    }

    /// Adds a new event to the delta, to be applied by the next step.
    pub(super) fn arrive(&mut self, kind: EventKind, source_event_id: Option<u64>) {
        let event = self.new_event(kind, source_event_id);
        self.turn.events.push(event);
    }

    pub(super) fn new_event(&self, kind: EventKind, source_event_id: Option<u64>) -> Event {
        Event {
            event_id: self.next_event_id(),
            source_event_id,
            instance_id: self.instance_id().to_owned(),
            execution_id: self.execution_id(),
            timestamp_ms: self.turn.now_ms,
            duroxide_version: crate::event::BUILD_VERSION.to_owned(),
            kind,
        }
    }

    fn next_event_id(&self) -> u64 {
        self.turn
            .events
            .last()
            .map_or(self.last_event_id, |e| e.event_id.max(self.last_event_id))
            + 1
    }

    /// How the code stands, leaving aside cancellation and limits, and what made it fail if it did.
    pub(super) fn handler_outcome(&mut self) -> (Outcome, Option<FailedBy>) {
        let failed = |by, details| (Outcome::Failed { details }, Some(by));
        if let Some((by, details)) = self.turn.abort.clone() {
            return failed(by, details);
        }
        if let Some(report) = self.shared.presence.foreign() {
            return failed(FailedBy::NotDurable, ErrorDetails::nondeterminism(report));
        }
        if let HandlerFuture::Panicked(message) = &self.handler {
            return failed(FailedBy::Panic, ErrorDetails::panicked(message.clone()));
        }
        let cell = self.shared.cell();
        if let Some(misuse) = &cell.misuse {
            return failed(FailedBy::Panic, ErrorDetails::panicked(misuse.clone()));
        }
        if let Some(next) = &cell.next {
            let outcome = Outcome::ContinuedAsNew {
                input: next.input.clone(),
                version: next.version.clone(),
                carried: carried_on(&cell),
                custom_status: cell.custom_status.clone(),
            };
            return (outcome, None);
        }
        match &self.handler {
            HandlerFuture::Returned(Ok(output)) => {
                let output = output.clone();
                (Outcome::Completed { output }, None)
            }
            HandlerFuture::Returned(Err(error)) => failed(
                FailedBy::Code,
                ErrorDetails::orchestration_failed(error.clone()),
            ),
            HandlerFuture::Suspended { .. } | HandlerFuture::Panicked(_) => {
                if cell.operations.anything_open() {
                    (Outcome::Waiting, None)
                } else {
                    failed(
                        FailedBy::NotDurable,
                        ErrorDetails::nondeterminism(self.shared.presence.placed(NOT_DURABLE)),
                    )
                }
            }
        }
    }
}

/// What goes into the next execution: queue messages that the code has not taken, labels, and what the start gave.
fn carried_on(cell: &Cell) -> Vec<(String, String)> {
    let mut carried = cell.operations.unread();
    carried.extend(carried_labels(cell.labels.all()));
    carried.extend(cell.extras.carried());
    carried
}

/// What an author reads whose orchestration waits for something the engine cannot see.
const NOT_DURABLE: &str = "the orchestration waits for something that is not durable (for example a tokio timer, a channel or I/O); nothing can ever wake it: use an activity, ctx.schedule_timer or an event instead";
