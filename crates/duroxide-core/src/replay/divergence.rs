//! The report that code and history do not fit together: what is recorded against what was attempted.

use std::fmt;

use crate::durable::NextExecution;
use crate::durable::{Command, CommandKind, OnClose};
use crate::event::{ErrorDetails, Event, EventKind};

/// Code and history that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Kind of disagreement, in stable words.
    pub headline: String,
    /// The event at which it was noticed.
    pub event_id: Option<u64>,
    /// The recorded event, in words.
    pub recorded: Option<String>,
    /// The decision of the code, in words.
    pub attempted: Option<String>,
    /// Place where the code asked, as `file:line:column`.
    pub location: Option<String>,
}

impl Divergence {
    pub(crate) fn new(headline: impl Into<String>) -> Self {
        Self {
            headline: headline.into(),
            event_id: None,
            recorded: None,
            attempted: None,
            location: None,
        }
    }

    pub(crate) fn at(mut self, event: &Event) -> Self {
        self.event_id = Some(event.event_id);
        self.recorded = Some(describe_event(&event.kind));
        self
    }

    pub(crate) fn attempted(mut self, command: &Command) -> Self {
        self.attempted = Some(describe_command(&command.kind));
        self.location = Some(command.location.to_string());
        self
    }

    /// What the code did instead of asking for anything: how it ended, or that it asked for another execution.
    pub(crate) fn instead(mut self, ending: Option<String>, next: Option<&NextExecution>) -> Self {
        let continued = || next.map(|next| format!("continue_as_new({})", short(&next.input)));
        self.attempted = ending.or_else(continued);
        self
    }

    /// A stable code, that of the failure it becomes; docs/errors.md says what it means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.to_details().code()
    }

    /// The report as the failure of the orchestration.
    #[must_use]
    pub fn to_details(&self) -> ErrorDetails {
        ErrorDetails::nondeterminism(self.to_string())
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline)?;
        if let Some(id) = self.event_id {
            write!(f, " at event {id}")?;
        }
        if let Some(recorded) = &self.recorded {
            let attempted = self.attempted.as_deref().unwrap_or("nothing");
            write!(f, "\n  recorded:  {recorded}\n  attempted: {attempted}")?;
        }
        if let Some(location) = &self.location {
            write!(f, "\n  called at: {location}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Divergence {}

/// The headline for a decision that differs from the recorded one.
pub(crate) fn mismatch_headline(event: &EventKind) -> &'static str {
    match event {
        EventKind::CustomStatusUpdated { .. } => "custom status mismatch",
        EventKind::KeyValueSet { .. } => "kv set mismatch",
        EventKind::KeyValueCleared { .. } => "kv clear mismatch",
        EventKind::KeyValuesCleared => "kv clear_all mismatch",
        _ => "schedule mismatch",
    }
}

/// The headline for a recorded decision that the code no longer takes.
pub(crate) fn missing_headline(event: &EventKind) -> &'static str {
    match event {
        EventKind::OrchestrationChained { .. } => {
            "history OrchestrationChained but no emitted action"
        }
        EventKind::CustomStatusUpdated { .. }
        | EventKind::KeyValueSet { .. }
        | EventKind::KeyValueCleared { .. }
        | EventKind::KeyValuesCleared => mismatch_headline(event),
        _ => "history schedule but no emitted action",
    }
}

/// Text that stays readable when payloads are large.
pub(super) fn short(text: &str) -> String {
    const MAX: usize = 120;
    if text.chars().count() <= MAX {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(MAX).collect();
    format!("{head:?}… ({} bytes)", text.len())
}

fn optional(label: &str, value: Option<&String>) -> String {
    value.map_or_else(String::new, |v| format!(" {label}={}", short(v)))
}

fn describe_event(kind: &EventKind) -> String {
    let name = kind.wire_name();
    match kind {
        EventKind::ActivityScheduled {
            name: n,
            input,
            session_id,
            tag,
        } => format!(
            "{name} name={} input={}{}{}",
            short(n),
            short(input),
            optional("session", session_id.as_ref()),
            optional("tag", tag.as_ref())
        ),
        EventKind::SubOrchestrationScheduled {
            name: n,
            instance,
            input,
        }
        | EventKind::OrchestrationChained {
            name: n,
            instance,
            input,
        } => format!(
            "{name} name={} instance={} input={}",
            short(n),
            short(instance),
            short(OnClose::of_recorded(input).1)
        ),
        EventKind::ExternalSubscribed { name: n } | EventKind::QueueSubscribed { name: n } => {
            format!("{name} name={}", short(n))
        }
        EventKind::KeyValueSet { key, value, .. } => {
            format!("{name} key={} value={}", short(key), short(value))
        }
        EventKind::KeyValueCleared { key } => format!("{name} key={}", short(key)),
        EventKind::CustomStatusUpdated { status } => {
            format!("{name}{}", optional("status", status.as_ref()))
        }
        _ => name.to_owned(),
    }
}

fn describe_command(kind: &CommandKind) -> String {
    match kind {
        CommandKind::Child {
            instance: None,
            target,
            input,
            labels: _,
            extras: _,
            on_close: _,
        } => {
            // The engine has not chosen the child's id yet, so the event cannot say it.
            let version = optional("version", target.version.as_ref());
            format!(
                "SubOrchestrationScheduled name={}{version} input={}",
                short(&target.name),
                short(input)
            )
        }
        other => describe_event(&other.to_event(0, 0)),
    }
}
