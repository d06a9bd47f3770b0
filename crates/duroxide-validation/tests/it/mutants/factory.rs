//! The reference factory, with a flaw in everything it makes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::clock::{Clock, ClockRef};
use duroxide_core::provider::Provider;
use duroxide_store::MemoryProvider;
use duroxide_validation::{Capability, ClockSkew, ProviderFactory, TestClock};

use super::{Flaw, Mutant};
use crate::reference::{Memory, MovableClock};

/// The clock of a machine that is wrong.
#[derive(Debug)]
struct Skewed {
    right: Arc<MovableClock>,
    off: ClockSkew,
}

impl Clock for Skewed {
    fn now_ms(&self) -> u64 {
        let ms = |by: Duration| u64::try_from(by.as_millis()).expect("a skew of hours");
        let right_ms = Clock::now_ms(&*self.right);
        match self.off {
            ClockSkew::Ahead(by) => right_ms + ms(by),
            ClockSkew::Behind(by) => right_ms - ms(by),
        }
    }
}

pub(super) struct Flawed {
    reference: Memory,
    flaw: Flaw,
}

impl Flawed {
    pub(super) fn with(flaw: Flaw) -> Self {
        Self {
            reference: Memory::default(),
            flaw,
        }
    }
}

#[async_trait]
impl ProviderFactory for Flawed {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let clock = self.reference.movable();
        Arc::new(Mutant::around(self.reference.create(), self.flaw, clock))
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.reference.corrupt_instance_history(instance).await;
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.reference.get_max_attempt_count(instance).await
    }

    fn supports(&self, capability: Capability) -> bool {
        self.reference.supports(capability)
    }

    fn must_offer(&self) -> &'static [Capability] {
        self.reference.must_offer()
    }

    fn long_polls(&self) -> bool {
        self.reference.long_polls()
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        self.reference.clock()
    }

    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        Some(Arc::new(Self::with(self.flaw)))
    }

    fn unknown_instance_grace(&self) -> Option<Duration> {
        self.reference.unknown_instance_grace()
    }

    async fn corrupt_orchestrator_messages(&self, instance: &str) {
        self.reference.corrupt_orchestrator_messages(instance).await;
    }

    async fn corrupt_worker_items(&self, instance: &str) {
        self.reference.corrupt_worker_items(instance).await;
    }

    async fn second_handle(&self) -> Arc<dyn Provider> {
        let clock = self.reference.movable();
        Arc::new(Mutant::around(self.reference.last(), self.flaw, clock))
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        let clock = self.reference.movable();
        let reference = match self.flaw {
            Flaw::KeepsNothing => self.reference.create(),
            _ => self.reference.last(),
        };
        Arc::new(Mutant::around(reference, self.flaw, clock))
    }

    async fn skewed_handle(&self, skew: ClockSkew) -> Arc<dyn Provider> {
        let off = match (self.flaw, skew) {
            (Flaw::HandlesHaveClocks, skew) => skew,
            (Flaw::SkewHasNoSign, ClockSkew::Ahead(by) | ClockSkew::Behind(by)) => {
                ClockSkew::Ahead(by)
            }
            _ => return self.second_handle().await,
        };
        let clock: ClockRef = Arc::new(Skewed {
            right: self.reference.movable(),
            off,
        });
        let store = self.reference.last().store().under_another_clock(clock);
        Arc::new(MemoryProvider::over("skewed", store))
    }
}
