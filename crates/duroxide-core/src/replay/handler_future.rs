//! The author's code, suspended or finished. In: polls. Out: its result or its panic. Nothing escapes a poll.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::context::OrchestrationContext;
use crate::handler::OrchestrationHandler;

type Running = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// How often a handler may wake itself within one poll before it counts as spinning. Combinators wake themselves a few
/// times per child; nothing sensible comes near this.
const SELF_WAKES_MAX: u32 = 1_000_000;

/// Where the author's code stands.
pub(crate) enum HandlerFuture {
    Suspended(Running),
    Returned(Result<String, String>),
    Panicked(String),
}

impl HandlerFuture {
    /// Prepares the handler; nothing runs before the first poll.
    pub(crate) fn new(
        handler: Arc<dyn OrchestrationHandler>,
        ctx: OrchestrationContext,
        input: String,
    ) -> Self {
        Self::Suspended(Box::pin(async move { handler.invoke(ctx, input).await }))
    }

    pub(crate) fn is_suspended(&self) -> bool {
        matches!(self, Self::Suspended(_))
    }

    /// Polls until the code waits for something, returns or panics.
    pub(crate) fn poll(&mut self) {
        let Self::Suspended(running) = self else {
            return;
        };
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        for _ in 0..SELF_WAKES_MAX {
            woken.0.store(false, Ordering::Relaxed);
            let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut cx)));
            match polled {
                Ok(Poll::Ready(result)) => {
                    *self = Self::Returned(result);
                    return;
                }
                // A combinator that polls some children at a time asks to be polled again.
                Ok(Poll::Pending) if woken.0.load(Ordering::Relaxed) => {}
                Ok(Poll::Pending) => return,
                Err(panic) => {
                    *self = Self::Panicked(panic_text(panic.as_ref()));
                    return;
                }
            }
        }
        *self = Self::Panicked(
            "the orchestration keeps waking itself without waiting for anything durable".to_owned(),
        );
    }
}

/// The text of a panic, as far as it has one.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "orchestration panicked".to_owned())
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
