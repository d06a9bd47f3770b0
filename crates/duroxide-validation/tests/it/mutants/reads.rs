//! Flaws of reading.

use async_trait::async_trait;
use duroxide_core::provider::{
    InstanceOutcome, InstanceWatch, OutcomeStatus, Provider, ProviderError, SystemStats,
};
use duroxide_core::{BUILD_VERSION, ErrorDetails, Event};

use super::{Flaw, Mutant};

/// A watch that sleeps for ever.
pub(super) struct Asleep;

#[async_trait]
impl InstanceWatch for Asleep {
    async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }
}

/// A watch that is wrong about ends.
pub(super) struct Deluded {
    pub(super) inner: Box<dyn InstanceWatch>,
    pub(super) calls_all_running: bool,
}

#[async_trait]
impl InstanceWatch for Deluded {
    async fn changed(&mut self) {
        self.inner.changed().await;
    }

    fn is_running(&self) -> bool {
        self.calls_all_running || self.inner.is_running()
    }

    async fn ended(&mut self) -> Option<InstanceOutcome> {
        let told = self.inner.ended().await;
        if self.calls_all_running {
            return told;
        }
        let output = "another end".to_owned();
        Some(InstanceOutcome {
            execution_id: 1,
            status: OutcomeStatus::Completed { output },
            custom_status: None,
            custom_status_version: 0,
        })
    }
}

impl Mutant {
    pub(super) fn as_read(
        &self,
        history: Result<Vec<Event>, ProviderError>,
    ) -> Result<Vec<Event>, ProviderError> {
        let mut history = match history {
            Err(_) if self.has(Flaw::DamageReadsAsEmpty) => Vec::new(),
            answer => answer?,
        };
        if self.has(Flaw::ReversesHistory) {
            history.reverse();
        }
        if self.has(Flaw::RestampsEvents) {
            for event in &mut history {
                event.duroxide_version = BUILD_VERSION.to_owned();
            }
        }
        self.or_missing(history)
    }

    pub(super) async fn outcome(
        &self,
        instance: &str,
    ) -> Result<Option<InstanceOutcome>, ProviderError> {
        let mut outcome = self.inner.read_outcome(instance).await?;
        if self.has(Flaw::OutcomeWithoutReason)
            && let Some(outcome) = &mut outcome
            && let OutcomeStatus::Failed { details } = &mut outcome.status
        {
            *details = ErrorDetails::orchestration_failed("failed");
        }
        Ok(self.or_known(outcome, Self::no_outcome))
    }

    pub(super) async fn stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        let mut stats = self.inner.get_instance_stats(instance).await?;
        if self.has(Flaw::SizesAreCharacters)
            && let Some(stats) = &mut stats
        {
            let values = self.inner.get_kv_all_values(instance).await?;
            let characters: usize = values.values().map(|v| v.chars().count()).sum();
            stats.kv_total_value_bytes = characters as u64;
        }
        Ok(self.or_known(stats, Self::no_stats))
    }
}
