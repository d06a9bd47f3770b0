//! What the kit is told about this provider.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::clock::{Clock, SystemClock};
use duroxide_core::provider::Provider;
use duroxide_validation::{Capability, ProviderFactory, TestClock};

use super::provider::TinyProvider;

/// The system's clock, moved forward as far as a case wants.
#[derive(Debug, Default)]
struct MovableClock {
    ahead_ms: AtomicU64,
}

impl Clock for MovableClock {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + self.ahead_ms.load(Ordering::SeqCst)
    }
}

impl TestClock for MovableClock {
    fn advance(&self, by: Duration) {
        self.ahead_ms
            .fetch_add(super::state::ms(by), Ordering::SeqCst);
    }

    fn now_ms(&self) -> u64 {
        Clock::now_ms(self)
    }
}

/// Makes stores, and remembers the last one for the helpers that look into it.
#[derive(Default)]
pub(crate) struct TinyFactory {
    clock: Arc<MovableClock>,
    last: Mutex<Option<TinyProvider>>,
}

impl TinyFactory {
    fn last(&self) -> TinyProvider {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().expect("a provider was created")
    }
}

#[async_trait]
impl ProviderFactory for TinyFactory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let provider = TinyProvider::new(self.clock.clone());
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(provider.clone());
        Arc::new(provider)
    }

    fn clock(&self) -> Option<Arc<dyn TestClock>> {
        Some(self.clock.clone())
    }

    fn fork(&self) -> Option<Arc<dyn ProviderFactory>> {
        Some(Arc::new(Self::default()))
    }

    fn supports(&self, capability: Capability) -> bool {
        matches!(
            capability,
            Capability::CorruptHistory | Capability::AttemptCounts | Capability::SecondHandle
        )
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.last().step(|state, _| {
            let all = state
                .executions
                .iter_mut()
                .filter(|((id, _), _)| id == instance);
            for event in all.flat_map(|(_, execution)| execution.events.values_mut()) {
                "not an event".clone_into(event);
            }
        });
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.last().step(|state, _| {
            let mine = state.messages.values().filter(|m| m.instance == instance);
            mine.map(|m| m.attempts).max().unwrap_or(0)
        })
    }

    async fn second_handle(&self) -> Arc<dyn Provider> {
        Arc::new(self.last())
    }
}
