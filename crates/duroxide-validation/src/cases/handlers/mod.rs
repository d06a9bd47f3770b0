//! A node claims only what it has code for. What it is passed over for waits uncounted and blocks no other work.

mod activities;
mod cancel;
mod instances;
mod waiting;

pub use activities::*;
pub use cancel::*;
pub use instances::*;
pub use waiting::*;

use std::sync::Arc;

use duroxide_core::provider::{ClaimedTurn, OrchestrationHandlers, TurnClaim};

use crate::ProviderFactory;
use crate::fixture::{Bench, Turn};

/// A node with code for these orchestrations.
fn node(handlers: &[(&str, &str)]) -> Option<Arc<OrchestrationHandlers>> {
    let mut all = OrchestrationHandlers::default();
    for (name, version) in handlers {
        all = all.with(*name, *version);
    }
    Some(Arc::new(all))
}

async fn claim_as<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    handlers: &[(&str, &str)],
) -> Option<ClaimedTurn> {
    let claim = TurnClaim {
        handlers: node(handlers),
        // As good as never: cases about it say otherwise.
        cancel_without_code_after: bench.lock * 100,
        ..bench.ask()
    };
    bench.claim_turns(claim).await.pop()
}

/// This node is offered nothing.
async fn passed_over<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, handlers: &[(&str, &str)]) {
    let found = claim_as(bench, handlers).await;
    let found = found.map(|turn| (turn.item.instance, turn.item.messages));
    assert_eq!(found, None, "{handlers:?} cannot run it");
}

/// This node is offered the instance, as a first attempt.
async fn offered<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    handlers: &[(&str, &str)],
    instance: &str,
) -> Turn {
    let turn = claim_as(bench, handlers).await;
    let turn = turn.unwrap_or_else(|| panic!("{handlers:?} is offered `{instance}`"));
    assert_eq!(turn.item.instance, instance);
    assert_eq!(turn.attempt_count, 1, "to be passed over is no attempt");
    Turn::from(&turn)
}
