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
    /// dropped when that is done; if the group itself is done with that, its value is returned, and
    /// [`cancel_reason`](Self::cancel_reason) tells of the request.
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
        let requested = self.watch_cancellation();
        async move {
            let ended = self.until_cancelled(group, requested).await;
            ended.map_err(|reason| Cancelled { reason })
        }
    }

    /// Runs work that a request to cancel does not touch: compensation, or steps that belong together. A request that
    /// comes meanwhile is kept: [`cancel_reason`](Self::cancel_reason) returns it, a [`cancellable`](Self::cancellable)
    /// group or a [saga](Self::saga) around the work ends with it when the work is done, and the orchestration ends as
    /// cancelled when its code returns. The code behind the work runs on to its next `await` first, so it can say what
    /// undoes it; that next `await` is where the group ends, also if it is shielded again. Only code that has heard of
    /// the request, from `cancel_reason`, [`cancellation_requested`](Self::cancellation_requested) or a group that
    /// ended with it, can shield more: what puts things right. A group or saga inside the work does not end with the
    /// request either. Terminating an instance ends it all the same, and so does dropping the future of the work.
    #[track_caller]
    pub fn shield<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        self.shield_with(Shield::new(&self.shared), work)
    }

    /// Runs what undoes, whatever the code around it has heard of a request to cancel.
    #[track_caller]
    pub(super) fn shield_undoing<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        self.shield_with(Shield::for_undoing(&self.shared), work)
    }

    #[track_caller]
    fn shield_with<F: Future>(
        &self,
        mut shield: Shield,
        work: F,
    ) -> impl Future<Output = F::Output> {
        let watch = self.watch_cancellation();
        async move {
            let mut work = pin!(work);
            let value = poll_fn(|cx| shield.poll(work.as_mut(), cx)).await;
            drop((shield, watch));
            value
        }
    }

    /// Why the orchestration is asked to cancel, once it is.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<String> {
        let cell = self.shared.cell();
        if cell.cancel_requested.is_some() {
            cell.hear_request();
        }
        cell.cancel_requested.clone()
    }
}
