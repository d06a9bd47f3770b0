//! Orchestrations that are reached from outside their history. They get a turn, which fails with the report.

use std::sync::{Arc, Weak};

use duroxide_core::replay::Execution;

use crate::engine::{Engine, claim_backoff};
use crate::executor::Task;

/// Gives an execution a turn as soon as something foreign reaches it: nothing that is recorded would.
pub(super) fn watch(engine: &Arc<Engine>, execution: &Execution) {
    let engine: Weak<Engine> = Arc::downgrade(engine);
    let nudge = execution.nudge();
    execution.on_foreign(Arc::new(move || {
        let Some(engine) = engine.upgrade() else {
            return;
        };
        let (store, nudge) = (Arc::clone(&engine.store), nudge.clone());
        let task = Task::engine("a notice of something foreign");
        let patient = Arc::clone(&engine);
        engine.executor.spawn(task, async move {
            let mut errors = 0;
            while let Err(error) = store.enqueue_for_orchestrator(nudge.clone(), None).await {
                errors += 1;
                let tries_again =
                    error.is_retryable() && patient.pause(claim_backoff(errors)).await;
                if !tries_again {
                    tracing::warn!(target: "duroxide::runtime", %error, "an orchestration that waits for something not durable gets no turn now; its next one will fail");
                    return;
                }
            }
        });
    }));
}
