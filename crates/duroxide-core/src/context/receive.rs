//! Messages and time limits by type.

use std::time::Duration;

use super::{Either2, OrchestrationContext};
use crate::codec;
use crate::definition::{Elapsed, Payload, Undecodable};
use crate::future::DurableFuture;

impl OrchestrationContext {
    /// Takes the next message of a queue. Messages wait until they are taken, also across continue-as-new.
    ///
    /// ```
    /// use duroxide_core::OrchestrationContext;
    /// use std::time::Duration;
    ///
    /// async fn approval(ctx: OrchestrationContext, what: String) -> Result<String, String> {
    ///     let day = Duration::from_secs(24 * 60 * 60);
    ///     match ctx.timeout(day, ctx.receive::<bool>("approval")).await {
    ///         Ok(Ok(true)) => Ok(format!("{what} is granted")),
    ///         Ok(Ok(false)) => Ok(format!("{what} is refused")),
    ///         Ok(Err(strange)) => Err(strange.to_string()),
    ///         Err(_elapsed) => Ok(format!("nobody decided about {what}")),
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn receive<T: Payload>(
        &self,
        queue: impl Into<String>,
    ) -> DurableFuture<Result<T, Undecodable>> {
        self.dequeue_event(queue)
            .map(|text| codec::decode(&text).map_err(|error| Undecodable { text, error }))
    }

    /// Waits for this long. Survives restarts.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> DurableFuture<()> {
        self.schedule_timer(duration)
    }

    /// The work, or [`Elapsed`] if it is not done within a time. The time begins now; work that is late is dropped, and
    /// so cancelled. Work that is done at the very moment wins.
    #[track_caller]
    pub fn timeout<F: Future>(
        &self,
        limit: Duration,
        work: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> {
        let timer = self.schedule_timer(limit);
        async move {
            match self.select2(work, timer).await {
                Either2::First(value) => Ok(value),
                Either2::Second(()) => Err(Elapsed { limit }),
            }
        }
    }
}
