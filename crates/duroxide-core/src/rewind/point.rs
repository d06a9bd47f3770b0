//! Where a record is cut. In: the history of a failed execution. Out: the place of the first event
//! that is dropped. The cut is never before the second event.

use std::collections::{HashMap, HashSet};

use super::{NoRewind, RewindPoint};
use crate::durable::{SYSCALL_AWAIT_INSTANCE, SYSCALL_PREFIX, SYSCALL_RUN_PREFIX};
use crate::event::{AppErrorKind, ErrorDetails, Event, EventKind};
use crate::ids::INITIAL_EVENT_ID;
use crate::limits::EXCEEDS_LIMIT;

/// The place of the first event to drop.
pub(super) fn find(history: &[Event], point: RewindPoint) -> Result<usize, NoRewind> {
    let (details, execution_id) = failure(history)?;
    let place = match point {
        RewindPoint::Failure => cause(history, details).unwrap_or_else(|| end(history)),
        RewindPoint::End => end(history),
        RewindPoint::Event(event_id) => history
            .iter()
            .position(|event| event.event_id == event_id)
            .filter(|place| *place > 0)
            .ok_or(NoRewind::NoSuchEvent {
                execution_id,
                event_id,
            })?,
    };
    // One whose time is up ends wherever its record says so.
    let place = time_is_up(history).map_or(place, |up| up.min(place));
    Ok(before_open_questions(history, place))
}

/// How the execution failed; the reason if it did not.
fn failure(history: &[Event]) -> Result<(&ErrorDetails, u64), NoRewind> {
    let last = history.last().ok_or(NoRewind::NoHistory)?;
    // A failure counts even if something stands behind it: a successor that could not be written elsewhere ends there.
    let mut ends = history.iter().filter(|event| event.is_terminal());
    let end = ends.next_back().ok_or(NoRewind::Running)?;
    match &end.kind {
        EventKind::OrchestrationFailed { details } => Ok((details, last.execution_id)),
        EventKind::OrchestrationCompleted { .. } => Err(NoRewind::Completed),
        _ => Err(NoRewind::ContinuedAsNew),
    }
}

/// What made it fail, if one event did.
fn cause(history: &[Event], details: &ErrorDetails) -> Option<usize> {
    if details.is_cancelled() {
        let asked =
            |event: &Event| matches!(event.kind, EventKind::OrchestrationCancelRequested { .. });
        return history.iter().position(asked);
    }
    if details.is_timed_out() {
        return time_is_up(history);
    }
    let failed = failed_results(history);
    let says_the_same = |place: &&usize| {
        failed_with(&history[**place])
            .is_some_and(|it| it == details || it.display_message() == details.display_message())
    };
    let same = failed.iter().rfind(says_the_same);
    let is_of_code = match details {
        ErrorDetails::Infrastructure { .. } => true,
        ErrorDetails::Application { kind, message, .. } => match kind {
            AppErrorKind::ActivityFailed => true,
            // A limit that the code broke is no error that it returned, and no earlier failure is to blame.
            AppErrorKind::OrchestrationFailed => !message.contains(EXCEEDS_LIMIT),
            _ => false,
        },
        _ => false,
    };
    let anchor = same.or_else(|| failed.last().filter(|_| is_of_code))?;
    Some(first_of_its_run(history, &failed, *anchor))
}

/// Where the record says that the time of the instance is up.
fn time_is_up(history: &[Event]) -> Option<usize> {
    let fired = |event: &Event| {
        matches!(event.kind, EventKind::TimerFired { .. })
            && event.source_event_id == Some(INITIAL_EVENT_ID)
    };
    history.iter().position(fired)
}

/// The earliest failed result from which on nothing was answered, up to this one, that was asked for after it: no
/// activity or child with a value, no wait with a signal or message. Calls that failed side by side, and attempts of
/// one call, belong together; a failure that the code got over with other work does not.
fn first_of_its_run(history: &[Event], failed: &[usize], anchor: usize) -> usize {
    let mut first = anchor;
    for earlier in failed.iter().rev().filter(|place| **place < anchor) {
        let asked_after = history[*earlier].event_id;
        let is_lost = |event: &Event| {
            is_success(event)
                && event
                    .source_event_id
                    .is_some_and(|asked| asked > asked_after)
        };
        let since = &history[*earlier..anchor];
        if since.iter().any(is_lost) || heard_from_outside(since) {
            break;
        }
        first = *earlier;
    }
    first
}

/// Whether the code asked for a signal or a queue message in this part of a record, and one of that name came.
fn heard_from_outside(part: &[Event]) -> bool {
    part.iter().enumerate().any(|(place, event)| {
        let mut later = part[place..].iter().map(|event| &event.kind);
        match &event.kind {
            EventKind::ExternalSubscribed { name } => later
                .any(|kind| matches!(kind, EventKind::ExternalEvent { name: of, .. } if of == name)),
            EventKind::QueueSubscribed { name } => later.any(
                |kind| matches!(kind, EventKind::QueueEventDelivered { name: of, .. } if of == name),
            ),
            _ => false,
        }
    })
}

/// Whether an activity or a child gave a value.
pub(super) fn is_success(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityCompleted { .. } | EventKind::SubOrchestrationCompleted { .. }
    )
}

/// The places of failed results that were not overcome, and that the code still wanted when they came.
fn failed_results(history: &[Event]) -> Vec<usize> {
    let mut asked = HashMap::new();
    let mut unwanted = HashSet::new();
    let mut failed: Vec<(usize, (&str, &str))> = Vec::new();
    for (place, event) in history.iter().enumerate() {
        let source = event.source_event_id.unwrap_or_default();
        match &event.kind {
            EventKind::ActivityScheduled { name, input, .. }
            | EventKind::SubOrchestrationScheduled { name, input, .. } => {
                asked.insert(event.event_id, (name.as_str(), input.as_str(), place));
            }
            EventKind::ActivityCancelRequested { .. }
            | EventKind::SubOrchestrationCancelRequested { .. } => {
                unwanted.insert(source);
            }
            EventKind::ActivityFailed { .. } | EventKind::SubOrchestrationFailed { .. } => {
                if let Some((name, input, _)) = asked.get(&source)
                    && !unwanted.contains(&source)
                    && (!is_question(name) || name.starts_with(SYSCALL_RUN_PREFIX))
                {
                    failed.push((place, (name, input)));
                }
            }
            EventKind::ActivityCompleted { .. } | EventKind::SubOrchestrationCompleted { .. } => {
                if let Some((name, input, asked_at)) = asked.get(&source) {
                    let same = (*name, *input);
                    failed.retain(|(at, what)| *what != same || at > asked_at);
                }
            }
            _ => {}
        }
    }
    failed.into_iter().map(|(place, _)| place).collect()
}

fn failed_with(event: &Event) -> Option<&ErrorDetails> {
    match &event.kind {
        EventKind::ActivityFailed { details } | EventKind::SubOrchestrationFailed { details } => {
            Some(details)
        }
        _ => None,
    }
}

/// Behind the last thing that came in from outside or that cannot be taken back.
fn end(history: &[Event]) -> usize {
    let stays = |event: &Event| {
        event.kind.is_arrival()
            || matches!(
                event.kind,
                EventKind::OrchestrationChained { .. }
                    | EventKind::SubOrchestrationScheduled { .. }
            )
    };
    // The first event is an arrival.
    history.iter().rposition(stays).map_or(1, |place| place + 1)
}

/// Questions to the host are asked and answered within a turn, so none may be left open: the code asks them again.
fn before_open_questions(history: &[Event], mut place: usize) -> usize {
    loop {
        let kept = &history[..place];
        let answered: HashSet<u64> = kept.iter().filter_map(|e| e.source_event_id).collect();
        let open = kept.iter().position(|event| match &event.kind {
            EventKind::ActivityScheduled { name, .. } => {
                is_question(name) && !answered.contains(&event.event_id)
            }
            _ => false,
        });
        match open {
            Some(earlier) => place = earlier,
            None => return place,
        }
    }
}

/// Whether the engine answers it within the turn. Work in place is such a question too.
fn is_question(name: &str) -> bool {
    name.starts_with(SYSCALL_PREFIX) && name != SYSCALL_AWAIT_INSTANCE
}
