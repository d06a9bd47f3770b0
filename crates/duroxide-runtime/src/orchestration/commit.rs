//! The one place where a turn is written. In: a lease and everything the turn writes. Out: how the lease ended.
//!
//! A store that is out of reach delays a turn. It never fails an instance.

use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::{ProviderError, TurnWrites};
use tokio::time::Instant;

use super::give_back::give_back;
use super::plan::{TurnCommit, Whose};
use crate::engine::Engine;
use crate::leases::Held;

/// First pause between two tries of one commit while the store says "later"; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// How a commit ended.
#[derive(Debug)]
pub(super) enum Committed {
    Yes,
    /// Nothing was written here: the store was away, or another node took over. The turn runs again from the record.
    No,
    /// A try may have taken effect though the store answered with an error: the lease is gone since then.
    Unknown,
    /// The store refuses this write for good.
    Refused(Box<RefusedCommit>),
}

/// A write that the store refuses. The lease is still held.
#[derive(Debug)]
pub(super) struct RefusedCommit {
    pub(super) error: ProviderError,
    pub(super) lease: Held,
    pub(super) commit: TurnCommit,
}

/// Writes a turn of an instance.
#[expect(
    clippy::manual_async_fn,
    reason = "an argument of an async fn has two places in its future, and these are large"
)]
pub(super) fn commit<'a>(
    engine: &'a Engine,
    whose: Whose<'a>,
    lease: Held,
    commit: TurnCommit,
) -> impl Future<Output = Committed> + Send + 'a {
    async move {
        let instance = whose.instance;
        let give_up = Instant::now() + engine.options.orchestrator_lock_timeout;
        let mut pause = FIRST_PAUSE;
        let mut was_away = false;
        loop {
            let error = match write(engine, lease.token(), commit.clone()).await {
                Ok(()) => {
                    lease.end();
                    engine.excuses.remove(instance);
                    notify(engine, whose, &commit.writes);
                    return Committed::Yes;
                }
                Err(error) => error,
            };
            if error.is_lease_lost() {
                tracing::warn!(target: "duroxide::runtime", %error, "turn dropped: its lease was lost");
                if was_away || lease.is_loss_excused() {
                    engine.excuses.add(instance);
                }
                lease.end();
                return dropped(was_away);
            }
            if error.is_store_closed() {
                // A closed store takes nothing back either. The lease runs out, and the instance goes on where an
                // operator moved it to.
                tracing::warn!(target: "duroxide::runtime", instance_id = %instance, %error, "turn dropped");
                lease.end();
                return dropped(was_away);
            }
            was_away = true;
            if !error.is_retryable() {
                let refused = RefusedCommit {
                    error,
                    lease,
                    commit,
                };
                return Committed::Refused(Box::new(refused));
            }
            if Instant::now() + pause > give_up {
                tracing::warn!(target: "duroxide::runtime", %error, "the store does not take commits, the turn will run again");
                if Defect::SpoiltTurnRests.is_on() {
                    return Box::pin(defective_give_back(engine, lease)).await;
                }
                give_back(engine, lease, None).await;
                return Committed::No;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

/// The last try did not write the turn. If the store answered an earlier try with an error, that one may have taken
/// effect.
fn dropped(was_away: bool) -> Committed {
    if was_away {
        Committed::Unknown
    } else {
        Committed::No
    }
}

/// Gives a claim back with a delay that later messages do not share.
async fn defective_give_back(engine: &Engine, lease: Held) -> Committed {
    let (delay, token) = (Some(Duration::from_millis(500)), lease.token());
    let abandoned = engine.store.abandon_orchestration_item(token, delay, true);
    if abandoned.await.is_ok() {
        lease.end();
    }
    Committed::No
}

/// Hands a turn to the store.
fn write<'a>(
    engine: &'a Engine,
    lock_token: &'a str,
    commit: TurnCommit,
) -> impl Future<Output = Result<(), ProviderError>> + Send + 'a {
    let store = engine.store.as_ref();
    let TurnCommit {
        writes,
        holds_queue_messages,
    } = commit;
    let (holding, plain) = if holds_queue_messages {
        (
            Some(store.ack_holding_queue_messages(lock_token, writes)),
            None,
        )
    } else {
        (None, Some(writes.commit_to(store, lock_token)))
    };
    async move {
        if let Some(holding) = holding {
            // A store that holds nothing back hands the queue messages out: they are recorded unread, and carried on.
            holding.await?;
        }
        match plain {
            Some(plain) => plain.await,
            None => Ok(()),
        }
    }
}

/// Notifies this process of what the commit changed: cancelled activities at once, and dispatchers that pause.
fn notify(engine: &Engine, whose: Whose<'_>, written: &TurnWrites) {
    if let Some(activity) = written.cancelled.first() {
        tracing::debug!(
            target: "duroxide::runtime",
            instance_id = %activity.instance,
            status = written.metadata.status.as_deref().unwrap_or("Running"),
            count = written.cancelled.len(),
            "Cancelling in-flight activities"
        );
    }
    for activity in &written.cancelled {
        engine.running.cancel(activity, whose.incarnation);
    }
    if !written.to_workers.is_empty() {
        engine.work_ready.notify_one();
    }
    if !written.to_orchestrators.is_empty() {
        engine.turns_ready.notify_one();
    }
}
