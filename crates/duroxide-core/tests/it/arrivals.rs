//! What the world answers: which operations of a history are open, and the messages that answer them.

use std::collections::HashSet;

use duroxide_core::{ErrorDetails, Event, EventKind, WorkItem};

use crate::history::{
    cancel, child_completed, child_failed, completed, failed, failed_with, fired, in_execution,
    poison, queue_message, signal,
};
use crate::program::hash;

/// A small random number generator, so that a case is repeated by its seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

/// An operation that a message can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) kind: EventKind,
}

/// Operations of a history without an answer, dropped ones included if asked for.
pub(crate) fn open(history: &[Event], with_dropped: bool) -> Vec<Open> {
    let mut closed = HashSet::new();
    for event in history {
        let is_cancel = event.kind.wire_name().contains("Cancel");
        if let Some(source) = event
            .source_event_id
            .filter(|_| !(with_dropped && is_cancel))
        {
            closed.insert(source);
        }
    }
    close_read(history, &mut closed);
    history
        .iter()
        .filter(|event| {
            matches!(
                event.kind,
                EventKind::ActivityScheduled { .. }
                    | EventKind::TimerCreated { .. }
                    | EventKind::ExternalSubscribed { .. }
                    | EventKind::QueueSubscribed { .. }
                    | EventKind::SubOrchestrationScheduled { .. }
            ) && !closed.contains(&event.event_id)
        })
        .map(|event| Open {
            id: event.event_id,
            kind: event.kind.clone(),
        })
        .collect()
}

/// Signals and queue messages name no schedule: the n-th one of a name closes the n-th wait that is not closed yet.
fn close_read(history: &[Event], closed: &mut HashSet<u64>) {
    for (place, event) in history.iter().enumerate() {
        let reader = match &event.kind {
            EventKind::ExternalEvent { name, .. } => history[..place].iter().find(|wait| {
                !closed.contains(&wait.event_id)
                    && matches!(&wait.kind, EventKind::ExternalSubscribed { name: n } if n == name)
            }),
            EventKind::QueueEventDelivered { name, .. } => history.iter().find(|read| {
                !closed.contains(&read.event_id)
                    && matches!(&read.kind, EventKind::QueueSubscribed { name: n } if n == name)
            }),
            _ => None,
        };
        closed.extend(reader.map(|reader| reader.event_id));
    }
}

/// The message that answers an operation. What it says depends on the operation's label alone.
pub(crate) fn answer(open: &Open, execution: u64) -> WorkItem {
    let id = open.id;
    let message = match &open.kind {
        EventKind::ActivityScheduled { name, input, .. } => match name.as_str() {
            "__duroxide_syscall:utc_now_ms" => completed(id, "1700000000777"),
            "__duroxide_syscall:get_kv_value" => completed(id, "null"),
            "P" if hash(input).is_multiple_of(3) => failed_with(id, poison(2)),
            _ if hash(input).is_multiple_of(31) => failed_with(id, poison(2)),
            _ if hash(input).is_multiple_of(4) => failed(id, &format!("e({input})")),
            _ => completed(id, &format!("r({input})")),
        },
        EventKind::TimerCreated { .. } => fired(id),
        EventKind::ExternalSubscribed { name } => signal(name, &format!("s({name})")),
        EventKind::QueueSubscribed { name } => queue_message(name, &format!("m({name})")),
        EventKind::SubOrchestrationScheduled { input, .. } => match hash(input) % 5 {
            0 => child_failed(id, ErrorDetails::orchestration_failed("child failed")),
            _ => child_completed(id, &format!("c({input})")),
        },
        other => panic!("not an operation: {other:?}"),
    };
    in_execution(execution, message)
}

/// Some message or other: mostly answers, sometimes what nobody asked for.
pub(crate) fn any_message(dice: &mut Dice, history: &[Event], execution: u64) -> Option<WorkItem> {
    let wanted = open(history, false);
    let some = |dice: &mut Dice, from: &[Open]| {
        (!from.is_empty()).then(|| answer(&from[dice.below(from.len())], execution))
    };
    match dice.below(100) {
        0..80 => some(dice, &wanted),
        80..84 => some(dice, &open(history, true)),
        84..85 => {
            let failure = failed_with(wanted.first()?.id, poison(2));
            let is_activity = matches!(wanted[0].kind, EventKind::ActivityScheduled { .. });
            is_activity.then(|| in_execution(execution, failure))
        }
        85..90 => Some(queue_message(
            &format!("q{}", 1 + dice.below(2)),
            &format!("m{}", dice.below(100)),
        )),
        90..94 => Some(signal(&format!("w{}", 1 + dice.below(2)), "early")),
        94..97 => {
            let answered = history
                .iter()
                .filter(|e| !e.kind.wire_name().contains("Cancel"));
            let ids: Vec<u64> = answered.filter_map(|e| e.source_event_id).collect();
            let id = *ids.get(dice.below(ids.len()))?;
            let schedule = &history[id as usize - 1];
            let kind = schedule.kind.clone();
            Some(answer(&Open { id, kind }, execution))
        }
        97..99 => Some(in_execution(execution + 1, completed(2, "stale"))),
        _ => Some(cancel("because")),
    }
}
