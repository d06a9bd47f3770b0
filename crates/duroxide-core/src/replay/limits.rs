//! Limits of one turn, checked before anything is stored. The first violation, in a fixed order, fails the execution.

use super::turn_result::Outcome;
use crate::durable::OnClose;
use crate::event::{Event, EventKind};
use crate::limits::{
    DEFAULT_PAYLOAD_BYTES_MAX, EXCEEDS_LIMIT, MAX_CUSTOM_STATUS_BYTES, MAX_KV_KEYS,
    MAX_KV_VALUE_BYTES, MAX_TAG_NAME_BYTES,
};

/// Limits that a runtime can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLimits {
    /// Largest input, output or payload, in bytes.
    pub payload_bytes_max: usize,
    /// Longest history of one execution, in events; `None` for no limit.
    pub history_events_max: Option<u64>,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            payload_bytes_max: DEFAULT_PAYLOAD_BYTES_MAX,
            history_events_max: None,
        }
    }
}

impl TurnLimits {
    /// The first violation among the decisions of a turn, as the text the orchestration fails with.
    pub(super) fn violation(
        &self,
        decisions: &[Event],
        kv_keys: usize,
        last_event_id: u64,
        outcome: &Outcome,
    ) -> Option<String> {
        custom_status(decisions)
            .or_else(|| decisions.iter().find_map(tag))
            .or_else(|| decisions.iter().find_map(kv_value))
            .or_else(|| kv_count(decisions, kv_keys))
            .or_else(|| decisions.iter().find_map(|event| self.payload(&event.kind)))
            .or_else(|| self.result(outcome))
            .or_else(|| self.history(last_event_id, outcome))
    }

    fn payload(&self, kind: &EventKind) -> Option<String> {
        let (what, text) = match kind {
            EventKind::ActivityScheduled { name, input, .. } => {
                (format!("Activity '{name}' input"), input.as_str())
            }
            EventKind::SubOrchestrationScheduled { name, input, .. } => {
                let (_, input) = OnClose::of_recorded(input);
                (format!("Sub-orchestration '{name}' input"), input)
            }
            EventKind::OrchestrationChained { name, input, .. } => {
                (format!("Orchestration '{name}' input"), input.as_str())
            }
            _ => return None,
        };
        self.too_large(&what, text)
    }

    fn result(&self, outcome: &Outcome) -> Option<String> {
        match outcome {
            Outcome::Completed { output } => self.too_large("Orchestration output", output),
            Outcome::ContinuedAsNew { input, .. } => self.too_large("Continue-as-new input", input),
            Outcome::Failed { details } => {
                self.too_large("Orchestration error", &details.display_message())
            }
            Outcome::Waiting => None,
        }
    }

    /// The violation if a text is larger than the payload limit.
    #[must_use]
    pub fn too_large(&self, what: &str, text: &str) -> Option<String> {
        over(what, text.len(), self.payload_bytes_max)
    }

    fn history(&self, last_event_id: u64, outcome: &Outcome) -> Option<String> {
        let max = self.history_events_max?;
        (last_event_id > max && *outcome == Outcome::Waiting).then(|| {
            format!(
                "History length ({last_event_id} events) {EXCEEDS_LIMIT} ({max} events); use continue_as_new to begin a fresh history"
            )
        })
    }
}

fn over(what: &str, bytes: usize, max: usize) -> Option<String> {
    (bytes > max).then(|| format!("{what} size ({bytes} bytes) {EXCEEDS_LIMIT} ({max} bytes)"))
}

fn custom_status(decisions: &[Event]) -> Option<String> {
    decisions
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated {
                status: Some(status),
            } => Some(status),
            _ => None,
        })
        .find_map(|status| over("Custom status", status.len(), MAX_CUSTOM_STATUS_BYTES))
}

fn tag(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::ActivityScheduled {
            name,
            tag: Some(tag),
            ..
        } => over(
            &format!("Activity '{name}' tag"),
            tag.len(),
            MAX_TAG_NAME_BYTES,
        ),
        _ => None,
    }
}

fn kv_value(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::KeyValueSet { key, value, .. } if value.len() > MAX_KV_VALUE_BYTES => {
            Some(format!(
                "KV value for key '{key}' ({} bytes) {EXCEEDS_LIMIT} ({MAX_KV_VALUE_BYTES} bytes)",
                value.len()
            ))
        }
        _ => None,
    }
}

fn kv_count(decisions: &[Event], keys: usize) -> Option<String> {
    let wrote = decisions
        .iter()
        .any(|event| matches!(event.kind, EventKind::KeyValueSet { .. }));
    (wrote && keys > MAX_KV_KEYS)
        .then(|| format!("KV key count ({keys}) {EXCEEDS_LIMIT} ({MAX_KV_KEYS})"))
}
