//! Cancellation by scope: a group that ends with a request to cancel, and work that such a request does not touch.
//!
//! To cancel a group from within, drop its future: everything it asked for is cancelled with it.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;

use super::OrchestrationContext;
use super::shielding::Shield;

/// A group that was cancelled with its orchestration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// The reason that was given with the request.
    pub reason: String,
}

impl Cancelled {
    /// A stable code; docs/errors.md says what it means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "D0933"
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "canceled: {}", self.reason)
    }
}

impl Error for Cancelled {}

impl From<Cancelled> for String {
    fn from(cancelled: Cancelled) -> Self {
        cancelled.to_string()
    }
}

impl OrchestrationContext {
    /// Runs a group of durable work until it is done or a client asks to cancel the orchestration. Then the group is
    /// dropped, and so everything it asked for is cancelled; the code goes on after it and may put things right. When
    /// the code returns, the orchestration ends as cancelled. A group in which something is [shielded](Self::shield) is
    /// dropped when that is done.
    ///
    /// ```
    /// use duroxide_core::{ActivityRef, OrchestrationContext};
    ///
    /// const RESERVE: ActivityRef<String, u64> = ActivityRef::new("reserve");
    /// const RELEASE: ActivityRef<u64, ()> = ActivityRef::new("release");
    ///
    /// async fn booking(ctx: OrchestrationContext, seat: String) -> Result<String, String> {
    ///     let held = ctx.call(RESERVE, &seat).await?;
    ///     match ctx.cancellable(ctx.receive::<String>("paid")).await {
    ///         Ok(receipt) => Ok(receipt?),
    ///         Err(cancelled) => {
    ///             ctx.call(RELEASE, &held).await?;
    ///             Err(cancelled.into())
    ///         }
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn cancellable<F: Future>(
        &self,
        group: F,
    ) -> impl Future<Output = Result<F::Output, Cancelled>> {
        let requested = self.cancellation_requested();
        async move {
            let ended = self.until_cancelled(group, requested).await;
            ended.map_err(|reason| Cancelled { reason })
        }
    }

    /// Runs work that a request to cancel does not touch: compensation, or steps that belong together. A request that
    /// comes meanwhile is kept: [`cancel_reason`](Self::cancel_reason) returns it, a [`cancellable`](Self::cancellable)
    /// group or a [saga](Self::saga) around the work ends with it when the work is done, and the orchestration ends as
    /// cancelled when its code returns. The code behind the work runs on to its next `await` first, so it can say what
    /// undoes it. Terminating an instance ends it all the same, and so does dropping the future of the work.
    #[track_caller]
    pub fn shield<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        let watch = self.cancellation_requested();
        let mut shield = Shield::new(&self.shared);
        async move {
            let mut work = pin!(work);
            let value = poll_fn(|cx| {
                shield.join();
                work.as_mut().poll(cx)
            })
            .await;
            drop((shield, watch));
            value
        }
    }

    /// Why the orchestration is asked to cancel, once it is.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<String> {
        self.shared.cell().cancel_requested.clone()
    }
}
