//! The reference factory, with a flaw in everything it makes.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::{Clock, ClockRef};
use duroxide_core::provider::Provider;
use duroxide_store::MemoryProvider;
use duroxide_validation::{ClockSkew, ProviderFactory};

use super::{Flaw, Mutant};
use crate::reference::{Memory, MovableClock};

/// An engine on a mutant that stands still is not waited for as long as one on a store that is right.
const ENGINE_PATIENCE: Duration = Duration::from_secs(5);

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
            reference: Memory::impatient(ENGINE_PATIENCE),
            flaw,
        }
    }
}

duroxide_validation::__forwarding_factory!(Flawed => reference {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let clock = self.reference.movable();
        Arc::new(Mutant::around(self.reference.create(), self.flaw, clock))
    }

    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        Some(Arc::new(Self::with(self.flaw)))
    }

    async fn second_handle(&self) -> Arc<dyn Provider> {
        let clock = self.reference.movable();
        Arc::new(Mutant::around(self.reference.handle(), self.flaw, clock))
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        let clock = self.reference.movable();
        let reference = match self.flaw {
            Flaw::KeepsNothing => self.reference.create(),
            _ => self.reference.handle(),
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
});
