//! What a worker gets with a call beside its input: which attempt it is, how long it may take, and the trace it belongs
//! to.
//!
//! Each attempt of a retried call is an activity of its own, with a scheduling event of its own; and a rewound
//! execution asks for calls anew that an earlier one made. The work item has no field for where the call began nor for
//! limits, so its input carries them: the engine puts them in front, the worker takes them off again. Histories hold
//! the author's input alone.

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

/// Where a call of an activity began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallOrigin {
    /// The scheduling event of its first attempt; `None`: the work item is the first itself.
    pub first_attempt: Option<u64>,
    /// The execution that made the call, if it is an earlier one, which failed and was rewound.
    pub execution_id: Option<u64>,
}

impl CallOrigin {
    /// The input of a work item with this scheduling event: the author's, with the origin in front where the activity
    /// could not know it.
    pub(crate) fn in_front_of(self, own: u64, input: String) -> String {
        let first = self.first_attempt.unwrap_or(own);
        match self.execution_id {
            Some(execution) => format!("{PREFIX}{first}@{execution}:{input}"),
            // The author's own text must not pass for an origin.
            None if self.first_attempt.is_some() || input.starts_with(PREFIX) => {
                format!("{PREFIX}{first}:{input}")
            }
            None => input,
        }
    }

    /// Takes the origin off the input of a work item: the origin, and the author's input.
    ///
    /// ```
    /// use duroxide_core::CallOrigin;
    /// assert_eq!(CallOrigin::of("three apples"), (CallOrigin::default(), "three apples"));
    /// let (origin, input) = CallOrigin::of("duroxide:attempt-of:2@1:three apples");
    /// assert_eq!((origin.first_attempt, origin.execution_id, input), (Some(2), Some(1), "three apples"));
    /// ```
    #[must_use]
    pub fn of(input: &str) -> (Self, &str) {
        let parts = input
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once(':'))
            .and_then(|(origin, own)| Some((Self::read(origin)?, own)));
        parts.unwrap_or((Self::default(), input))
    }

    fn read(text: &str) -> Option<Self> {
        let (first, execution) = match text.split_once('@') {
            Some((first, execution)) => (first, Some(execution.parse().ok()?)),
            None => (text, None),
        };
        Some(Self {
            first_attempt: Some(first.parse().ok()?),
            execution_id: execution,
        })
    }
}

/// The first attempt of the call that a work item belongs to, by its scheduling event, and the author's input. Without
/// a first attempt the work item is the first itself.
///
/// ```
/// use duroxide_core::attempt_of;
/// assert_eq!(attempt_of("three apples"), (None, "three apples"));
/// assert_eq!(attempt_of("duroxide:attempt-of:2:three apples"), (Some(2), "three apples"));
/// ```
#[must_use]
pub fn attempt_of(input: &str) -> (Option<u64>, &str) {
    let (origin, own) = CallOrigin::of(input);
    (origin.first_attempt, own)
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
            "duroxide:attempt-of:2@x:y",
            &looks_like_one,
        ] {
            for first_attempt in [None, Some(2), Some(u64::MAX)] {
                for execution_id in [None, Some(1)] {
                    let origin = CallOrigin {
                        first_attempt,
                        execution_id,
                    };
                    let sent = origin.in_front_of(9, input.to_owned());
                    let (named, own) = CallOrigin::of(&sent);
                    assert_eq!((own, named.execution_id), (input, execution_id));
                    let named = named.first_attempt.unwrap_or(9);
                    assert_eq!(named, first_attempt.unwrap_or(9));
                }
            }
        }
    }
}
