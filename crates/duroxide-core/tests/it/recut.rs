//! The same answers in the same order, cut into turns in every way: the code sees the same and decides the same.
//!
//! An operation is recognised by the position of its decision among all decisions, which no cut may change.

use std::sync::Arc;

use duroxide_core::replay::Outcome;
use duroxide_core::{Event, OrchestrationHandler};
use proptest::prelude::*;

use crate::arrivals::{Dice, Open, answer, open};
use crate::generate::ordered_program;
use crate::program::interpreter;
use crate::world::World;

const ANSWERS_MAX: usize = 40;

/// Decisions that do not depend on the code's drops, without what a cut may change: ids and times.
fn decisions(history: &[Event]) -> Vec<serde_json::Value> {
    const KINDS: [&str; 9] = [
        "ActivityScheduled",
        "TimerCreated",
        "ExternalSubscribed",
        "SubOrchestrationScheduled",
        "OrchestrationChained",
        "CustomStatusUpdated",
        "KeyValueSet",
        "KeyValueCleared",
        "KeyValuesCleared",
    ];
    let made = history
        .iter()
        .filter(|e| KINDS.contains(&e.kind.wire_name()));
    made.map(|event| {
        let mut json = serde_json::to_value(&event.kind).expect("an event is JSON");
        let fields = json.as_object_mut().expect("an event is an object");
        let is_auto = |v: &serde_json::Value| v.as_str().is_some_and(|i| i.starts_with("sub::"));
        if fields.get("instance").is_some_and(is_auto) {
            fields.remove("instance");
        }
        fields.remove("fire_at_ms");
        fields.remove("last_updated_at_ms");
        json
    })
    .collect()
}

/// The operation of the n-th scheduling decision, if it is recorded.
fn operation(history: &[Event], ordinal: usize) -> Option<Open> {
    let ids: Vec<u64> = open(&unanswered(history), true)
        .iter()
        .map(|o| o.id)
        .collect();
    let id = *ids.get(ordinal)?;
    let kind = history[id as usize - 1].kind.clone();
    Some(Open { id, kind })
}

/// The history without answers, so that every operation in it counts.
fn unanswered(history: &[Event]) -> Vec<Event> {
    let keep = |e: &&Event| e.source_event_id.is_none() && e.kind.wire_name() != "ExternalEvent";
    history.iter().filter(keep).cloned().collect()
}

/// Answers one operation per turn, chosen by dice; returns which ones, in order.
fn run_finely(handler: &Arc<dyn OrchestrationHandler>, seed: u64) -> (World, Vec<usize>, Outcome) {
    let mut dice = Dice::new(seed);
    let mut world = World::with_handler(Arc::clone(handler));
    world.ask_host = false;
    let mut outcome = world.turn(vec![]).outcome;
    let mut order = Vec::new();
    while outcome == Outcome::Waiting && order.len() < ANSWERS_MAX {
        let with_dropped = dice.below(8) == 0;
        let candidates = open(&world.history, with_dropped);
        let Some(chosen) = candidates.get(dice.below(candidates.len())) else {
            break;
        };
        let all = open(&unanswered(&world.history), true);
        let ordinal = all.iter().position(|o| o.id == chosen.id);
        order.push(ordinal.expect("it is recorded"));
        outcome = world.turn(vec![answer(chosen, 1)]).outcome;
    }
    (world, order, outcome)
}

/// The same answers again. A turn ends where the cuts say, and where the next answer is to something not recorded yet.
fn run_cut(
    handler: &Arc<dyn OrchestrationHandler>,
    order: &[usize],
    cuts: u64,
    forget: u64,
) -> (World, Outcome) {
    let mut world = World::with_handler(Arc::clone(handler));
    world.ask_host = false;
    let mut outcome = world.turn(vec![]).outcome;
    let mut next = 0;
    while next < order.len() && outcome == Outcome::Waiting {
        let mut batch = Vec::new();
        while let Some(known) = order.get(next).and_then(|o| operation(&world.history, *o)) {
            batch.push(answer(&known, 1));
            next += 1;
            if cuts >> (next % 64) & 1 == 1 {
                break;
            }
        }
        assert!(
            !batch.is_empty(),
            "answer {next} is to something that was never asked for"
        );
        if forget >> (next % 64) & 1 == 1 {
            world.forget();
        }
        outcome = world.turn(batch).outcome;
    }
    (world, outcome)
}

/// An end that the code cannot see takes back what the code decided in that very turn.
fn is_forced(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { details } if !details.is_application())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_cuts_change_neither_what_the_code_decides_nor_how_it_ends(
        program in ordered_program(),
        seed in any::<u64>(),
    ) {
        let handler = interpreter(program);
        let (world, order, outcome) = run_finely(&handler, seed);
        let wanted = decisions(&world.history);
        let ways: Vec<u64> = match order.len() {
            n @ 0..=6 => (0..1 << (n + 1)).collect(),
            _ => (0..12).map(|n| seed.rotate_left(n * 5) & seed.rotate_right(n * 7 + 1)).chain([0]).collect(),
        };
        for cuts in ways {
            let (cut, ended) = run_cut(&handler, &order, cuts, seed.rotate_left(9));
            prop_assert_eq!(&ended, &outcome, "cuts {:b}", cuts);
            let decided = decisions(&cut.history);
            if is_forced(&ended) {
                prop_assert!(wanted.starts_with(&decided), "cuts {:b}", cuts);
            } else {
                prop_assert_eq!(&decided, &wanted, "cuts {:b}", cuts);
            }
        }
    }
}
