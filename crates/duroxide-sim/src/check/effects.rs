//! Effects: every activity that had to run did, none ran that no orchestration asked for, none was repeated without
//! need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use duroxide_core::{AppErrorKind, ErrorDetails};
use duroxide_runtime::OrchestrationStatus;

use super::Scene;
use crate::client::{LifeLog, RootClient};
use crate::effects::Effect;
use crate::model::Expected;
use crate::plan::{Code, LifeEnd};

pub(super) fn check(scene: &Scene) {
    let runs = scene.sim.effects.all();
    let mut by_label: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
    for run in &runs {
        by_label.entry(&run.label).or_default().push(run);
    }
    let mut known = BTreeSet::new();
    for client in &scene.clients {
        let lives = client
            .lives
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (number, life) in lives.iter().enumerate() {
            let expected = client.expected(number);
            let is_excused = scene.sim.has_collided(&client.plan.id) && lives.len() > 1;
            let must =
                matches!(life.outcome, Some(OrchestrationStatus::Completed { .. })) && !is_excused;
            put_right(scene, client, number, life, &by_label);
            let must = match (must, client.plan.lives[number].retries) {
                (false, _) => Must::Nothing,
                (true, true) => Must::Finish,
                (true, false) => Must::FinishOnce,
            };
            all_ran(scene, &expected, must, &by_label, &mut known);
        }
    }
    sessions(scene, &runs);
    owners(scene, &runs);
    for (label, runs) in &by_label {
        if !known.contains(*label) {
            scene
                .sim
                .violation(format!("activity {label} ran and nobody asked for it"));
        }
        repeats(scene, label, runs);
    }
}

/// Code that winds down when it is asked to is let finish that, however often it is asked.
fn put_right(
    scene: &Scene,
    client: &RootClient,
    number: usize,
    life: &LifeLog,
    runs: &BTreeMap<&str, Vec<&Effect>>,
) {
    let plan = &client.plan.lives[number];
    let was_asked = matches!(plan.end, LifeEnd::Cancel { .. })
        && plan.program.cooperative
        // A node without the code ends what no node with the code takes up.
        && scene.plan.nodes.iter().all(|node| node.code.iter().all(|code| *code == Code::ALL));
    let is_cancelled = matches!(
        &life.outcome,
        Some(OrchestrationStatus::Failed {
            details: ErrorDetails::Application {
                kind: AppErrorKind::Cancelled { .. },
                ..
            },
            ..
        })
    );
    let label = format!("{}.put-right", client.path(number));
    let mut put_right = runs.get(label.as_str()).into_iter().flatten();
    if was_asked && is_cancelled && !put_right.any(|run| run.is_finished) {
        // A request that comes with the start ends it before any code has run.
        let own = |label: &&str| label.starts_with(&client.path(number)) && !label.contains('~');
        let has_run = runs.keys().any(own);
        if has_run {
            let text = format!(
                "{} life {number} could not put things right",
                client.plan.id
            );
            scene.sim.violation(text);
        }
    }
}

/// A session that belongs to one slot runs one activity at a time.
fn sessions(scene: &Scene, runs: &[Effect]) {
    for (place, first) in runs.iter().enumerate() {
        let stable = scene.plan.nodes[first.node].stable_id;
        let Some(session) = first.session.as_ref().filter(|_| !stable) else {
            continue;
        };
        let end = first.ended_ms.unwrap_or(u64::MAX);
        let overlaps = |run: &&Effect| {
            run.life == first.life && run.session.as_ref() == Some(session) && run.began_ms < end
        };
        if let Some(other) = runs[place + 1..].iter().find(overlaps) {
            let text = format!(
                "{} and {} of {session} run at once",
                first.label, other.label
            );
            scene.sim.violation(text);
        }
    }
}

/// A session belongs to one node at a time: its activities do not run on two that were well all the time.
fn owners(scene: &Scene, runs: &[Effect]) {
    for (place, first) in runs.iter().enumerate() {
        let Some(session) = &first.session else {
            continue;
        };
        let end = first.ended_ms.unwrap_or(u64::MAX);
        let overlaps = |run: &&Effect| {
            run.node != first.node && run.session.as_ref() == Some(session) && run.began_ms < end
        };
        let Some(other) = runs[place + 1..].iter().find(overlaps) else {
            continue;
        };
        let was_away = |node| {
            scene
                .sim
                .was_disturbed(node, first.began_ms.saturating_sub(60_000), other.began_ms)
        };
        if !was_away(first.node) && !was_away(other.node) {
            let text = format!(
                "{} on {} and {} on {} of {session} run at once",
                first.label, first.life, other.label, other.life
            );
            scene.sim.violation(text);
        }
    }
}

/// What must be true of the activities of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Must {
    /// It did not come to its end.
    Nothing,
    /// Each finished. What a request to cancel cut short was asked for anew.
    Finish,
    /// Each finished as often as it was tried, no more.
    FinishOnce,
}

fn all_ran(
    scene: &Scene,
    expected: &Expected,
    must: Must,
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
        let is_wrong = match must {
            Must::Nothing => false,
            Must::Finish => ids.is_empty(),
            Must::FinishOnce => ids.len() != *attempts as usize,
        };
        if is_wrong {
            let text = format!(
                "activity {label} was tried {} times, not {attempts}",
                ids.len()
            );
            scene.sim.violation(text);
        }
    }
    known.extend(expected.may_run.iter().cloned());
    for detached in expected.detached.values() {
        all_ran(scene, detached, must, runs, known);
    }
}

/// How long before it runs an activity may have been handed to its node: a call or two later it begins.
const TOLD_TO_BEGUN_MS: u64 = 1_000;

/// A run that finished on a node that was well all the time is not done again.
fn repeats(scene: &Scene, label: &str, runs: &[&Effect]) {
    for (place, first) in runs.iter().enumerate() {
        let Some(again) = runs[place + 1..].iter().find(|run| {
            (run.activity, run.execution, &run.instance)
                == (first.activity, first.execution, &first.instance)
        }) else {
            continue;
        };
        // Either may have been told late of what it was granted.
        let told_ms = first.began_ms.saturating_sub(TOLD_TO_BEGUN_MS);
        let is_disturbed = |node| scene.sim.was_disturbed(node, told_ms, again.began_ms);
        let was_away = is_disturbed(first.node) || is_disturbed(again.node);
        let is_needless = first.is_finished && !was_away;
        if is_needless {
            scene.sim.violation(format!(
                "activity {label} ended on {} at {} and began again on {} at {}",
                first.life,
                first.ended_ms.unwrap_or_default(),
                again.life,
                again.began_ms
            ));
        }
    }
}
