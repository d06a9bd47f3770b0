//! What a turn costs as the history grows: nothing more. Each case grows a hundred times; a cost that grows along would
//! be a hundred times higher, so a bound of ten leaves room for a busy machine. The best of a few runs counts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use duroxide_core::Event;
use duroxide_core::replay::{Execution, ExecutionStart, TurnLimits};

use crate::history::{EPOCH_MS, INSTANCE, completed};
use crate::world::{handler, run_turn};

#[expect(clippy::disallowed_methods, reason = "this file measures")]
fn now() -> Instant {
    Instant::now()
}

/// Runs that many activities one after the other in one execution; returns the history and the time per turn over the
/// last hundred turns.
fn run(activities: u64) -> (Vec<Event>, Duration) {
    let code = sequence();
    let start = ExecutionStart {
        instance: INSTANCE.into(),
        execution_id: 1,
        name: "Test".into(),
        version: "1.0.0".into(),
        ..ExecutionStart::default()
    };
    let mut execution = Execution::begin(start, code, HashMap::new(), EPOCH_MS);
    let limits = TurnLimits::default();
    let mut history = run_turn(&mut execution, EPOCH_MS, vec![], &limits, true).events;
    let mut began = now();
    for n in 0..activities {
        if n + 100 == activities {
            began = now();
        }
        let id = history.last().map_or(0, |e| e.event_id);
        let turn = run_turn(
            &mut execution,
            EPOCH_MS,
            vec![completed(id, "r")],
            &limits,
            true,
        );
        history.extend(turn.events);
    }
    (history, began.elapsed() / 100)
}

fn sequence() -> std::sync::Arc<dyn duroxide_core::OrchestrationHandler> {
    handler(|ctx, _| async move {
        loop {
            ctx.schedule_activity("A", "x").await?;
        }
    })
}

const GROWTH: u64 = 100;
const BOUND: u32 = 10;

fn best(measure: impl Fn() -> Duration) -> Duration {
    (0..7).map(|_| measure()).min().unwrap_or_default()
}

fn assert_flat(what: &str, small: Duration, large: Duration) {
    assert!(
        large < small * BOUND,
        "{what}: {small:?} with little, {large:?} with {GROWTH} times as much"
    );
}

#[test]
fn a_turn_that_continues_costs_the_same_however_long_the_history_is() {
    let per_turn = |activities| best(|| run(activities).1);
    assert_flat("a turn", per_turn(200), per_turn(200 * GROWTH));
}

#[test]
fn replaying_an_event_costs_the_same_however_long_the_history_is() {
    let per_event = |activities| {
        let (history, _) = run(activities);
        let events = u32::try_from(history.len()).unwrap();
        best(|| {
            let began = now();
            let loaded = Execution::load(&history, sequence(), HashMap::new());
            assert!(loaded.is_ok());
            began.elapsed()
        }) / events
    };
    assert_flat("an event", per_event(200), per_event(200 * GROWTH));
}

/// Schedules that many children in one turn and feeds all their completions to the next; returns the time per child.
fn fan_out_and_in(children: u64) -> Duration {
    let code = handler(move |ctx, _| async move {
        let work = (0..children).map(|_| ctx.schedule_activity("A", ""));
        Ok(ctx.join(work.collect()).await.len().to_string())
    });
    let start = ExecutionStart {
        instance: INSTANCE.into(),
        execution_id: 1,
        ..ExecutionStart::default()
    };
    let mut execution = Execution::begin(start, code, HashMap::new(), EPOCH_MS);
    let limits = TurnLimits::default();
    let began = now();
    run_turn(&mut execution, EPOCH_MS, vec![], &limits, true);
    let answers = (2..children + 2).map(|id| completed(id, "r")).collect();
    run_turn(&mut execution, EPOCH_MS, answers, &limits, true);
    began.elapsed() / u32::try_from(children).expect("a few thousand")
}

#[test]
fn a_fan_in_costs_the_same_per_child_however_many_there_are() {
    let per_child = |children| best(|| fan_out_and_in(children));
    assert_flat("a child", per_child(200), per_child(200 * GROWTH));
}
