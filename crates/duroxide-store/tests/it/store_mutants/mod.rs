//! Stores that break one promise each, to show that the store suite notices. In: the memory store and a [`Flaw`]. Out:
//! which cases fail on it, in virtual time, so that nothing depends on the machine.

mod answers;
mod claims;
mod commits;
mod flaws;
mod matrix;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::clock::Clock as _;
use duroxide_store::conformance::Harness;
use duroxide_store::memory::MemoryStore;
use duroxide_store::{
    Answer, AtomicOps, Batch, Claim, Claimed, Delivery, EventStore, LeaseToken, ManualClock,
    MessageQueue, Query, Queue, StoreError, TopicWatch,
};

use self::flaws::Flaw;

/// The memory store with one flaw.
#[derive(Clone)]
struct Mutant {
    inner: MemoryStore,
    flaw: Flaw,
    notes: Arc<Mutex<Notes>>,
}

/// What flaws go by that outlast a call.
#[derive(Default)]
struct Notes {
    scopes: BTreeSet<String>,
    entities: BTreeSet<String>,
    groups: BTreeSet<String>,
    deliveries: BTreeMap<String, Delivery>,
    /// Tokens that were handed out, by group.
    tokens: BTreeMap<String, LeaseToken>,
    was_set_back: bool,
}

impl Mutant {
    fn with(flaw: Flaw, clock: &ManualClock) -> Self {
        Self {
            inner: MemoryStore::with_clock(clock),
            flaw,
            notes: Arc::default(),
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap()
    }

    fn is_set_back(&self) -> bool {
        self.inner.clock_ms() < self.inner.now_ms()
    }

    /// A queue that is used otherwise than before is taken for another one.
    fn split(&self, queue: &mut Queue) {
        if !self.has(Flaw::DeliveriesMix) {
            return;
        }
        let mut notes = self.notes();
        let first = notes.deliveries.entry(queue.name.to_string());
        if *first.or_insert(queue.delivery) != queue.delivery {
            queue.name = format!("{} once more", queue.name).into();
        }
    }
}

#[async_trait]
impl AtomicOps for Mutant {
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn clock_ms(&self) -> u64 {
        self.inner.clock_ms()
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<u64>, StoreError> {
        self.flawed_commit(batch).await
    }

    async fn query(&self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError> {
        self.flawed_query(queries).await
    }

    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        self.inner.watch(topic)
    }
}

#[async_trait]
impl MessageQueue for Mutant {
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.flawed_claim(claim).await
    }
}

/// A mutant under test.
struct Bench {
    store: Mutex<Mutant>,
    clock: ManualClock,
}

impl Bench {
    fn of(flaw: Flaw) -> Self {
        let clock = ManualClock::new();
        let store = Mutex::new(Mutant::with(flaw, &clock));
        Self { store, clock }
    }

    fn mutant(&self) -> Mutant {
        self.store.lock().unwrap().clone()
    }
}

#[async_trait]
impl Harness for Bench {
    async fn fresh() -> Self {
        Self::of(Flaw::None)
    }

    fn store(&self) -> Arc<dyn EventStore> {
        Arc::new(self.mutant())
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    async fn set_back(&self, by: Duration) -> bool {
        let by_ms = u64::try_from(by.as_millis()).unwrap();
        self.clock.set(self.clock.now_ms() - by_ms);
        true
    }

    async fn second(&self) -> Option<Arc<dyn EventStore>> {
        let mutant = self.mutant();
        Some(match mutant.flaw {
            Flaw::TwoStores => Arc::new(Mutant::with(mutant.flaw, &self.clock)),
            _ => Arc::new(mutant),
        })
    }

    async fn reopen(&self) -> Option<Arc<dyn EventStore>> {
        let mutant = self.mutant();
        match mutant.flaw {
            Flaw::KeepsNothing => {
                *self.store.lock().unwrap() = Mutant::with(mutant.flaw, &self.clock);
            }
            Flaw::LeasesDieWithTheProcess => mutant.release_all().await,
            _ => {}
        }
        Some(self.store())
    }
}
