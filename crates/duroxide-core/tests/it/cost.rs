//! What a turn costs as the history grows. Numbers to read, not assertions:
//! `cargo test --release -p duroxide-core --test it cost -- --ignored --nocapture`.

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

#[test]
#[ignore = "prints numbers"]
fn a_turn_that_continues_costs_the_same_however_long_the_history_is() {
    run(1_000);
    for activities in [100, 1_000, 10_000, 100_000] {
        let (history, per_turn) = run(activities);
        let began = now();
        let loaded = Execution::load(&history, sequence(), HashMap::new());
        let replay = began.elapsed();
        assert!(loaded.is_ok());
        println!(
            "{activities:>7} activities: {per_turn:>10.2?} per continued turn, {replay:>10.2?} to replay {} events",
            history.len()
        );
    }
}

#[test]
#[ignore = "prints numbers"]
fn a_fan_in_costs_the_same_per_child_however_many_there_are() {
    for children in [1_000u64, 10_000, 100_000] {
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
        let out = began.elapsed();
        let answers = (2..children + 2).map(|id| completed(id, "r")).collect();
        let began = now();
        run_turn(&mut execution, EPOCH_MS, answers, &limits, true);
        let fan_in = began.elapsed();
        println!("{children:>7} children: {out:>10.2?} to fan out, {fan_in:>10.2?} to fan in");
    }
}
