//! One history alone. In: the events of an execution that has ended. Out: what is wrong with them.

use std::collections::HashSet;
use std::path::Path;

use duroxide::{Event, EventKind};

use crate::clock;
use crate::ops::BY;

/// What recorded times can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockOfRun {
    /// Each other.
    Even,
    /// Nothing: the clock was set on the way, and a timer that was to fire at a time by the clock before may fire at
    /// another one by the clock after.
    WasSet,
}

impl ClockOfRun {
    pub(crate) fn of(folder: &Path) -> Self {
        if clock::is_settable(folder) {
            Self::WasSet
        } else {
            Self::Even
        }
    }
}

/// Ids without gaps, one beginning, one end and nothing behind it, one answer per schedule, answers after schedules.
pub(crate) fn check(
    instance: &str,
    execution: u64,
    history: &[Event],
    clock: ClockOfRun,
    violations: &mut Vec<String>,
) {
    let mut say = |what: String| violations.push(format!("{instance}/{execution}: {what}"));
    let ids: Vec<u64> = history.iter().map(|e| e.event_id).collect();
    if ids != (1..=history.len() as u64).collect::<Vec<_>>() {
        say(format!("event ids {ids:?}"));
    }
    let starts = history
        .iter()
        .filter(|e| e.started_handler().is_some())
        .count();
    let ends = history.iter().filter(|e| e.is_terminal()).count();
    if starts != 1 || ends != 1 || !history.last().is_some_and(Event::is_terminal) {
        say(format!("{starts} starts and {ends} ends"));
    }
    for (schedule, answers) in wrong_answers(history, clock) {
        say(format!("event {schedule} has {answers}"));
    }
    if let Some((recorded, ran)) = other_version(history) {
        say(format!("recorded with version {recorded}, and {ran} ran"));
    }
    let mut answered = HashSet::new();
    for event in history {
        if let (Some(source), true) = (event.source_event_id, is_answer(&event.kind)) {
            if source >= event.event_id {
                say(format!("event {} answers {source}", event.event_id));
            }
            if !answered.insert(source) {
                say(format!("event {source} was answered twice"));
            }
        }
    }
}

/// Schedules of an execution that has ended without an answer or a cancellation, and answers of another kind than asked
/// for. Timers that lost their race are let go without a record.
fn wrong_answers(history: &[Event], clock: ClockOfRun) -> Vec<(u64, &'static str)> {
    let mut wrong = Vec::new();
    for event in history {
        let fits: fn(&EventKind) -> bool = match &event.kind {
            EventKind::ActivityScheduled { .. } => |answer| {
                matches!(
                    answer,
                    EventKind::ActivityCompleted { .. }
                        | EventKind::ActivityFailed { .. }
                        | EventKind::ActivityCancelRequested { .. }
                )
            },
            EventKind::SubOrchestrationScheduled { .. } => |answer| {
                matches!(
                    answer,
                    EventKind::SubOrchestrationCompleted { .. }
                        | EventKind::SubOrchestrationFailed { .. }
                        | EventKind::SubOrchestrationCancelRequested { .. }
                )
            },
            EventKind::TimerCreated { fire_at_ms } => {
                let is_its = |e: &&Event| e.source_event_id == Some(event.event_id);
                if let Some(fired) = history.iter().find(is_its)
                    && clock == ClockOfRun::Even
                    && fired.timestamp_ms < *fire_at_ms
                {
                    wrong.push((event.event_id, "fired early"));
                }
                continue;
            }
            _ => continue,
        };
        let mut answers = history
            .iter()
            .filter(|e| e.source_event_id == Some(event.event_id))
            .peekable();
        if answers.peek().is_none() {
            wrong.push((event.event_id, "no answer"));
        } else if !answers.all(|answer| fits(&answer.kind)) {
            wrong.push((event.event_id, "an answer of another kind"));
        }
    }
    wrong
}

/// The version that an execution was recorded with and the one whose code says that it ran, if they differ.
fn other_version(history: &[Event]) -> Option<(String, String)> {
    let (_, recorded) = history.iter().find_map(Event::started_handler)?;
    let output = history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationCompleted { output } => Some(output),
        _ => None,
    })?;
    let (_, rest) = output.split_once(BY)?;
    let ran = rest.split(':').next()?;
    (ran != recorded).then(|| (recorded, ran.to_owned()))
}

fn is_answer(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, source: Option<u64>, at_ms: u64, kind: EventKind) -> Event {
        let mut event = Event::with_event_id(id, "a", 1, source, kind);
        event.timestamp_ms = at_ms;
        event
    }

    fn started() -> EventKind {
        EventKind::OrchestrationStarted {
            name: "transfer".to_owned(),
            version: "1.0.0".to_owned(),
            input: String::new(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        }
    }

    fn scheduled() -> EventKind {
        EventKind::ActivityScheduled {
            name: "debit".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        }
    }

    fn completed() -> EventKind {
        EventKind::ActivityCompleted {
            result: String::new(),
        }
    }

    fn ended() -> EventKind {
        EventKind::OrchestrationCompleted {
            output: String::new(),
        }
    }

    /// What is said of a history whose events have these kinds, sources and times.
    fn said(events: &[(Option<u64>, u64, EventKind)]) -> Vec<String> {
        let history: Vec<Event> = events
            .iter()
            .zip(1..)
            .map(|((source, at_ms, kind), id)| event(id, *source, *at_ms, kind.clone()))
            .collect();
        let mut violations = Vec::new();
        check("a", 1, &history, ClockOfRun::Even, &mut violations);
        violations
    }

    #[test]
    fn a_history_as_it_should_be_is_right() {
        let timer = EventKind::TimerCreated { fire_at_ms: 9 };
        let fired = EventKind::TimerFired { fire_at_ms: 9 };
        let history = [
            (None, 1, started()),
            (None, 1, scheduled()),
            (None, 1, timer),
            (Some(2), 5, completed()),
            (Some(3), 9, fired),
            (None, 9, ended()),
        ];
        assert_eq!(said(&history), [""; 0]);
    }

    #[test]
    fn two_answers_are_noticed() {
        let twice = [
            (None, 1, started()),
            (None, 1, scheduled()),
            (Some(2), 5, completed()),
            (Some(2), 6, completed()),
            (None, 9, ended()),
        ];
        assert_eq!(said(&twice), ["a/1: event 2 was answered twice"]);
    }

    #[test]
    fn a_schedule_without_answer_is_noticed() {
        let child = EventKind::SubOrchestrationScheduled {
            name: "child".to_owned(),
            instance: "a::sub::2".to_owned(),
            input: String::new(),
        };
        for kind in [scheduled(), child] {
            let open = [(None, 1, started()), (None, 1, kind), (None, 9, ended())];
            assert_eq!(said(&open), ["a/1: event 2 has no answer"]);
        }
    }

    #[test]
    fn an_answer_of_another_kind_is_noticed() {
        let answer = EventKind::SubOrchestrationCompleted {
            result: String::new(),
        };
        let history = [
            (None, 1, started()),
            (None, 1, scheduled()),
            (Some(2), 5, answer),
            (None, 9, ended()),
        ];
        assert_eq!(
            said(&history),
            ["a/1: event 2 has an answer of another kind"]
        );
    }

    #[test]
    fn an_answer_before_its_schedule_is_noticed() {
        let history = [
            (None, 1, started()),
            (Some(3), 1, completed()),
            (None, 5, scheduled()),
            (None, 9, ended()),
        ];
        assert_eq!(said(&history), ["a/1: event 2 answers 3"]);
    }

    #[test]
    fn a_timer_that_fires_early_is_noticed() {
        let history = [
            (None, 1, started()),
            (None, 1, EventKind::TimerCreated { fire_at_ms: 9 }),
            (Some(2), 8, EventKind::TimerFired { fire_at_ms: 9 }),
            (None, 9, ended()),
        ];
        assert_eq!(said(&history), ["a/1: event 2 has fired early"]);
    }

    #[test]
    fn code_of_another_version_than_the_recorded_one_is_noticed() {
        let ended = |output: &str| EventKind::OrchestrationCompleted {
            output: output.to_owned(),
        };
        let by = |version: &str| {
            let output = format!("op-1-2-3 by {version}: debited, go, 1+2+3");
            said(&[(None, 1, started()), (None, 9, ended(&output))])
        };
        assert_eq!(by("1.0.0"), [""; 0]);
        assert_eq!(
            by("2.0.0"),
            ["a/1: recorded with version 1.0.0, and 2.0.0 ran"]
        );
    }

    #[test]
    fn beginnings_ends_and_gaps_are_counted() {
        assert_eq!(said(&[(None, 1, started())]), ["a/1: 1 starts and 0 ends"]);
        let behind = [(None, 1, started()), (None, 2, ended()), (None, 3, ended())];
        assert_eq!(said(&behind), ["a/1: 1 starts and 2 ends"]);
        let mut violations = Vec::new();
        let gap = [event(1, None, 1, started()), event(3, None, 1, ended())];
        check("a", 1, &gap, ClockOfRun::Even, &mut violations);
        assert_eq!(violations, ["a/1: event ids [1, 3]"]);
    }
}
