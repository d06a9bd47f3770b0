//! Failures of a call before it was asked for again. In: events, in their order. Out: how often and how the call failed
//! before. Pure.
//!
//! A policy that retries records every attempt as an activity of its own, and no event says that it is the next attempt
//! of another. What the record shows is this: the same call (name, input, tag, session) failed, and was asked for again
//! after that. Each failure counts for one call that follows it, the latest first, so that a hundred equal calls that
//! failed once each are not told as one that failed a hundred times.

use std::collections::HashMap;

use duroxide_core::{ErrorDetails, Event, EventKind};

use super::types::FailedBefore;

/// What makes two activities the same call: name, input, tag, session.
type Call<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a str>);

/// The failures of a call up to one of them.
#[derive(Debug, Clone, Copy)]
struct Failed<'a> {
    name: &'a str,
    times: u32,
    last: &'a ErrorDetails,
    at_ms: u64,
}

impl Failed<'_> {
    fn told(self) -> FailedBefore {
        FailedBefore {
            activity: self.name.to_owned(),
            times: self.times,
            last_error: self.last.display_message(),
            at_ms: self.at_ms,
        }
    }
}

/// The failures of one execution so far.
#[derive(Debug, Default)]
pub(super) struct Failures<'a> {
    /// Activities without an answer, by the event that scheduled them.
    asked: HashMap<u64, (Call<'a>, Option<Failed<'a>>)>,
    /// Failures after which the same call was not asked for again, the latest last.
    left: HashMap<Call<'a>, Vec<Failed<'a>>>,
    /// What the event before the current one was, if it was a failure.
    just_before: Option<Failed<'a>>,
    current: Option<Failed<'a>>,
}

impl<'a> Failures<'a> {
    pub(super) fn take(&mut self, event: &'a Event) {
        self.just_before = self.current.take();
        match &event.kind {
            EventKind::ActivityScheduled {
                name,
                input,
                session_id,
                tag,
            } => {
                let call = (
                    name.as_str(),
                    input.as_str(),
                    tag.as_deref(),
                    session_id.as_deref(),
                );
                let before = self.left.get_mut(&call).and_then(Vec::pop);
                self.asked.insert(event.event_id, (call, before));
            }
            EventKind::ActivityFailed { details } => {
                let answered = event.source_event_id.and_then(|id| self.asked.remove(&id));
                if let Some((call, before)) = answered {
                    let failed = Failed {
                        name: call.0,
                        times: before.map_or(1, |before| before.times.saturating_add(1)),
                        last: details,
                        at_ms: event.timestamp_ms,
                    };
                    self.left.entry(call).or_default().push(failed);
                    self.current = Some(failed);
                }
            }
            EventKind::ActivityCompleted { .. } | EventKind::ActivityCancelRequested { .. } => {
                if let Some(id) = event.source_event_id {
                    self.asked.remove(&id);
                }
            }
            _ => {}
        }
    }

    /// How the call of an activity that has no answer failed before.
    pub(super) fn of(&self, activity_id: u64) -> Option<FailedBefore> {
        let (_, before) = self.asked.get(&activity_id)?;
        before.map(Failed::told)
    }

    /// The failure that stands directly before the event that was taken last: a timer that the code set in answer to it
    /// is the pause before the next attempt, or the author's own.
    pub(super) fn just_before(&self) -> Option<FailedBefore> {
        self.just_before.map(Failed::told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history of the events, each at a hundred times its number.
    fn history(kinds: Vec<(Option<u64>, EventKind)>) -> Vec<Event> {
        let number = |(at, (source, kind)): (usize, (Option<u64>, EventKind))| {
            let mut event = Event::with_event_id(at as u64 + 1, "i", 1, source, kind);
            event.timestamp_ms = event.event_id * 100;
            event
        };
        kinds.into_iter().enumerate().map(number).collect()
    }

    fn scheduled(input: &str) -> (Option<u64>, EventKind) {
        let kind = EventKind::ActivityScheduled {
            name: "charge".into(),
            input: input.into(),
            session_id: None,
            tag: None,
        };
        (None, kind)
    }

    fn failed(source: u64, error: &str) -> (Option<u64>, EventKind) {
        let details = ErrorDetails::activity_failed(error);
        (Some(source), EventKind::ActivityFailed { details })
    }

    fn completed(source: u64) -> (Option<u64>, EventKind) {
        let result = String::new();
        (Some(source), EventKind::ActivityCompleted { result })
    }

    fn timer() -> (Option<u64>, EventKind) {
        (None, EventKind::TimerCreated { fire_at_ms: 9 })
    }

    /// How often an activity failed before, and the last error.
    fn before(kinds: Vec<(Option<u64>, EventKind)>, id: u64) -> Option<(u32, String, u64)> {
        let history = history(kinds);
        let mut failures = Failures::default();
        history.iter().for_each(|event| failures.take(event));
        let failed = failures.of(id)?;
        Some((failed.times, failed.last_error, failed.at_ms))
    }

    #[test]
    fn a_call_that_is_tried_again_has_failed_before() {
        let mut kinds = vec![
            scheduled("1"),
            failed(1, "no funds"),
            timer(),
            scheduled("1"),
        ];
        assert_eq!(before(kinds.clone(), 4), Some((1, "no funds".into(), 200)));
        kinds.extend([failed(4, "still none"), scheduled("1")]);
        assert_eq!(before(kinds, 6), Some((2, "still none".into(), 500)));
    }

    #[test]
    fn another_call_has_not_failed_before() {
        let kinds = vec![scheduled("1"), failed(1, "no funds"), scheduled("2")];
        assert_eq!(before(kinds, 3), None);
    }

    #[test]
    fn a_call_that_runs_beside_one_that_failed_has_not_failed_before() {
        let kinds = vec![scheduled("1"), scheduled("1"), failed(1, "no funds")];
        assert_eq!(before(kinds, 2), None);
    }

    #[test]
    fn equal_calls_that_failed_once_each_are_not_told_as_one_that_failed_twice() {
        let kinds = vec![
            scheduled("1"),
            scheduled("1"),
            failed(1, "a"),
            failed(2, "b"),
            scheduled("1"),
            scheduled("1"),
        ];
        assert_eq!(before(kinds.clone(), 5), Some((1, "b".into(), 400)));
        assert_eq!(before(kinds, 6), Some((1, "a".into(), 300)));
    }

    #[test]
    fn a_call_that_succeeded_since_has_not_failed_before() {
        let kinds = vec![
            scheduled("1"),
            failed(1, "no funds"),
            scheduled("1"),
            completed(3),
            scheduled("1"),
        ];
        assert_eq!(before(kinds, 5), None);
    }

    #[test]
    fn only_what_follows_a_failure_directly_was_set_after_it() {
        let history = history(vec![
            scheduled("1"),
            failed(1, "no funds"),
            timer(),
            timer(),
        ]);
        let mut failures = Failures::default();
        let mut told = |at: usize| {
            failures.take(&history[at]);
            failures.just_before().map(|failed| failed.last_error)
        };
        let all: Vec<_> = (0..4).map(&mut told).collect();
        assert_eq!(all, [None, None, Some("no funds".to_owned()), None]);
    }
}
