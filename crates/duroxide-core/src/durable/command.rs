//! What the author's code asked for, before it is recorded.

use std::panic::Location;

use super::on_close::OnClose;
use crate::action::Action;
use crate::attempt::{AttemptLimits, CallOrigin, traced};
use crate::codec::same_meaning;
use crate::event::EventKind;
use crate::ids::{INITIAL_EXECUTION_ID, SUB_ORCH_AUTO_PREFIX, is_auto_generated_sub_orch_id};
use crate::label::{Labels, labelled_input};
use crate::rewound::Rewound;
use crate::start::StartExtras;
use crate::trace_context::TraceContext;

/// One request of the author's code.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    /// The operation that waits for it; `None` for requests without an answer.
    pub(crate) operation: Option<usize>,
    pub(crate) kind: CommandKind,
    /// Where the code asked.
    pub(crate) location: &'static Location<'static>,
    /// Asked for by a call whose future was not polled yet. Earlier engines asked only then, so a history may have it
    /// later than where the code called.
    pub(crate) may_come_later: bool,
}

/// The closed set of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandKind {
    Activity {
        name: String,
        input: String,
        session_id: Option<String>,
        tag: Option<String>,
        /// The scheduling event of the first attempt, if this is a further one.
        attempt_of: Option<u64>,
        /// What the worker keeps to. Not recorded: it decides nothing that a replay repeats.
        limits: AttemptLimits,
    },
    Timer {
        fire_at_ms: u64,
    },
    Wait {
        name: String,
    },
    Dequeue {
        name: String,
    },
    Child {
        target: Target,
        /// `None` lets the engine choose an id.
        instance: Option<String>,
        input: String,
        /// What its start carries. Not recorded here: the child records it, and it decides nothing that a replay
        /// repeats.
        labels: Labels,
        extras: StartExtras,
        /// What becomes of it when its parent ends. Recorded; what the code says governs while it is there.
        on_close: OnClose,
    },
    Detached {
        target: Target,
        instance: String,
        input: String,
        labels: Labels,
        extras: StartExtras,
    },
    SetStatus {
        status: Option<String>,
    },
    SetKv {
        key: String,
        value: String,
        last_updated_at_ms: u64,
    },
    ClearKv {
        key: String,
    },
    ClearAllKv,
}

/// A handler to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// Whatever version is recorded, it is this one: the version is the definition's and moves on with the code.
    pub(crate) record_governs: bool,
}

impl Target {
    /// The name as it is recorded: an explicit version is part of the decision, so it is part of the record.
    fn recorded_name(&self) -> String {
        match &self.version {
            Some(version) => format!("{}@{version}", self.name),
            None => self.name.clone(),
        }
    }

    /// Whether a recorded name is this target. A bare name is accepted for a versioned target: earlier engines did
    /// not record versions.
    fn matches(&self, recorded: &str) -> bool {
        if self.record_governs {
            let name = recorded.strip_prefix(self.name.as_str());
            return name.is_some_and(|rest| rest.is_empty() || rest.starts_with('@'));
        }
        recorded == self.name || recorded == self.recorded_name()
    }
}

impl CommandKind {
    /// The event that records this request at position `event_id`.
    pub(crate) fn to_event(&self, event_id: u64, execution_id: u64) -> EventKind {
        match self.clone() {
            Self::Activity {
                name,
                input,
                session_id,
                tag,
                attempt_of: _,
                limits: _,
            } => EventKind::ActivityScheduled {
                name,
                input,
                session_id,
                tag,
            },
            Self::Timer { fire_at_ms } => EventKind::TimerCreated { fire_at_ms },
            Self::Wait { name } => EventKind::ExternalSubscribed { name },
            Self::Dequeue { name } => EventKind::QueueSubscribed { name },
            Self::Child {
                target,
                instance,
                input,
                labels: _,
                extras: _,
                on_close,
            } => EventKind::SubOrchestrationScheduled {
                name: target.recorded_name(),
                instance: instance.unwrap_or_else(|| generated_child_id(event_id, execution_id)),
                input: on_close.in_front_of(input),
            },
            Self::Detached {
                target,
                instance,
                input,
                labels: _,
                extras: _,
            } => EventKind::OrchestrationChained {
                name: target.recorded_name(),
                instance,
                input,
            },
            Self::SetStatus { status } => EventKind::CustomStatusUpdated { status },
            Self::SetKv {
                key,
                value,
                last_updated_at_ms,
            } => EventKind::KeyValueSet {
                key,
                value,
                last_updated_at_ms,
            },
            Self::ClearKv { key } => EventKind::KeyValueCleared { key },
            Self::ClearAllKv => EventKind::KeyValuesCleared,
        }
    }

    /// What the runtime must do for this request, if anything. Waits, status and key-values live in the history alone.
    /// What is asked for belongs to the trace of the execution, if that is part of one; a call that the execution
    /// shares with an earlier one is the same call.
    pub(crate) fn to_action(
        &self,
        event_id: u64,
        event: &EventKind,
        trace: Option<&TraceContext>,
        rewound: Option<&Rewound>,
    ) -> Option<Action> {
        match (self.clone(), event) {
            (
                Self::Activity {
                    name,
                    input,
                    session_id,
                    tag,
                    attempt_of,
                    limits,
                },
                _,
            ) => {
                let began = attempt_of.unwrap_or(event_id);
                let origin = CallOrigin {
                    first_attempt: attempt_of,
                    execution_id: rewound.and_then(|it| it.first_with(began)),
                };
                let input = limits.in_front_of(origin.in_front_of(event_id, input));
                Some(Action::CallActivity {
                    scheduling_event_id: event_id,
                    name,
                    input: traced(trace, input),
                    session_id,
                    tag,
                })
            }
            // What is recorded governs: a replay may ask for another time.
            (Self::Timer { .. }, EventKind::TimerCreated { fire_at_ms }) => {
                Some(Action::CreateTimer {
                    scheduling_event_id: event_id,
                    fire_at_ms: *fire_at_ms,
                })
            }
            (
                Self::Child {
                    target,
                    input,
                    labels,
                    extras,
                    ..
                },
                EventKind::SubOrchestrationScheduled { instance, .. },
            ) => Some(Action::StartSubOrchestration {
                scheduling_event_id: event_id,
                name: target.name,
                version: target.version,
                instance: instance.clone(),
                input: carrying(extras, trace).in_front_of(labelled_input(&labels, input)),
            }),
            (
                Self::Detached {
                    target,
                    instance,
                    input,
                    labels,
                    extras,
                },
                _,
            ) => Some(Action::StartOrchestrationDetached {
                scheduling_event_id: event_id,
                name: target.name,
                version: target.version,
                instance,
                input: carrying(extras, trace).in_front_of(labelled_input(&labels, input)),
            }),
            _ => None,
        }
    }

    /// Whether a recorded event is this request. Inputs and values are compared by meaning, because the same value can
    /// be written in more than one way. Deadlines and time stamps are not compared: what is recorded governs.
    pub(crate) fn reproduces(&self, event: &EventKind) -> bool {
        match (self, event) {
            (
                Self::Activity {
                    name,
                    input,
                    session_id,
                    tag,
                    attempt_of: _,
                    limits: _,
                },
                EventKind::ActivityScheduled {
                    name: n,
                    input: i,
                    session_id: s,
                    tag: t,
                },
            ) => (name, session_id, tag) == (n, s, t) && same_meaning(input, i),
            (Self::Timer { .. }, EventKind::TimerCreated { .. })
            | (Self::SetStatus { .. }, EventKind::CustomStatusUpdated { .. })
            | (Self::ClearAllKv, EventKind::KeyValuesCleared) => true,
            (Self::Wait { name }, EventKind::ExternalSubscribed { name: n })
            | (Self::Dequeue { name }, EventKind::QueueSubscribed { name: n })
            | (Self::ClearKv { key: name }, EventKind::KeyValueCleared { key: n }) => name == n,
            (
                Self::SetKv { key, value, .. },
                EventKind::KeyValueSet {
                    key: k, value: v, ..
                },
            ) => key == k && same_meaning(value, v),
            (
                Self::Child {
                    target,
                    instance,
                    input,
                    labels: _,
                    extras: _,
                    on_close: _,
                },
                EventKind::SubOrchestrationScheduled {
                    name,
                    instance: recorded,
                    input: i,
                },
            ) => {
                let same_id = match instance {
                    Some(chosen) => chosen == recorded,
                    None => is_auto_generated_sub_orch_id(recorded),
                };
                // Earlier records have no policy, and may have a text that looks like one.
                let (_, own) = OnClose::of_recorded(i);
                let same_input = same_meaning(input, own) || same_meaning(input, i);
                target.matches(name) && same_id && same_input
            }
            (
                Self::Detached {
                    target,
                    instance,
                    input,
                    labels: _,
                    extras: _,
                },
                EventKind::OrchestrationChained {
                    name,
                    instance: i,
                    input: n,
                },
            ) => target.matches(name) && instance == i && same_meaning(input, n),
            _ => false,
        }
    }
}

fn generated_child_id(event_id: u64, execution_id: u64) -> String {
    if execution_id == INITIAL_EXECUTION_ID {
        format!("{SUB_ORCH_AUTO_PREFIX}{event_id}")
    } else {
        format!("{SUB_ORCH_AUTO_PREFIX}{execution_id}_{event_id}")
    }
}

/// What a start carries that this execution asks for.
fn carrying(extras: StartExtras, trace: Option<&TraceContext>) -> StartExtras {
    match trace {
        Some(trace) => extras.with_trace(trace.clone()),
        None => extras,
    }
}
