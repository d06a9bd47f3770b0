//! Outcomes: what clients saw and what the store says, against what the programs do when nothing goes wrong.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use duroxide_core::{AppErrorKind, ErrorDetails, EventKind, is_reserved_key};
use duroxide_runtime::OrchestrationStatus;

use super::Scene;
use super::{Histories, history};
use crate::client::{LifeLog, RootClient, is_cancelled};
use crate::model::Expected;
use crate::plan::LifeEnd;
use crate::program::TAKEN;

pub(super) async fn check(scene: &Scene, instances: &BTreeMap<String, Histories>) {
    for client in &scene.clients {
        let lives = client
            .lives
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let last = lives.len() - 1;
        for (number, life) in lives.iter().enumerate() {
            let expected = client.expected(number);
            if scene.sim.has_collided(&client.plan.id) && lives.len() > 1 {
                continue;
            }
            let is_limited = matches!(client.plan.lives[number].end, LifeEnd::Limit { .. });
            let is_retried = client.plan.lives[number].retries;
            let wrong = match &life.outcome {
                Some(outcome) if is_retried && is_cancelled(outcome) => {
                    Some("was retried and is cancelled".to_owned())
                }
                _ => complaint(life, &expected, is_limited),
            };
            if let Some(complaint) = wrong {
                let id = &client.plan.id;
                scene
                    .sim
                    .violation(format!("{id} life {number}: {complaint}"));
            }
            let ended_as_expected =
                matches!(life.outcome, Some(OrchestrationStatus::Completed { .. }));
            if ended_as_expected && number == last {
                state(scene, client, &expected, instances).await;
            }
            if ended_as_expected {
                detached(scene, client, number == last, &expected, instances);
            }
        }
        let is_gone = lives.last().is_some_and(|life| life.is_deleted);
        if is_gone && instances.contains_key(&client.plan.id) {
            let text = format!("{} was deleted and is there again", client.plan.id);
            scene.sim.violation(text);
        }
    }
}

/// Whether a life may have ended like this.
fn complaint(life: &LifeLog, expected: &Expected, is_limited: bool) -> Option<String> {
    if life.is_deleted {
        return None;
    }
    let Some(outcome) = &life.outcome else {
        return Some("has no end".to_owned());
    };
    let is_cancel = |details: &ErrorDetails| {
        matches!(
            details,
            ErrorDetails::Application {
                kind: AppErrorKind::Cancelled { .. },
                ..
            }
        )
    };
    match (outcome, &expected.result) {
        (OrchestrationStatus::Completed { output, .. }, Some(Ok(text))) => {
            let seen = output.rsplit_once(TAKEN).map_or("", |(seen, _)| seen);
            (Some(seen) != text.strip_suffix(TAKEN))
                .then(|| format!("returned {output}, not {text}"))
        }
        (OrchestrationStatus::Failed { details, .. }, _)
            if life.is_cancelled && is_cancel(details) =>
        {
            None
        }
        (OrchestrationStatus::Failed { details, .. }, _)
            if is_limited && details.is_timed_out() =>
        {
            None
        }
        (OrchestrationStatus::Failed { details, .. }, Some(Err(text))) => {
            let seen = details.display_message();
            (!seen.contains(text.as_str())).then(|| format!("failed with {seen}, not {text}"))
        }
        (outcome, expected) => Some(format!("ended as {outcome:?}, not {expected:?}")),
    }
}

/// Key-values and status of an instance that returned.
async fn state(
    scene: &Scene,
    client: &RootClient,
    expected: &Expected,
    instances: &BTreeMap<String, Histories>,
) {
    let id = &client.plan.id;
    let stored = scene.store.get_kv_all_values(id).await.unwrap_or_default();
    let stored: BTreeMap<_, _> = stored.into_iter().collect();
    // Replies are kept beside what the program wrote.
    let stored: BTreeMap<_, _> = stored
        .into_iter()
        .filter(|(key, _)| !is_reserved_key(key))
        .collect();
    if stored != expected.kv {
        let text = format!("{id} has key-values {stored:?}, not {:?}", expected.kv);
        scene.sim.violation(text);
    }
    let labels = scene.admin().labels(id).await.unwrap_or_default();
    if labels != expected.labels {
        let text = format!("{id} has labels {labels:?}, not {:?}", expected.labels);
        scene.sim.violation(text);
    }
    let outcome = scene.store.read_outcome(id).await.ok().flatten();
    let status = outcome.and_then(|outcome| outcome.custom_status);
    if status != expected.status {
        let text = format!("{id} has status {status:?}, not {:?}", expected.status);
        scene.sim.violation(text);
    }
    let Some(histories) = instances.get(id) else {
        scene.sim.violation(format!("{id} ended and is gone"));
        return;
    };
    let is_whole = histories.keys().copied().eq(1..=expected.executions);
    let was_pruned = client.plan.lives.iter().any(|life| life.prunes);
    let is_retried = client.plan.lives.iter().any(|life| life.retries);
    if !is_whole && !was_pruned && !is_retried {
        let text = format!(
            "{id} has executions {:?}, not {}",
            histories.keys(),
            expected.executions
        );
        scene.sim.violation(text);
    }
    if is_whole && history::key_values(histories) != stored {
        scene
            .sim
            .violation(format!("{id} has other key-values than its events say"));
    }
}

/// What was started detached has run and ended as it should.
fn detached(
    scene: &Scene,
    client: &RootClient,
    is_last: bool,
    expected: &Expected,
    instances: &BTreeMap<String, Histories>,
) {
    for (label, expected) in &expected.detached {
        // Nothing deletes a detached instance of an earlier life: it stays.
        let id = format!("d~{label}");
        let Some(histories) = instances.get(&id) else {
            if is_last || !client.plan.lives.is_empty() {
                scene
                    .sim
                    .violation(format!("{id} was started detached and is not there"));
            }
            continue;
        };
        let end = histories
            .values()
            .next_back()
            .and_then(|history| history.last());
        let fits = match (end.map(|event| &event.kind), &expected.result) {
            (Some(EventKind::OrchestrationCompleted { output }), Some(Ok(text))) => {
                output.starts_with(text.as_str())
            }
            (Some(EventKind::OrchestrationFailed { details }), Some(Err(text))) => {
                details.display_message().contains(text.as_str())
            }
            _ => false,
        };
        if !fits {
            let text = format!("{id} ended with {end:?}, not {:?}", expected.result);
            scene.sim.violation(text);
        }
    }
}
