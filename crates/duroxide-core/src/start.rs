//! What a start carries beside its input and its labels: a memo, a time limit, a trace, who asked for it. In: what a
//! starter gave. Out: checked values, and how they travel. Never: a field that the published format does not have.
//!
//! They travel as labels do: in front of the input of the start message, and from the first turn on among the messages
//! carried into an execution, under a reserved queue. The first turn makes a deadline of the time limit; later
//! executions repeat it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::{ErrorDetails, Event, EventKind};
use crate::trace_context::TraceContext;

/// Longest memo, in bytes of its JSON.
pub const MEMO_BYTES_MAX: usize = 4 * 1024;

/// Longest id of a request.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// The queue under which it is carried into an execution.
#[doc(hidden)]
pub const START_QUEUE: &str = "duroxide:start";

/// What the input of a start begins with that carries something.
const INPUT_PREFIX: &str = "duroxide:start:";

/// Latest deadline: stores hold signed numbers.
pub(crate) const DEADLINE_MAX_MS: u64 = i64::MAX as u64;

/// What a start carries beside its input and its labels.
///
/// ```
/// use duroxide_core::StartExtras;
/// use std::time::Duration;
/// let extras = StartExtras::default().with_memo(&["made", "by hand"])?.with_timeout(Duration::from_secs(60))?;
/// let sent = extras.in_front_of("three apples".to_owned());
/// assert_eq!(StartExtras::of_input(sent), (extras, "three apples".to_owned()));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StartExtras {
    /// The id of the request that asked for the start: one that is repeated finds its own instance. It stands first,
    /// where stores that look at the stored text find it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    /// JSON of the memo.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memo: Option<String>,
    /// How long the instance may take, from its first turn on, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout_ms: Option<u64>,
    /// Time at which its time limit is reached, in milliseconds since the Unix epoch; known from the first turn on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline_ms: Option<u64>,
    /// The trace that the starter is part of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<TraceContext>,
    /// The trace begins with this instance: its starter is part of none.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub begins_trace: bool,
}

impl StartExtras {
    /// With a memo.
    ///
    /// # Errors
    ///
    /// When it does not serialise, or is longer than [`MEMO_BYTES_MAX`] as JSON.
    pub fn with_memo<T: Serialize + ?Sized>(mut self, memo: &T) -> Result<Self, String> {
        let json = serde_json::to_string(memo)
            .map_err(|error| format!("the memo does not serialise: {error}"))?;
        self.memo = Some(json);
        self.checked()
    }

    /// With a time limit for all executions of the instance together.
    ///
    /// # Errors
    ///
    /// When it is shorter than a millisecond.
    pub fn with_timeout(mut self, timeout: Duration) -> Result<Self, String> {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(DEADLINE_MAX_MS);
        self.timeout_ms = Some(millis);
        self.checked()
    }

    /// With the trace that the starter is part of.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// With the id of the request that asks for the start.
    ///
    /// ```
    /// use duroxide_core::StartExtras;
    /// assert!(StartExtras::default().with_request("click-1").is_ok());
    /// assert!(StartExtras::default().with_request("").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// When it is empty, longer than [`REQUEST_ID_BYTES_MAX`], or has other characters than letters and digits of
    /// ASCII, `-` and `_`.
    pub fn with_request(mut self, id: impl Into<String>) -> Result<Self, String> {
        self.request = Some(id.into());
        self.checked()
    }

    fn checked(self) -> Result<Self, String> {
        self.check().map(|()| self)
    }

    /// Whether a start can carry this.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.deadline_ms.is_some() || self.begins_trace {
            return Err("the first turn computes the deadline and begins the trace".to_owned());
        }
        if let Some(id) = &self.request
            && !is_request_id(id)
        {
            return Err(format!(
                "the id of a request has 1 to {REQUEST_ID_BYTES_MAX} letters and digits of ASCII, `-` and `_`"
            ));
        }
        let memo = self.memo.as_deref().unwrap_or("null");
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(memo) {
            return Err(format!("the memo is no JSON: {error}"));
        }
        let length = self.memo.as_ref().map_or(0, String::len);
        if length > MEMO_BYTES_MAX {
            return Err(format!(
                "the memo has {length} bytes, at most {MEMO_BYTES_MAX} are allowed"
            ));
        }
        match self.timeout_ms {
            Some(0) => Err("an execution timeout of less than a millisecond".to_owned()),
            _ => Ok(()),
        }
    }

    /// The input of a start message that carries this, if it is anything.
    #[must_use]
    pub fn in_front_of(&self, input: String) -> String {
        // The author's own text must not pass for it.
        if *self == Self::default() && !input.starts_with(INPUT_PREFIX) {
            return input;
        }
        let json = self.written();
        format!("{INPUT_PREFIX}{}:{json}{input}", json.len())
    }

    /// What the input of a start message carries, and the rest of it. What no start could carry is part of the input.
    #[must_use]
    pub fn of_input(input: String) -> (Self, String) {
        let parts = input
            .strip_prefix(INPUT_PREFIX)
            .and_then(|rest| rest.split_once(':'))
            .and_then(|(length, rest)| rest.split_at_checked(length.parse().ok()?))
            .and_then(|(json, own)| Some((serde_json::from_str::<Self>(json).ok()?, own)))
            .and_then(|(extras, own)| Some((extras.checked().ok()?, own)));
        match parts {
            Some((extras, own)) => (extras, own.to_owned()),
            None => (Self::default(), input),
        }
    }

    /// As a message that is carried into an execution; `None` if there is nothing to carry.
    #[doc(hidden)]
    #[must_use]
    pub fn carried(&self) -> Option<(String, String)> {
        (*self != Self::default()).then(|| (START_QUEUE.to_owned(), self.written()))
    }

    /// Takes it out of the messages that are carried into an execution.
    pub(crate) fn take_from(carried: &mut Vec<(String, String)>) -> Self {
        let place = carried.iter().position(|(queue, _)| queue == START_QUEUE);
        place.map_or_else(Self::default, |at| read(&carried.remove(at).1))
    }

    /// Begins a trace, whose ids follow from the words, unless what is carried into the execution belongs to one.
    #[doc(hidden)]
    pub fn begin_trace(carried: &mut Vec<(String, String)>, words: &[&str]) {
        let mut extras = Self::take_from(carried);
        if extras.trace.is_none() {
            extras.trace = Some(TraceContext::derived(words));
            extras.begins_trace = true;
        }
        carried.extend(extras.carried());
    }

    /// What an execution began with.
    ///
    /// ```
    /// use duroxide_core::{EventKind, StartExtras};
    /// assert_eq!(StartExtras::recorded_in(&EventKind::KeyValuesCleared), StartExtras::default());
    /// ```
    #[must_use]
    pub fn recorded_in(started: &EventKind) -> Self {
        let EventKind::OrchestrationStarted {
            carry_forward_events: Some(carried),
            ..
        } = started
        else {
            return Self::default();
        };
        let own = carried.iter().find(|(queue, _)| queue == START_QUEUE);
        own.map_or_else(Self::default, |(_, json)| read(json))
    }

    /// From now on the time runs, if it is limited and does not run already.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        if let (Some(timeout), None) = (self.timeout_ms, self.deadline_ms) {
            self.deadline_ms = Some(now_ms.saturating_add(timeout).min(DEADLINE_MAX_MS));
        }
    }

    /// What it is to begin again: the time limit counts anew, and another request asks for it.
    #[must_use]
    pub fn for_another_life(mut self) -> Self {
        self.deadline_ms = None;
        self.request = None;
        if std::mem::take(&mut self.begins_trace) {
            self.trace = None;
        }
        self
    }

    /// The failure of an instance whose time is up.
    #[doc(hidden)]
    #[must_use]
    pub fn time_is_up(&self) -> ErrorDetails {
        let limit = Duration::from_millis(self.timeout_ms.unwrap_or_default());
        ErrorDetails::timed_out(format!("the orchestration did not end within {limit:?}"))
    }

    fn written(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }
}

fn is_request_id(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=REQUEST_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_fit)
}

/// Only the engine writes here; what cannot be read is nothing.
fn read(json: &str) -> StartExtras {
    serde_json::from_str(json).unwrap_or_default()
}

/// The memo of an instance, if these are the events of its first turn and it has one: JSON, which a store keeps as it
/// is.
///
/// ```
/// use duroxide_core::memo_at_birth;
/// assert_eq!(memo_at_birth(&[]), None);
/// ```
#[must_use]
pub fn memo_at_birth(events: &[Event]) -> Option<String> {
    let first = events.first()?;
    let is_first = first.execution_id == crate::ids::INITIAL_EXECUTION_ID;
    let recorded = || StartExtras::recorded_in(&first.kind).memo;
    is_first.then(recorded).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> StartExtras {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = TraceContext::parse(header, Some("a=1")).unwrap();
        let extras = StartExtras::default().with_memo("é \"7\"").unwrap();
        let extras = extras.with_timeout(Duration::from_secs(7)).unwrap();
        let extras = extras.with_request("click-1").unwrap();
        extras.with_trace(trace)
    }

    #[test]
    fn every_input_comes_through_as_it_was() {
        let looks_like_one = all().in_front_of("x".to_owned());
        for input in [
            "",
            "plain",
            INPUT_PREFIX,
            "duroxide:start:9:{}",
            "é",
            &looks_like_one,
        ] {
            for extras in [StartExtras::default(), all()] {
                let sent = extras.in_front_of(input.to_owned());
                assert_eq!(StartExtras::of_input(sent), (extras, input.to_owned()));
            }
        }
        let plain = StartExtras::default().in_front_of("plain".to_owned());
        assert_eq!(plain, "plain", "a start that carries nothing is as it was");
    }

    #[test]
    fn what_no_start_could_carry_is_part_of_the_input() {
        let long = format!("\"{}\"", "x".repeat(MEMO_BYTES_MAX));
        let unfit = [
            StartExtras {
                memo: Some(long),
                ..StartExtras::default()
            },
            StartExtras {
                timeout_ms: Some(0),
                ..StartExtras::default()
            },
            StartExtras {
                memo: Some("no JSON".to_owned()),
                ..StartExtras::default()
            },
            StartExtras {
                deadline_ms: Some(7),
                ..StartExtras::default()
            },
            StartExtras {
                begins_trace: true,
                ..StartExtras::default()
            },
            StartExtras {
                request: Some("two words".to_owned()),
                ..StartExtras::default()
            },
            StartExtras {
                request: Some("x".repeat(REQUEST_ID_BYTES_MAX + 1)),
                ..StartExtras::default()
            },
        ];
        for extras in unfit {
            let sent = extras.in_front_of("x".to_owned());
            assert_eq!(
                StartExtras::of_input(sent.clone()),
                (StartExtras::default(), sent)
            );
        }
        assert!(
            StartExtras::default()
                .with_memo(&"x".repeat(MEMO_BYTES_MAX - 2))
                .is_ok()
        );
        assert!(
            StartExtras::default()
                .with_memo(&"x".repeat(MEMO_BYTES_MAX - 1))
                .is_err()
        );
        assert!(
            StartExtras::default()
                .with_timeout(Duration::from_nanos(7))
                .is_err()
        );
    }

    #[test]
    fn the_deadline_is_computed_once_and_overflows_nowhere() {
        let mut extras = all();
        extras.begin(1_000);
        extras.begin(9_000);
        assert_eq!(extras.deadline_ms, Some(8_000));
        let mut endless = StartExtras::default().with_timeout(Duration::MAX).unwrap();
        endless.begin(u64::MAX);
        assert_eq!(endless.deadline_ms, Some(DEADLINE_MAX_MS));
    }

    #[test]
    fn it_comes_back_out_of_a_record() {
        let (queue, json) = all().carried().unwrap();
        let mut carried = vec![("orders".to_owned(), "x".to_owned()), (queue, json)];
        assert_eq!(StartExtras::take_from(&mut carried), all());
        assert_eq!(carried.len(), 1);
        assert_eq!(StartExtras::take_from(&mut carried), StartExtras::default());
        assert_eq!(read("not JSON"), StartExtras::default());
    }
}
