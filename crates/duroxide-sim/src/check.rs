//! Checks the end of a run. In: the store, what clients were told, what activities did, what programs should do. Out:
//! violations. Nothing is repaired here.

mod cancelled;
mod effects;
mod history;
mod outcome;
mod queue_messages;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use duroxide_core::Event;
use duroxide_core::provider::{Provider, ProviderAdmin};

use crate::client::RootClient;
use crate::plan::Plan;
use crate::sim::Sim;

/// Everything the store holds of one instance: its executions that are left, oldest first.
pub(crate) type Histories = BTreeMap<u64, Vec<Event>>;

/// What a run leaves to be checked.
pub struct Scene {
    pub sim: Arc<Sim>,
    pub store: Arc<dyn Provider>,
    pub clients: Vec<Arc<RootClient>>,
    pub plan: Plan,
}

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scene").finish_non_exhaustive()
    }
}

impl Scene {
    fn admin(&self) -> &dyn ProviderAdmin {
        let admin = self.store.as_management_capability();
        admin.expect("every store of a simulation can be looked at")
    }
}

/// Looks at everything.
pub async fn check(scene: &Scene, is_done: bool) {
    if !is_done {
        stuck(scene).await;
    }
    let mut instances = BTreeMap::new();
    for id in scene.admin().list_instances().await.unwrap_or_default() {
        instances.insert(id.clone(), read(scene, &id).await);
    }
    for (id, histories) in &instances {
        history::check(scene, id, histories);
    }
    if is_done {
        outcome::check(scene, &instances).await;
        effects::check(scene);
        queue_messages::check(scene);
        cancelled::check(scene, &instances);
        leftovers(scene, &instances).await;
    }
}

async fn read(scene: &Scene, id: &str) -> Histories {
    let mut histories = BTreeMap::new();
    for execution in scene.admin().list_executions(id).await.unwrap_or_default() {
        let history = scene
            .admin()
            .read_history_with_execution_id(id, execution)
            .await;
        match history {
            Ok(history) => drop(histories.insert(execution, history)),
            Err(error) => scene.sim.violation(format!("{id} cannot be read: {error}")),
        }
    }
    histories
}

/// An instance waits although no fault has happened for long: says for what.
async fn stuck(scene: &Scene) {
    for client in &scene.clients {
        let lives = client
            .lives
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        let is_over = lives.len() == client.plan.lives.len()
            && lives
                .last()
                .is_some_and(|life| life.outcome.is_some() || life.is_deleted);
        if is_over {
            continue;
        }
        let id = &client.plan.id;
        let histories = read(scene, id).await;
        let last: Vec<_> = histories
            .values()
            .next_back()
            .map(|history| {
                history
                    .iter()
                    .rev()
                    .take(3)
                    .map(|e| e.kind.wire_name())
                    .collect()
            })
            .unwrap_or_default();
        scene.sim.violation(format!(
            "{id} is stuck in life {}, last events {last:?}",
            lives.len()
        ));
    }
}

/// What must not be left when everything has ended.
async fn leftovers(scene: &Scene, instances: &BTreeMap<String, Histories>) {
    let sim = &scene.sim;
    for (id, histories) in instances {
        let Some(last) = histories.values().next_back() else {
            continue;
        };
        if !last.last().is_some_and(Event::is_terminal) {
            let names: Vec<_> = last
                .iter()
                .rev()
                .take(3)
                .map(|e| e.kind.wire_name())
                .collect();
            sim.violation(format!("{id} never ends, last events {names:?}"));
        }
    }
    match scene.admin().get_queue_depths().await {
        Ok(depths) if depths.orchestrator_queue + depths.worker_queue == 0 => {}
        Ok(depths) => sim.violation(format!("queues are not empty in the end: {depths:?}")),
        Err(error) => sim.violation(format!("queues cannot be read: {error}")),
    }
    for letter in scene
        .admin()
        .list_dead_letters(100)
        .await
        .unwrap_or_default()
    {
        let excused = scene.clients.iter().any(|client| {
            let deleted = client.plan.lives.len() > 1
                || matches!(
                    client.plan.lives[0].end,
                    crate::plan::LifeEnd::Delete { .. }
                );
            deleted
                && letter
                    .instance_id
                    .as_deref()
                    .is_some_and(|id| id.starts_with(&client.plan.id))
        });
        let is_garbage = letter.payload.contains(crate::store::GARBAGE);
        if !excused && !is_garbage {
            sim.violation(format!("a dead letter: {letter:?}"));
        }
    }
}
