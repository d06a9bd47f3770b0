//! Timers.

use std::panic::Location;
use std::time::Duration;

use super::OrchestrationContext;
use crate::durable::{CommandKind, OperationKind};
use crate::future::{DurableFuture, ScheduleKind};

/// Latest due time that every store can hold: signed 64-bit milliseconds.
const LATEST_MS: u64 = i64::MAX as u64;

impl OrchestrationContext {
    /// Sets a timer. Survives restarts; a delay that reaches beyond the end of time is cut there.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    /// use std::time::Duration;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     ctx.schedule_timer(Duration::from_secs(24 * 60 * 60)).await;
    ///     ctx.schedule_activity("remind", input).await
    /// }
    /// ```
    #[track_caller]
    pub fn schedule_timer(&self, delay: Duration) -> DurableFuture<()> {
        self.set_timer(delay, Location::caller())
    }

    pub(super) fn set_timer(
        &self,
        delay: Duration,
        location: &'static Location<'static>,
    ) -> DurableFuture<()> {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let mut cell = self.shared.deciding(location);
        let fire_at_ms = cell.clock_ms.saturating_add(delay_ms).min(LATEST_MS);
        let kind = CommandKind::Timer { fire_at_ms };
        let slot = cell.call(OperationKind::Timer, kind, location);
        drop(cell);
        DurableFuture::waiting(self.shared.clone(), slot, ScheduleKind::Timer, |_| ())
    }
}
