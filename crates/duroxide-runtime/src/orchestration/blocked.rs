//! Leaving an instance as it is, because its code does not fit its history or the store refuses what it decided. In: a
//! claim and a report. Out: the claim given back, the report where an operator finds it. Never an end.

use duroxide_core::provider::BlockedInstance;

use super::commit::give_back;
use super::plan::ExecutionRef;
use crate::engine::{BlockCause, Engine};
use crate::leases::Held;

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
    let delay = engine
        .blocked
        .insert(blocked, of.incarnation, cause, backoff);
    give_back(engine, lease, Some(delay)).await;
}
