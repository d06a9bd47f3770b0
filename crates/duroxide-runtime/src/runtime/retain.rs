//! Retention by a node itself. In: a policy in the options. Out: one pass from time to time, by one node at a time.
//! Never: a pass without the duty.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::Clock;
use duroxide_core::provider::{ProviderAdmin, ProviderError};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::retention::{Retention, RetentionReport, Sweep};

/// The duty that the node of a pass holds.
const DUTY: &str = "retention";
/// For so long the duty is held without another word: another node takes over after it.
const HELD_FOR: Duration = Duration::from_secs(60);
/// After so long it is held anew.
const RENEWED_AFTER: Duration = Duration::from_secs(15);
/// Between two steps the store belongs to others: for so many times as long as the step took, so that retention works
/// for a tenth of the time at most, and within these limits. A step that waited behind others took long.
const PAUSE_PER_STEP: u32 = 9;
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Applies the policy until the runtime stops.
pub(super) async fn retain(engine: Arc<Engine>) {
    let Some(retention) = engine.options.retention.clone() else {
        return;
    };
    let Some(admin) = engine.store.as_management_capability() else {
        tracing::warn!(
            target: "duroxide::runtime",
            "this store has no administration: retention does not run, and nothing is deleted"
        );
        return;
    };
    loop {
        // What a step has begun is a transaction of its own: whether it is waited for does not matter.
        let passed = tokio::select! {
            biased;
            () = engine.stop.cancelled() => return,
            passed = pass(&engine, admin, &retention) => passed,
        };
        match passed {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(
                    target: "duroxide::runtime",
                    "this store cannot give a duty to one node: retention does not run; apply it from outside"
                );
                return;
            }
            Err(error) => {
                tracing::warn!(target: "duroxide::runtime", %error, "retention stopped in its pass; the next one goes on");
            }
        }
        if !engine.pause(retention.interval).await {
            return;
        }
    }
}

/// One pass, if no other node has the duty; `false` if the store knows no duties.
async fn pass(
    engine: &Engine,
    admin: &dyn ProviderAdmin,
    retention: &Retention,
) -> Result<bool, ProviderError> {
    let holder = engine.runtime_id.as_str();
    // The store's own time, if it has one: a node whose clock is ahead must not delete early.
    let of_store = engine.store.clock_ms().await?;
    let now_ms = of_store.unwrap_or_else(|| engine.clock.now_ms());
    match admin.hold_duty(DUTY, holder, HELD_FOR).await? {
        Some(true) => {}
        Some(false) => return Ok(true),
        None => return Ok(false),
    }
    let mut held_at = Instant::now();
    let mut sweep = Sweep::new(retention.policy.clone(), now_ms);
    let mut total = RetentionReport::default();
    let ended = loop {
        if held_at.elapsed() > RENEWED_AFTER {
            match admin.hold_duty(DUTY, holder, HELD_FOR).await {
                Ok(Some(true)) => {}
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            }
            held_at = Instant::now();
        }
        let begun = Instant::now();
        match sweep.step(admin).await {
            Ok(Some(done)) => total.add(done),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        if !engine.pause(pause_after(begun.elapsed())).await {
            break Ok(());
        }
    };
    if total != RetentionReport::default() {
        tracing::info!(
            target: "duroxide::audit",
            verb = "retention", actor = %holder, instances = total.instances,
            executions = total.executions, events = total.events, "retention deleted what its policy says"
        );
    }
    // What cannot be given back now runs out.
    let _ = admin.hold_duty(DUTY, holder, Duration::ZERO).await;
    ended.map(|()| true)
}

/// How long to pause after a step that took so long.
fn pause_after(took: Duration) -> Duration {
    (took * PAUSE_PER_STEP).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_works_for_a_tenth_of_the_time_at_most() {
        let millis = Duration::from_millis;
        assert_eq!(pause_after(millis(8)), millis(72));
        assert_eq!(pause_after(millis(0)), PAUSE_MIN);
    }

    #[test]
    fn a_step_that_waited_for_a_store_that_was_away_does_not_stop_retention() {
        assert_eq!(pause_after(Duration::from_secs(60)), PAUSE_MAX);
    }
}
