//! The one place where a turn is written. A store that is out of reach delays a turn; it never fails an instance.

use std::time::Duration;

use duroxide_core::provider::ProviderError;

use super::plan::TurnCommit;
use crate::engine::Engine;

/// Pauses between tries of one commit while the store says "later".
const RETRY_PAUSES_MS: [u64; 5] = [10, 20, 40, 80, 160];
/// How long an instance rests after a commit that the store could not take.
pub(super) const RELEASE_DELAY: Duration = Duration::from_millis(500);

/// How a commit ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Committed {
    Yes,
    /// Nothing was written; the turn runs again.
    Released,
    /// Another worker took over; the turn is void.
    LeaseLost,
    /// The store refuses this turn for good.
    Refused(ProviderError),
}

/// Writes a turn.
pub(super) async fn commit(engine: &Engine, lock_token: &str, commit: TurnCommit) -> Committed {
    let mut pauses = RETRY_PAUSES_MS.iter();
    loop {
        let error = match write(engine, lock_token, commit.clone()).await {
            Ok(()) => {
                after(engine, &commit);
                return Committed::Yes;
            }
            Err(error) => error,
        };
        if error.is_lease_lost() {
            tracing::warn!(target: "duroxide::runtime", %error, "turn dropped: its lease was lost");
            return Committed::LeaseLost;
        }
        if !error.is_retryable() {
            return Committed::Refused(error);
        }
        match pauses.next() {
            Some(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            None => {
                tracing::warn!(target: "duroxide::runtime", %error, "the store does not take commits, the turn will run again");
                release(engine, lock_token, Some(RELEASE_DELAY), true).await;
                return Committed::Released;
            }
        }
    }
}

async fn write(engine: &Engine, lock_token: &str, commit: TurnCommit) -> Result<(), ProviderError> {
    engine
        .store
        .ack_orchestration_item(
            lock_token,
            commit.execution_id,
            commit.history,
            commit.to_workers,
            commit.to_orchestrators,
            commit.metadata,
            commit.cancelled,
        )
        .await
}

/// Tells this process what the commit changed: cancelled activities at once, and dispatchers that pause.
fn after(engine: &Engine, commit: &TurnCommit) {
    if let Some(activity) = commit.cancelled.first() {
        tracing::debug!(
            target: "duroxide::runtime",
            instance_id = %activity.instance,
            status = commit.metadata.status.as_deref().unwrap_or("Running"),
            count = commit.cancelled.len(),
            "Cancelling in-flight activities"
        );
    }
    for activity in &commit.cancelled {
        engine.running.cancel(activity);
    }
    if !commit.to_workers.is_empty() {
        engine.work_ready.notify_one();
    }
    if !commit.to_orchestrators.is_empty() {
        engine.turns_ready.notify_one();
    }
}

/// Gives a claim back. If that fails too, the lease runs out by itself.
pub(super) async fn release(
    engine: &Engine,
    lock_token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) {
    let released = engine
        .store
        .abandon_orchestration_item(lock_token, delay, ignore_attempt)
        .await;
    if let Err(error) = released {
        tracing::debug!(target: "duroxide::runtime", %error, "releasing a claim failed, its lease will run out");
    }
}
