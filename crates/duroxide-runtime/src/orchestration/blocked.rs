//! Leaving an instance as it is, because its code does not fit its history or the store refuses what it decided. In: a
//! claim and a report. Out: the claim given back, the report where an operator finds it. Never an end.

use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::BlockedInstance;

use super::give_back::give_back;
use super::plan::ExecutionRef;
use crate::engine::{BlockCause, Engine, shorten};
use crate::leases::Held;

/// How long an engine with [`Defect::BlockedForEver`] lets a blocked instance rest.
const DEFECTIVE_REST: Duration = Duration::from_secs(365 * 86_400);

/// Keeps the report in the store, where it outlives this node. The lease is held: who lost it notes nothing, and a
/// later try notes what this one could not.
async fn note(engine: &Engine, lock_token: &str, blocked: &BlockedInstance) {
    let node = engine.node_name();
    let noted = engine.store.note_blocked(lock_token, blocked, &node);
    if let Err(error) = noted.await {
        tracing::debug!(target: "duroxide::runtime", %error, "the store did not keep why an instance is blocked");
    }
}

/// Leaves an instance as it is, to be tried again later.
pub(super) async fn block(
    engine: &Engine,
    lease: Held,
    of: &ExecutionRef,
    cause: BlockCause,
    report: String,
) {
    tracing::error!(
        target: "duroxide::runtime",
        instance_id = %of.instance,
        execution_id = of.execution_id,
        orchestration_name = %of.name,
        "orchestration blocked: {report}"
    );
    let blocked = BlockedInstance {
        instance_id: of.instance.clone(),
        execution_id: of.execution_id,
        orchestration_name: of.name.clone(),
        report,
        attempts: 0,
    };
    let backoff = &engine.options.unregistered_backoff;
    let (mut delay, mut blocked) = engine
        .blocked
        .insert(blocked, of.incarnation, cause, backoff);
    shorten(&mut blocked);
    note(engine, lease.token(), &blocked).await;
    if Defect::BlockedForEver.is_on() {
        delay = DEFECTIVE_REST;
    }
    give_back(engine, lease, Some(delay)).await;
}
