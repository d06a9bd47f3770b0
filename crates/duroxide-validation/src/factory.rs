//! What the kit asks of a provider's author: fresh stores, and whatever else the author can offer.
//!
//! In: an author's factory. Out: stores to test. Everything beyond `create_provider` has a default, so that a factory
//! written for the published crate compiles; a case that needs more than the factory offers is skipped aloud.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::provider::Provider;

use crate::Capability;

/// Makes the stores under test.
///
/// The helpers that damage, inspect or reopen a store act on the one that
/// [`create_provider`](Self::create_provider) returned last, so a factory that offers them remembers it.
#[async_trait]
pub trait ProviderFactory: Sync + Send {
    /// A fresh, empty, isolated store on every call.
    async fn create_provider(&self) -> Arc<dyn Provider>;

    /// Length of the leases that cases take and wait for.
    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// How long a fetch of a store that does not long-poll may take on an empty queue.
    fn short_poll_threshold(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// How late the best of several wake-ups may be: the way to the store and back. A store that polls is later every
    /// time. The limits of all cases about waking follow from it.
    fn wake_latency(&self) -> Duration {
        Duration::from_millis(30)
    }

    /// How long anything may take that a running engine is expected to do on the store: turns, activities, an end. A
    /// case that waits for longer fails, so it is no measure of the store's speed.
    fn engine_patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// Makes the stored history of the instance undecodable.
    ///
    /// # Panics
    ///
    /// By default: the factory cannot do this.
    async fn corrupt_instance_history(&self, instance: &str) {
        cannot("corrupt_instance_history", instance)
    }

    /// Largest attempt count over the orchestrator messages of the instance, as stored.
    ///
    /// # Panics
    ///
    /// By default: the factory cannot do this.
    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        cannot("get_max_attempt_count", instance)
    }

    /// Whether the factory offers an optional helper. Abilities of the store itself are found out by asking it.
    fn supports(&self, capability: Capability) -> bool {
        let _ = capability;
        false
    }

    /// What the store and this factory must be able to do, [`Capability::all_but`] what they cannot: a case that finds
    /// it missing fails instead of being skipped.
    fn must_offer(&self) -> &'static [Capability] {
        &[]
    }

    /// Whether a fetch waits for work up to its `poll_timeout`; by default, whether the store must.
    fn long_polls(&self) -> bool {
        self.must_offer().contains(&Capability::LongPoll)
    }

    /// The clock of the store, if cases may move it; they sleep otherwise.
    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        None
    }

    /// A factory of its own for one case. With it, cases run side by side; without it, one after another.
    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        None
    }

    /// How long the store keeps a message for an instance that does not exist before it consumes it.
    fn unknown_instance_grace(&self) -> Option<Duration> {
        None
    }

    /// Makes every orchestrator message now queued for the instance undecodable.
    ///
    /// # Panics
    ///
    /// By default: the factory cannot do this.
    async fn corrupt_orchestrator_messages(&self, instance: &str) {
        cannot("corrupt_orchestrator_messages", instance)
    }

    /// Makes every activity now queued for the instance undecodable.
    ///
    /// # Panics
    ///
    /// By default: the factory cannot do this.
    async fn corrupt_worker_items(&self, instance: &str) {
        cannot("corrupt_worker_items", instance)
    }

    /// A second handle on the store that was created last, as another process would hold it.
    ///
    /// # Panics
    ///
    /// By default: the factory cannot do this.
    async fn second_handle(&self) -> Arc<dyn Provider> {
        cannot("second_handle", "the last store")
    }

    /// Opens the store that was created last again, as the next process would. The case has dropped its handle; the
    /// factory drops its own before.
    ///
    /// # Panics
    ///
    /// By default: the factory cannot do this.
    async fn reopen(&self) -> Arc<dyn Provider> {
        cannot("reopen", "the last store")
    }

    /// A second handle on the store that was created last, held by a machine whose own clock is wrong.
    ///
    /// # Panics
    ///
    /// By default: the factory cannot do this.
    async fn skewed_handle(&self, skew: ClockSkew) -> Arc<dyn Provider> {
        cannot("skewed_handle", &format!("{skew:?}"))
    }
}

/// A store's clock that a case may move forward.
pub trait TestClock: Send + Sync {
    /// Moves the clock forward.
    fn advance(&self, by: Duration);

    /// Sets the clock back, as an operator or a time server does; `false` if it cannot.
    ///
    /// A factory whose clock can says so with [`Capability::ClockSetBack`].
    fn set_back(&self, by: Duration) -> bool {
        let _ = by;
        false
    }

    /// What the store takes for now, in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// In which way a machine's clock is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSkew {
    /// It runs ahead of the store by this much.
    Ahead(Duration),
    /// It runs behind the store by this much.
    Behind(Duration),
}

fn cannot(helper: &str, subject: &str) -> ! {
    panic!("this factory does not implement {helper} (asked for {subject})")
}
