//! The author's code, suspended or finished. In: polls. Out: its result or its panic. Nothing escapes a poll.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::divergence::short;
use crate::context::OrchestrationContext;
use crate::durable::{Presence, WOKEN};
use crate::handler::OrchestrationHandler;

type Running = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// How often a handler may wake itself within one poll before it counts as spinning. Combinators wake themselves a few
/// times per child; nothing sensible comes near this.
const SELF_WAKES_MAX: u32 = 1_000_000;

/// Where the author's code stands.
pub(crate) enum HandlerFuture {
    Suspended {
        code: Running,
        /// One flag for the whole life of the code: a waker that a combinator kept from an earlier poll still counts.
        woken: Arc<Woken>,
    },
    Returned(Result<String, String>),
    Panicked(String),
}

impl HandlerFuture {
    /// Prepares the handler; nothing runs before the first poll.
    pub(crate) fn new(
        handler: Arc<dyn OrchestrationHandler>,
        ctx: OrchestrationContext,
        input: String,
        presence: Arc<Presence>,
    ) -> Self {
        Self::Suspended {
            code: Box::pin(async move { handler.invoke(ctx, input).await }),
            woken: Arc::new(Woken {
                flag: AtomicBool::new(false),
                presence,
            }),
        }
    }

    pub(crate) fn is_suspended(&self) -> bool {
        matches!(self, Self::Suspended { .. })
    }

    /// Polls until the code waits for something, returns or panics.
    pub(crate) fn poll(&mut self) {
        let Self::Suspended { code, woken } = self else {
            return;
        };
        let waker = Waker::from(Arc::clone(woken));
        let mut cx = Context::from_waker(&waker);
        for _ in 0..SELF_WAKES_MAX {
            woken.flag.store(false, Ordering::Relaxed);
            let polled = catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(&mut cx)));
            match polled {
                Ok(Poll::Ready(result)) => {
                    *self = Self::Returned(result);
                    return;
                }
                // A combinator that polls some children at a time asks to be polled again.
                Ok(Poll::Pending) if woken.flag.load(Ordering::Relaxed) => {}
                Ok(Poll::Pending) => return,
                Err(panic) => {
                    // Combinators that the panic went through still hold their children.
                    self.discard();
                    *self = Self::Panicked(panic_text(panic.as_ref()));
                    return;
                }
            }
        }
        self.discard();
        *self = Self::Panicked(
            "the orchestration keeps waking itself without waiting for anything durable".to_owned(),
        );
    }

    /// Drops suspended code. Its locals are the author's; a panic while they are dropped ends here.
    pub(crate) fn discard(&mut self) {
        let discarded = Self::Panicked("the orchestration was discarded".to_owned());
        let code = std::mem::replace(self, discarded);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(code))) {
            let text = panic_text(panic.as_ref());
            tracing::warn!(target: "duroxide::runtime", "a suspended orchestration panicked while it was dropped: {text}");
        }
    }

    /// How the code ended, for a report; `None` while it is suspended.
    pub(super) fn ending(&self) -> Option<String> {
        match self {
            Self::Suspended { .. } => None,
            Self::Returned(Ok(output)) => Some(format!("return Ok({})", short(output))),
            Self::Returned(Err(error)) => Some(format!("return Err({})", short(error))),
            Self::Panicked(message) => Some(format!("panic {}", short(message))),
        }
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

/// Whether the code asked to be polled again. Combinators ask while they are polled, answered operations while the
/// engine applies an event; any other caller is foreign and gets no poll.
pub(crate) struct Woken {
    flag: AtomicBool,
    presence: Arc<Presence>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.presence.is_here() {
            self.flag.store(true, Ordering::Relaxed);
        } else {
            self.presence.report(WOKEN);
        }
    }
}
