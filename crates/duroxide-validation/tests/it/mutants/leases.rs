//! Flaws of leases on instances that are given back or renewed, and of messages that are sent to instances.

use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::{Provider, ProviderError};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

impl Mutant {
    pub(super) async fn abandon_turn(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        let (delay, ignore_attempt) = match self.flaw {
            Flaw::AbandonKeepsLease if self.notes.instance_of(token).is_some() => return Ok(()),
            Flaw::AbandonIgnoresDelay => (None, ignore_attempt),
            Flaw::AbandonAlwaysCounts => (delay, false),
            Flaw::AbandonNeverCounts => (delay, true),
            _ => (delay, ignore_attempt),
        };
        let answer = self
            .inner
            .abandon_orchestration_item(token, delay, ignore_attempt)
            .await;
        if self.has(Flaw::AbandonForgivesStrangers) {
            return Ok(());
        }
        if answer.is_err() && ignore_attempt && self.has(Flaw::StrangersForgive) {
            self.forgive(token);
        }
        answer?;
        self.notes.lock().open_turns.remove(token);
        if self.has(Flaw::AbandonDelaysAll) && delay.is_some() {
            return self.hide_newcomers(delay).await;
        }
        Ok(())
    }

    /// Claims what arrived during the lease and delays it like the rest.
    async fn hide_newcomers(&self, delay: Option<Duration>) -> Result<()> {
        let (lease, now) = (Duration::from_secs(1), Duration::ZERO);
        match self
            .inner
            .fetch_orchestration_item(lease, now, None)
            .await?
        {
            Some((_, token, _)) => {
                self.inner
                    .abandon_orchestration_item(&token, delay, true)
                    .await
            }
            None => Ok(()),
        }
    }

    pub(super) async fn renew_turn(&self, token: &str, extend_for: Duration) -> Result<()> {
        if self.has(Flaw::RenewalIsLostOnTurns) {
            let open = self.notes.lock().open_turns.contains(token);
            return if open {
                Ok(())
            } else {
                self.inner
                    .renew_orchestration_item_lock(token, extend_for)
                    .await
            };
        }
        let extend_for = self.as_renewal(token, extend_for);
        let answer = self
            .inner
            .renew_orchestration_item_lock(token, extend_for)
            .await;
        if self.has(Flaw::RenewalRevives) && self.notes.instance_of(token).is_some() {
            return Ok(());
        }
        if self.takes_for_renewed(token) {
            return Ok(());
        }
        answer
    }

    pub(super) async fn enqueue(&self, item: WorkItem, delay: Option<Duration>) -> Result<()> {
        let delay = if self.has(Flaw::IgnoresDelays) {
            None
        } else {
            delay
        };
        if self.drops_start(&item).await? {
            return Ok(());
        }
        self.seen.note_sent(&item);
        let instance = item.target_instance().to_owned();
        let early = !item.is_start() && self.inner.read_outcome(&instance).await?.is_none();
        let is_queued = matches!(item, WorkItem::QueueMessage { .. });
        let drops = self.has(Flaw::DropsEarlyMessages)
            || (is_queued && self.has(Flaw::DropsEarlyQueueMessages));
        if early && drops {
            return Ok(());
        }
        if early && !is_queued {
            self.notes.lock().orphans.insert(instance);
        }
        self.inner.enqueue_for_orchestrator(item, delay).await
    }
}
