//! Noticing a request to cancel, to put things right before the end.

use super::OrchestrationContext;
use crate::durable::Resolution;
use crate::future::{DurableFuture, ScheduleKind};

impl OrchestrationContext {
    /// Resolves to the reason when a client or the parent asks to cancel this orchestration.
    ///
    /// While the code holds this future, the first request does not end the orchestration at once: the future resolves
    /// and the code goes on, to undo what it did. When it then returns, with a value or an error, or asks to continue
    /// as new, the orchestration ends as cancelled with that reason. Further requests change nothing; only terminating
    /// the instance ends it at once. Without this future, or after it was dropped, the first request does.
    ///
    /// A request that comes after the code, which held this future, has returned changes nothing; one that comes after
    /// it asked to continue as new reaches the next execution. That holds also if the engine took them up together.
    /// Code that watches and continues as new again and again without ever waiting is ended by terminating it.
    ///
    /// Nothing is recorded for it, and waiting for nothing else is a mistake: an orchestration must wait for something
    /// that can happen by itself.
    ///
    /// ```
    /// use duroxide_core::{Either2, OrchestrationContext};
    ///
    /// async fn order(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let reserved = ctx.schedule_activity("reserve", input).await?;
    ///     let paid = ctx.schedule_wait("paid");
    ///     match ctx.select2(paid, ctx.cancellation_requested()).await {
    ///         Either2::First(receipt) => Ok(receipt),
    ///         Either2::Second(reason) => {
    ///             ctx.schedule_activity("release", reserved).await?;
    ///             Err(reason)
    ///         }
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn cancellation_requested(&self) -> DurableFuture<String> {
        let watch = self.watch_cancellation();
        let cell = self.shared.cell();
        if cell.cancel_requested.is_some() {
            cell.hear_request();
        }
        drop(cell);
        watch
    }

    /// As [`cancellation_requested`](Self::cancellation_requested), for groups and shields: the code does not learn
    /// from it what it does not wait for.
    #[track_caller]
    pub(super) fn watch_cancellation(&self) -> DurableFuture<String> {
        let kind = ScheduleKind::ExternalWait {
            event_name: "cancellation".to_owned(),
        };
        let mut cell = self.shared.deciding(std::panic::Location::caller());
        if let Some(reason) = cell.cancel_requested.clone() {
            return DurableFuture::known(reason, kind);
        }
        let slot = cell.operations.watch_cancellation();
        drop(cell);
        DurableFuture::waiting(self.shared.clone(), slot, kind, Resolution::into_data)
    }
}
