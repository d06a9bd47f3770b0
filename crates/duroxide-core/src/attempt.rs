//! What a worker gets with a call beside its input: which attempt it is, how long it may take, and the trace it belongs to.
//!
//! Each attempt of a retried call is an activity of its own, with a scheduling event of its own. The work item has no field
//! for the first one nor for limits, so its input carries them: the engine puts them in front, the worker takes them off
//! again. Histories hold the author's input alone.

use std::time::Duration;

use crate::trace_context::TraceContext;

/// What the input of a work item begins with that names the first attempt.
const PREFIX: &str = "duroxide:attempt-of:";

/// What the input of a work item begins with that limits the attempt.
const LIMITS_PREFIX: &str = "duroxide:limits:";

/// What the input of a work item begins with that belongs to a trace.
const TRACE_PREFIX: &str = "duroxide:trace:";

/// The input of a work item with the trace of its orchestration in front, if that has one.
pub(crate) fn traced(trace: Option<&TraceContext>, input: String) -> String {
    let json = match trace {
        Some(trace) => serde_json::to_string(trace).unwrap_or_default(),
        // The author's own text must not pass for a trace.
        None if input.starts_with(TRACE_PREFIX) => String::new(),
        None => return input,
    };
    format!("{TRACE_PREFIX}{}:{json}{input}", json.len())
}

/// The trace that the orchestration of a work item belongs to, and the rest of the item's input.
///
/// ```
/// use duroxide_core::trace_of;
/// assert_eq!(trace_of("three apples"), (None, "three apples"));
/// ```
#[must_use]
pub fn trace_of(input: &str) -> (Option<TraceContext>, &str) {
    let parts = input
        .strip_prefix(TRACE_PREFIX)
        .and_then(|rest| rest.split_once(':'))
        .and_then(|(length, rest)| rest.split_at_checked(length.parse().ok()?));
    match parts {
        Some(("", own)) => (None, own),
        Some((json, own)) => match serde_json::from_str(json) {
            Ok(trace) => (Some(trace), own),
            Err(_) => (None, input),
        },
        None => (None, input),
    }
}

/// Limits that the worker itself keeps, for one attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AttemptLimits {
    /// How long the attempt may run.
    pub start_to_close: Option<Duration>,
    /// How long the activity may be silent; see `ActivityContext::heartbeat`.
    pub heartbeat: Option<Duration>,
}

impl AttemptLimits {
    /// Takes the limits off the input of a work item: the limits, and what was behind them.
    ///
    /// ```
    /// use duroxide_core::AttemptLimits;
    /// use std::time::Duration;
    /// let (limits, input) = AttemptLimits::of("duroxide:limits:1500,:three apples");
    /// assert_eq!(limits.start_to_close, Some(Duration::from_millis(1500)));
    /// assert_eq!((limits.heartbeat, input), (None, "three apples"));
    /// ```
    #[must_use]
    pub fn of(input: &str) -> (Self, &str) {
        let parts = input
            .strip_prefix(LIMITS_PREFIX)
            .and_then(|rest| rest.split_once(':'))
            .and_then(|(limits, own)| Some((limits.split_once(',')?, own)));
        let Some(((start_to_close, heartbeat), own)) = parts else {
            return (Self::default(), input);
        };
        let limit = |text: &str| text.parse().ok().map(Duration::from_millis);
        let limits = Self {
            start_to_close: limit(start_to_close),
            heartbeat: limit(heartbeat),
        };
        (limits, own)
    }

    /// The input of a work item with these limits in front, if there are any.
    pub(crate) fn in_front_of(self, input: String) -> String {
        // The author's own text must not pass for limits.
        if self == Self::default() && !input.starts_with(LIMITS_PREFIX) {
            return input;
        }
        let millis = |limit: Option<Duration>| {
            limit.map_or_else(String::new, |limit| {
                u64::try_from(limit.as_millis())
                    .unwrap_or(u64::MAX)
                    .to_string()
            })
        };
        format!(
            "{LIMITS_PREFIX}{},{}:{input}",
            millis(self.start_to_close),
            millis(self.heartbeat)
        )
    }
}

/// The input of a work item: the author's, with the first attempt in front where the activity could not know it.
pub(crate) fn wrapped(first: Option<u64>, own: u64, input: String) -> String {
    match first {
        Some(first) => format!("{PREFIX}{first}:{input}"),
        // The author's own text, which must not pass for an attempt.
        None if input.starts_with(PREFIX) => format!("{PREFIX}{own}:{input}"),
        None => input,
    }
}

/// The first attempt of the call that a work item belongs to, by its scheduling event, and the author's input. Without a
/// first attempt the work item is the first itself.
///
/// ```
/// use duroxide_core::attempt_of;
/// assert_eq!(attempt_of("three apples"), (None, "three apples"));
/// assert_eq!(attempt_of("duroxide:attempt-of:2:three apples"), (Some(2), "three apples"));
/// ```
#[must_use]
pub fn attempt_of(input: &str) -> (Option<u64>, &str) {
    let parts = input
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once(':'));
    match parts.map(|(first, own)| (first.parse(), own)) {
        Some((Ok(first), own)) => (Some(first), own),
        _ => (None, input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_through_and_no_input_passes_for_them() {
        let looks_like_limits = format!("{LIMITS_PREFIX}7,8:x");
        let limits = AttemptLimits {
            start_to_close: Some(Duration::from_secs(3)),
            heartbeat: None,
        };
        for input in ["", "plain", "a:b", LIMITS_PREFIX, &looks_like_limits] {
            for limits in [AttemptLimits::default(), limits] {
                let sent = limits.in_front_of(input.to_owned());
                assert_eq!(AttemptLimits::of(&sent), (limits, input));
            }
        }
    }

    #[test]
    fn a_trace_comes_through_and_no_input_passes_for_one() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = TraceContext::parse(header, Some("a=1")).unwrap();
        let looks_like_one = traced(Some(&trace), "x".to_owned());
        for input in [
            "",
            "plain",
            TRACE_PREFIX,
            "duroxide:trace:2:{}x",
            &looks_like_one,
        ] {
            for trace in [None, Some(trace.clone())] {
                let sent = traced(trace.as_ref(), input.to_owned());
                assert_eq!(trace_of(&sent), (trace, input));
            }
        }
    }

    #[test]
    fn every_input_comes_through_as_it_was() {
        let looks_like_one = format!("{PREFIX}7:x");
        for input in [
            "",
            "plain",
            PREFIX,
            "duroxide:attempt-of:x:y",
            &looks_like_one,
        ] {
            for first in [None, Some(2), Some(u64::MAX)] {
                let sent = wrapped(first, 9, input.to_owned());
                let (named, own) = attempt_of(&sent);
                assert_eq!(own, input);
                assert_eq!(named.unwrap_or(9), first.unwrap_or(9));
            }
        }
    }
}
