//! The histories that this engine recorded, one per feature: each turn of each is taken again and must record the same
//! events, to the letter.
//!
//! `HISTORIES=write cargo test -p duroxide-tests --test it recorded` records them again.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use duroxide::providers::{KvEntry, WorkItem, fold_key_values};
use duroxide::{ErrorDetails, Event, EventKind, OrchestrationHandler};
use duroxide_core::replay::{
    Execution, ExecutionStart, HostCall, HostRequest, ParentLink, Progress, Turn, TurnLimits,
};
use duroxide_core::{REWIND_QUEUE, Rewound};

use super::recorder::{Recording, record, to_text};
use super::{Case, cases, orchestrations};
use crate::histories::{self, handler_of};

fn folder() -> PathBuf {
    histories::folder().join("0.2.0")
}

fn file(case: &Case) -> PathBuf {
    folder().join(format!("{}.json", case.name))
}

/// What is compared of a recording: everything but the version that recorded it and what chance decided.
fn essence(text: &str) -> Vec<String> {
    let mut guids = BTreeSet::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let Ok(mut event) = serde_json::from_str::<Event>(line.trim().trim_end_matches(',')) else {
            lines.push(line.to_owned());
            continue;
        };
        event.duroxide_version.clear();
        match &mut event.kind {
            EventKind::ActivityScheduled { name, .. } if name.ends_with(":new_guid") => {
                guids.insert(event.event_id);
            }
            EventKind::ActivityCompleted { result }
                if event.source_event_id.is_some_and(|id| guids.contains(&id)) =>
            {
                "a guid".clone_into(result);
            }
            _ => {}
        }
        lines.push(serde_json::to_string(&event).unwrap());
    }
    lines
}

#[tokio::test(start_paused = true)]
async fn the_engine_records_today_what_it_recorded_before() {
    for case in cases() {
        let text = to_text(&case, record(&case).await);
        if std::env::var("HISTORIES").is_ok_and(|value| value == "write") {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(file(&case), &text).unwrap();
        }
        let recorded = std::fs::read_to_string(file(&case))
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(essence(&text), essence(&recorded), "{}", case.name);
    }
}

/// Every recorded instance, as its list of executions.
pub(super) fn recorded() -> Recording {
    let mut all = Recording::new();
    for case in histories::cases(&folder()) {
        for (instance, executions) in case.instances() {
            all.insert(format!("{} / {instance}", case.case), executions);
        }
    }
    all
}

#[test]
fn every_case_is_recorded_and_every_kind_of_event_occurs() {
    let files: BTreeSet<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files, cases().map(|case| file(&case)).collect());
    let events = recorded().into_values().flatten().flatten();
    let kinds: BTreeSet<&str> = events.map(|event| event.kind.wire_name()).collect();
    assert_eq!(kinds.len(), 26, "{kinds:?}");
}

#[test]
fn every_event_of_these_histories_keeps_its_text() {
    for case in histories::cases(&folder()) {
        case.assert_texts_are_kept();
    }
}

#[test]
fn every_turn_of_these_histories_is_taken_again_to_the_letter() {
    for (at, executions) in recorded() {
        let mut kv = HashMap::new();
        for history in &executions {
            let mut ends: Vec<usize> = (1..history.len())
                .filter(|n| history[*n].timestamp_ms != history[n - 1].timestamp_ms)
                .collect();
            ends.push(history.len());
            let begins = std::iter::once(0).chain(ends.iter().copied());
            let own = |begin: &usize| *begin >= own_turns(history);
            for (begin, end) in begins.zip(ends.iter().copied()).filter(|turn| own(&turn.0)) {
                take_again(&at, history, begin, end, &kv);
            }
            fold_key_values(&mut kv, history);
        }
    }
}

#[test]
fn every_prefix_of_these_histories_can_be_loaded() {
    let registry = orchestrations();
    for (at, executions) in recorded() {
        let mut kv = HashMap::new();
        for history in &executions {
            let handler = handler_of(&registry, history);
            for cut in 1..=history.len() {
                Execution::load(&history[..cut], handler.clone(), kv.clone())
                    .unwrap_or_else(|report| panic!("{at}, first {cut} events: {report}"));
            }
            fold_key_values(&mut kv, history);
        }
    }
}

/// Where the first turn of an execution begins. What a rewound one begins with was recorded by the turns of the failed
/// one.
fn own_turns(history: &[Event]) -> usize {
    if Rewound::of(history).is_none() {
        return 0;
    }
    let asked = |event: &Event| matches!(&event.kind, EventKind::QueueEventDelivered { name, .. } if name == REWIND_QUEUE);
    let asked = history.iter().find(|event| asked(event));
    let asked_ms = asked
        .expect("its first turn asks for what is open")
        .timestamp_ms;
    let same_turn = |event: &Event| event.timestamp_ms == asked_ms;
    history.iter().position(same_turn).expect("found above")
}

/// Takes one turn again: what came before is replayed, the arrivals are sent as messages, the host answers as it did.
fn take_again(
    at: &str,
    history: &[Event],
    begin: usize,
    end: usize,
    kv: &HashMap<String, KvEntry>,
) {
    let (before, turn) = (&history[..begin], &history[begin..end]);
    let at = format!("{at}, events {} to {end}", begin + 1);
    let handler = handler_of(&orchestrations(), history);
    let now_ms = turn[0].timestamp_ms;
    let mut execution = if before.is_empty() {
        begin_again(&turn[0], handler, kv)
    } else {
        Execution::load(before, handler, kv.clone())
            .unwrap_or_else(|report| panic!("{at}: {report}"))
    };
    let messages = turn[carried(&turn[0])..]
        .iter()
        .filter(|event| !answers_host(history, event) && !was_carried(event));
    execution.start_turn(now_ms, messages.filter_map(message).collect());
    let again = finish(&mut execution, history);
    let version = |event: &Event| Event {
        duroxide_version: String::new(),
        ..event.clone()
    };
    let texts = |events: &[Event]| -> Vec<String> {
        let text = |event| serde_json::to_string(&version(event)).unwrap();
        events.iter().map(text).collect()
    };
    assert_eq!(texts(&again.events), texts(turn), "{at}");
}

fn begin_again(
    first: &Event,
    handler: Arc<dyn OrchestrationHandler>,
    kv: &HashMap<String, KvEntry>,
) -> Execution {
    let EventKind::OrchestrationStarted {
        name,
        version,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        carry_forward_events,
        initial_custom_status,
    } = first.kind.clone()
    else {
        panic!("a history begins with its start");
    };
    let start = ExecutionStart {
        instance: first.instance_id.clone(),
        execution_id: first.execution_id,
        name,
        version,
        input,
        parent: parent_instance.map(|instance| ParentLink {
            instance,
            id: parent_id.unwrap_or_default(),
            execution_id: parent_execution_id,
        }),
        carried: carry_forward_events.unwrap_or_default(),
        custom_status: initial_custom_status,
    };
    Execution::begin(start, handler, kv.clone(), first.timestamp_ms)
}

/// How many events come with a start: itself and the messages it carries.
fn carried(event: &Event) -> usize {
    match &event.kind {
        EventKind::OrchestrationStarted {
            carry_forward_events,
            ..
        } => 1 + carry_forward_events.as_ref().map_or(0, Vec::len),
        _ => 0,
    }
}

/// Whether an event is a signal from before a rewind, which the turn itself hands over.
fn was_carried(event: &Event) -> bool {
    matches!(event.kind, EventKind::ExternalEvent { .. }) && event.source_event_id.is_some()
}

/// Whether an event is the host's answer within a turn, rather than a message.
fn answers_host(history: &[Event], event: &Event) -> bool {
    let asked = |e: &&Event| Some(e.event_id) == event.source_event_id;
    let question = history.iter().find(asked).map(|e| &e.kind);
    matches!(question, Some(EventKind::ActivityScheduled { name, input, .. }) if HostRequest::parse(name, input).is_some())
}

/// The message that an arrival came as.
fn message(event: &Event) -> Option<WorkItem> {
    let (instance, execution_id) = (event.instance_id.clone(), event.execution_id);
    let id = event.source_event_id.unwrap_or_default();
    Some(match event.kind.clone() {
        EventKind::ActivityCompleted { result } => WorkItem::ActivityCompleted {
            instance,
            execution_id,
            id,
            result,
        },
        EventKind::ActivityFailed { details } => WorkItem::ActivityFailed {
            instance,
            execution_id,
            id,
            details,
        },
        EventKind::TimerFired { fire_at_ms } => WorkItem::TimerFired {
            instance,
            execution_id,
            id,
            fire_at_ms,
        },
        EventKind::SubOrchestrationCompleted { result } => WorkItem::SubOrchCompleted {
            parent_instance: instance,
            parent_execution_id: execution_id,
            parent_id: id,
            result,
        },
        EventKind::SubOrchestrationFailed { details } => WorkItem::SubOrchFailed {
            parent_instance: instance,
            parent_execution_id: execution_id,
            parent_id: id,
            details,
        },
        EventKind::ExternalEvent { name, data } => WorkItem::ExternalRaised {
            instance,
            name,
            data,
        },
        EventKind::QueueEventDelivered { name, data } => WorkItem::QueueMessage {
            instance,
            name,
            data,
        },
        EventKind::OrchestrationCancelRequested { reason } => {
            WorkItem::CancelInstance { instance, reason }
        }
        _ => return None,
    })
}

/// Runs a turn to its end; the host answers as it did.
fn finish(execution: &mut Execution, history: &[Event]) -> Turn {
    loop {
        let calls = match execution.advance(&TurnLimits::default(), true) {
            Progress::Done(turn) => return *turn,
            Progress::NeedsHost(calls) => calls,
        };
        for call in calls {
            execution.record_host_answer(&call, recorded_answer(&call, history));
        }
    }
}

fn recorded_answer(call: &HostCall, history: &[Event]) -> Result<String, ErrorDetails> {
    let answers = |e: &&Event| e.source_event_id == Some(call.activity_id);
    match history.iter().find(answers).map(|e| e.kind.clone()) {
        Some(EventKind::ActivityCompleted { result }) => Ok(result),
        Some(EventKind::ActivityFailed { details }) => Err(details),
        other => panic!("the host was asked {call:?} and the record says {other:?}"),
    }
}
