//! Steps that are undone in reverse when a later one fails. In: what undoes each step. Out: the result, after the
//! undoing.

use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::OrchestrationContext;
use crate::codec;
use crate::definition::{Activity, Arguments, Retry, ToActivity};

type Undo = Box<dyn FnOnce(OrchestrationContext) -> Undoing + Send>;
type Undoing = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

impl OrchestrationContext {
    /// Begins a saga: after each step say what undoes it; if a later step fails, or a client asks to cancel the
    /// orchestration, what was done is undone in reverse.
    ///
    /// ```
    /// use duroxide_core::{ActivityRef, OrchestrationContext, SagaError};
    ///
    /// const CHARGE: ActivityRef<u64, String> = ActivityRef::new("charge");
    /// const REFUND: ActivityRef<String, ()> = ActivityRef::new("refund");
    /// const SHIP: ActivityRef<String, String> = ActivityRef::new("ship");
    ///
    /// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<String, String> {
    ///     let saga = ctx.saga();
    ///     let steps = async {
    ///         let receipt = ctx.call(CHARGE, &cents).await?;
    ///         saga.undo(REFUND, &receipt);
    ///         Ok::<_, String>(ctx.call(SHIP, &receipt).await?)
    ///     };
    ///     // If shipping fails, the money is back before this returns.
    ///     saga.run(steps).await.map_err(|failed: SagaError<String>| failed.to_string())
    /// }
    /// ```
    #[must_use]
    pub fn saga(&self) -> Saga {
        Saga {
            ctx: self.clone(),
            undo: Arc::default(),
        }
    }
}

/// Steps that can be undone; see [`OrchestrationContext::saga`].
#[derive(Clone)]
pub struct Saga {
    ctx: OrchestrationContext,
    undo: Arc<Mutex<Vec<Undo>>>,
}

impl Saga {
    /// A step is done; this activity undoes it. It is tried up to ten times; see [`undo_with`](Self::undo_with).
    ///
    /// # Panics
    ///
    /// When the input does not serialise, which fails the orchestration.
    #[track_caller]
    pub fn undo<Via, T: ToActivity<Via>>(
        &self,
        activity: T,
        input: impl Arguments<<T::Activity as Activity>::Input>,
    ) {
        self.undo_with(activity, input, Retry::exponential(10));
    }

    /// A step is done; this activity undoes it, tried again as the policy says.
    ///
    /// # Panics
    ///
    /// When the input does not serialise, which fails the orchestration.
    #[track_caller]
    pub fn undo_with<Via, T: ToActivity<Via>>(
        &self,
        activity: T,
        input: impl Arguments<<T::Activity as Activity>::Input>,
        retry: impl Into<Retry>,
    ) {
        let activity = activity.to_activity();
        let input = input.encode().unwrap_or_else(|e| panic!("encode: {e}"));
        let (retry, location) = (retry.into(), Location::caller());
        let undo: Undo = Box::new(move |ctx| {
            let call = ctx.call_encoded(&activity, input, location).retry(retry);
            Box::pin(async move {
                match call.await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(codec::encode(&error)?),
                }
            })
        });
        self.open().push(undo);
    }

    /// Runs the steps. If they fail, or the orchestration is asked to cancel, what was done is undone in reverse order,
    /// one after the other, and no request to cancel stops that. An undo that fails for good does not stop the others.
    ///
    /// A request to cancel drops the step that is under way: whether its activity took effect is not known, and nothing
    /// undoes it. A step with an effect that must be undone belongs into [`shield`](OrchestrationContext::shield): it
    /// is finished, the code goes on to its `undo`, and then the request counts, also if that was the last step.
    ///
    /// ```
    /// # use duroxide_core::{ActivityRef, OrchestrationContext, Saga};
    /// # const CHARGE: ActivityRef<u64, String> = ActivityRef::new("charge");
    /// # const REFUND: ActivityRef<String, ()> = ActivityRef::new("refund");
    /// async fn pay(ctx: &OrchestrationContext, saga: &Saga, cents: u64) -> Result<String, String> {
    ///     let receipt = ctx.shield(ctx.call(CHARGE, &cents)).await?;
    ///     saga.undo(REFUND, &receipt);
    ///     Ok(receipt)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Why the steps did not succeed, and what could not be undone.
    #[track_caller]
    pub fn run<T, E>(
        &self,
        steps: impl Future<Output = Result<T, E>>,
    ) -> impl Future<Output = Result<T, SagaError<E>>> {
        let requested = self.ctx.watch_cancellation();
        async move {
            let ended = self.ctx.until_cancelled(steps, requested).await;
            let failed = match (ended, self.ctx.request_that_counts()) {
                (Ok(Ok(value)), None) => {
                    self.open().clear();
                    return Ok(value);
                }
                // The orchestration ends as cancelled, whatever the last step returned while it was shielded.
                (Ok(Ok(_)), Some(reason)) | (Err(reason), _) => Failed::Cancelled(reason),
                (Ok(Err(error)), _) => Failed::Step(error),
            };
            let not_undone = self.compensate().await;
            Err(match failed {
                Failed::Step(error) => SagaError::Failed { error, not_undone },
                Failed::Cancelled(reason) => SagaError::Cancelled { reason, not_undone },
            })
        }
    }

    /// Undoes what was done, in reverse; the errors of what could not be undone.
    #[track_caller]
    pub fn compensate(&self) -> impl Future<Output = Vec<String>> {
        let ctx = self.ctx.clone();
        let undoing = async move {
            let mut failed = Vec::new();
            loop {
                // Taken one at a time, so that each is asked for when the one before it is done.
                let Some(undo) = self.open().pop() else {
                    return failed;
                };
                if let Err(error) = undo(self.ctx.clone()).await {
                    self.ctx
                        .trace_error(format!("an undo failed for good: {error}"));
                    failed.push(error);
                }
            }
        };
        async move { ctx.shield_undoing(undoing).await }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Undo>> {
        self.undo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Failed<E> {
    Step(E),
    Cancelled(String),
}

impl fmt::Debug for Saga {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saga")
            .field("steps", &self.open().len())
            .finish_non_exhaustive()
    }
}

/// Why a saga did not succeed. What was done is undone, except for what is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SagaError<E> {
    /// A step failed.
    Failed {
        /// Its error.
        error: E,
        /// What could not be undone, in words.
        not_undone: Vec<String>,
    },
    /// The orchestration was asked to cancel.
    Cancelled {
        /// The reason that was given with the request.
        reason: String,
        /// What could not be undone, in words.
        not_undone: Vec<String>,
    },
}

impl<E> SagaError<E> {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "D0921",
            Self::Cancelled { .. } => "D0922",
        }
    }

    /// What could not be undone, in words.
    #[must_use]
    pub fn not_undone(&self) -> &[String] {
        match self {
            Self::Failed { not_undone, .. } | Self::Cancelled { not_undone, .. } => not_undone,
        }
    }
}

impl<E: fmt::Display> fmt::Display for SagaError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { error, .. } => error.fmt(f)?,
            Self::Cancelled { reason, .. } => write!(f, "canceled: {reason}")?,
        }
        match self.not_undone() {
            [] => Ok(()),
            failed => write!(f, "; not undone: {}", failed.join("; ")),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for SagaError<E> {}
