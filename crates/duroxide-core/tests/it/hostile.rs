//! Histories that no engine wrote: replay answers with a report or goes on, and never panics or hangs.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide_core::replay::{EndOf, Execution, TurnLimits, fail_without_replay};
use duroxide_core::{ErrorDetails, Event, EventKind, OrchestrationHandler};
use proptest::prelude::*;

use crate::arrivals::{Dice, any_message};
use crate::history::{INSTANCE, completed, event, poison, queue_message, signal};
use crate::program::{Op, Step, interpreter};
use crate::world::{World, run_turn};

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("A".to_owned()),
        Just("q1".to_owned()),
        Just("p.0".to_owned()),
        Just("sub::2".to_owned()),
        Just(String::new()),
        Just("\u{0}\u{202e}'; DROP TABLE--".to_owned()),
        "[ -~]{0,8}",
    ]
}

fn any_details() -> impl Strategy<Value = ErrorDetails> {
    prop_oneof![
        any_text().prop_map(ErrorDetails::activity_failed),
        any_text().prop_map(ErrorDetails::nondeterminism),
        Just(poison(2)),
    ]
}

fn any_reason() -> impl Strategy<Value = String> {
    prop_oneof![Just("dropped_future".to_owned()), any_text()]
}

fn any_schedule() -> impl Strategy<Value = EventKind> {
    let pair = || (any_text(), any_text());
    let triple = || (any_text(), any_text(), any_text());
    prop_oneof![
        pair().prop_map(|(name, input)| EventKind::ActivityScheduled {
            name,
            input,
            session_id: None,
            tag: None
        }),
        any::<u64>().prop_map(|fire_at_ms| EventKind::TimerCreated { fire_at_ms }),
        any_text().prop_map(|name| EventKind::ExternalSubscribed { name }),
        any_text().prop_map(|name| EventKind::QueueSubscribed { name }),
        triple().prop_map(
            |(name, instance, input)| EventKind::SubOrchestrationScheduled {
                name,
                instance,
                input
            }
        ),
        triple().prop_map(|(name, instance, input)| EventKind::OrchestrationChained {
            name,
            instance,
            input
        }),
        any_text().prop_map(|s| EventKind::CustomStatusUpdated { status: Some(s) }),
        (any_text(), any_text(), any::<u64>()).prop_map(|(key, value, last_updated_at_ms)| {
            EventKind::KeyValueSet {
                key,
                value,
                last_updated_at_ms,
            }
        }),
        any_text().prop_map(|key| EventKind::KeyValueCleared { key }),
        Just(EventKind::KeyValuesCleared),
    ]
}

fn any_arrival() -> impl Strategy<Value = EventKind> {
    let pair = || (any_text(), any_text());
    prop_oneof![
        any_text().prop_map(|result| EventKind::ActivityCompleted { result }),
        any_details().prop_map(|details| EventKind::ActivityFailed { details }),
        any::<u64>().prop_map(|fire_at_ms| EventKind::TimerFired { fire_at_ms }),
        pair().prop_map(|(name, data)| EventKind::ExternalEvent { name, data }),
        pair().prop_map(|(name, data)| EventKind::QueueEventDelivered { name, data }),
        any_text().prop_map(|result| EventKind::SubOrchestrationCompleted { result }),
        any_details().prop_map(|details| EventKind::SubOrchestrationFailed { details }),
        any_text().prop_map(|reason| EventKind::OrchestrationCancelRequested { reason }),
        any_reason().prop_map(|reason| EventKind::ActivityCancelRequested { reason }),
        any_reason().prop_map(|reason| EventKind::SubOrchestrationCancelRequested { reason }),
        any_reason().prop_map(|reason| EventKind::ExternalSubscribedCancelled { reason }),
        any_reason().prop_map(|reason| EventKind::QueueSubscriptionCancelled { reason }),
        any_text().prop_map(|output| EventKind::OrchestrationCompleted { output }),
        any_text().prop_map(|input| EventKind::OrchestrationContinuedAsNew { input }),
        any_details().prop_map(|details| EventKind::OrchestrationFailed { details }),
        any_text().prop_map(started),
    ]
}

fn started(input: String) -> EventKind {
    EventKind::OrchestrationStarted {
        name: "Test".into(),
        version: "not a version".into(),
        input,
        parent_instance: Some(String::new()),
        parent_id: None,
        parent_execution_id: Some(u64::MAX),
        carry_forward_events: Some(vec![(String::new(), String::new())]),
        initial_custom_status: None,
    }
}

fn any_id() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..12u64, 1 => Just(u64::MAX), 1 => Just(i64::MAX as u64), 1 => any::<u64>()]
}

/// Mostly consecutive ids after a start, with anything in between.
fn any_history() -> impl Strategy<Value = Vec<Event>> {
    let kind = prop_oneof![any_schedule(), any_arrival()];
    let row = (
        kind,
        prop::option::of(any_id()),
        prop::option::weighted(0.05, any_id()),
    );
    (any::<bool>(), prop::collection::vec(row, 0..25)).prop_map(|(with_start, rows)| {
        let start = with_start.then(|| event(1, None, started("x".into())));
        let first = if with_start { 2 } else { 1 };
        let rest = rows
            .into_iter()
            .enumerate()
            .map(|(place, (kind, source, id))| {
                event(id.unwrap_or(first + place as u64), source, kind)
            });
        start.into_iter().chain(rest).collect()
    })
}

fn some_code() -> Vec<Arc<dyn OrchestrationHandler>> {
    vec![
        interpreter(vec![Step::Await(Op::Activity), Step::Await(Op::Dequeue(1))]),
        interpreter(vec![
            Step::Hold(Op::Timer),
            Step::Hold(Op::Child),
            Step::Race(Op::Wait(1), Op::Dequeue(1)),
            Step::KvAdd(1),
            Step::Join(vec![Op::Guid, Op::Timer]),
            Step::Continue,
        ]),
        interpreter(vec![Step::Return]),
        interpreter(vec![Step::Panic]),
        crate::world::handler(|_, _| std::future::pending()),
    ]
}

/// Loads a history and, if it replays, takes two turns with messages of all sorts.
fn survive(history: &[Event], code: &Arc<dyn OrchestrationHandler>, seed: u64) {
    let loaded = Execution::load(history, Arc::clone(code), HashMap::new());
    let Ok(mut execution) = loaded else {
        let details = ErrorDetails::nondeterminism("it does not replay");
        let of = EndOf {
            instance_id: INSTANCE,
            execution_id: 1,
            history,
            now_ms: 1,
        };
        let turn = fail_without_replay(of, Vec::new(), details);
        assert!(turn.events.last().is_some_and(Event::is_terminal));
        return;
    };
    let mut dice = Dice::new(seed);
    let limits = TurnLimits::default();
    for _ in 0..2 {
        let mut messages = vec![
            completed(2, "r"),
            signal("w1", "s"),
            queue_message("q1", "m"),
        ];
        messages.extend((0..3).filter_map(|_| any_message(&mut dice, &[], 1)));
        let ended = execution.has_ended();
        let turn = run_turn(
            &mut execution,
            dice.below(9) as u64,
            messages,
            &limits,
            true,
        );
        assert!(!ended || turn.events.is_empty());
        let mut last = history.last().map_or(0, |e| e.event_id);
        for event in &turn.events {
            assert!(event.event_id > last || ended, "ids go on from the history");
            last = event.event_id;
        }
        if execution.has_ended() {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 8, ..ProptestConfig::default() })]

    #[test]
    fn a_history_made_of_anything_never_panics_replay(history in any_history(), seed in any::<u64>()) {
        for code in some_code() {
            survive(&history, &code, seed);
        }
    }

    #[test]
    fn a_damaged_history_never_panics_replay(
        damage in prop::collection::vec((0..5u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
        which in 0..2usize,
        seed in any::<u64>(),
    ) {
        let code = &some_code()[which];
        let mut world = World::with_handler(Arc::clone(code));
        world.turn(vec![]);
        for turn in 0..6 {
            let open = crate::arrivals::open(&world.history, false);
            if world.is_over() || open.is_empty() {
                break;
            }
            let execution = world.execution_id();
            let pick = (seed >> (turn * 8)) as usize % open.len();
            world.turn(vec![crate::arrivals::answer(&open[pick], execution)]);
        }
        let mut history = if world.history.is_empty() { world.past.remove(0) } else { world.history };
        for (how, at, other) in damage {
            let (at, other) = (at.index(history.len()), other.index(history.len()));
            match how {
                0 if history.len() > 1 => { history.remove(at); }
                1 => { let copy = history[at].clone(); history.insert(other, copy); }
                2 => history.swap(at, other),
                3 => history[at].source_event_id = Some(history[other].event_id),
                _ => history[at].kind = history[other].kind.clone(),
            }
        }
        survive(&history, code, seed);
        for (place, event) in history.iter_mut().enumerate() {
            event.event_id = place as u64 + 1;
        }
        survive(&history, code, seed);
    }
}
