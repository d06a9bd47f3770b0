//! Effects: every activity that had to run did, none ran that nobody asked for, none was repeated without need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use duroxide_runtime::OrchestrationStatus;

use crate::effects::Effect;
use crate::model::Expected;
use crate::world::World;

pub(super) fn check(world: &World) {
    let runs = world.sim.effects.all();
    let mut by_label: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
    for run in &runs {
        by_label.entry(&run.label).or_default().push(run);
    }
    let mut known = BTreeSet::new();
    for client in &world.clients {
        let lives = client.lives.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (number, life) in lives.iter().enumerate() {
            let expected = client.expected(number);
            let must = matches!(life.outcome, Some(OrchestrationStatus::Completed { .. }));
            all_ran(world, &expected, must, &by_label, &mut known);
        }
    }
    for (label, runs) in &by_label {
        if !known.contains(*label) {
            world.sim.violation(format!("activity {label} ran and nobody asked for it"));
        }
        repeats(world, label, runs);
    }
}

fn all_ran(
    world: &World,
    expected: &Expected,
    must: bool,
    runs: &BTreeMap<&str, Vec<&Effect>>,
    known: &mut BTreeSet<String>,
) {
    for (label, attempts) in &expected.must_run {
        known.insert(label.clone());
        let finished = runs.get(label.as_str()).into_iter().flatten();
        let ids: BTreeSet<_> = finished
            .filter(|run| run.is_finished)
            .map(|run| (&run.instance, run.execution, run.activity))
            .collect();
        if must && ids.len() != *attempts as usize {
            let text = format!("activity {label} was tried {} times, not {attempts}", ids.len());
            world.sim.violation(text);
        }
    }
    known.extend(expected.may_run.iter().cloned());
    for detached in expected.detached.values() {
        all_ran(world, detached, must, runs, known);
    }
}

/// A run that finished on a node that was well all the time is not done again.
fn repeats(world: &World, label: &str, runs: &[&Effect]) {
    for (place, first) in runs.iter().enumerate() {
        let Some(again) = runs[place + 1..].iter().find(|run| {
            (run.activity, run.execution, &run.instance)
                == (first.activity, first.execution, &first.instance)
        }) else {
            continue;
        };
        // Either may have been told late of what it was granted.
        let is_disturbed = |node| {
            world
                .sim
                .was_disturbed(node, first.began_ms, again.began_ms)
        };
        let was_away = is_disturbed(first.node) || is_disturbed(again.node);
        let is_needless = first.is_finished && !was_away;
        if is_needless {
            world.sim.violation(format!(
                "activity {label} ended on {} at {} and began again on {} at {}",
                first.life,
                first.ended_ms.unwrap_or_default(),
                again.life,
                again.began_ms
            ));
        }
    }
}
