//! The future behind every durable operation. Made when the code asks, resolved by history order, cancelled by drop.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::durable::{CommandKind, DROPPED, POLLED, Resolution, Shared};

/// What a [`DurableFuture`] waits for.
#[derive(Debug, Clone)]
pub enum ScheduleKind {
    /// An activity.
    Activity {
        /// Registered name.
        name: String,
    },
    /// A timer.
    Timer,
    /// A positional signal.
    ExternalWait {
        /// Signal name.
        event_name: String,
    },
    /// A queue message.
    QueueDequeue {
        /// Queue name.
        event_name: String,
    },
    /// A child.
    SubOrchestration {
        /// Number of the request within the execution.
        token: u64,
    },
}

/// A durable operation in flight.
///
/// The operation is scheduled by the call that returns the future, not by the first poll. The future resolves in the
/// order of the recorded history. Dropping it before it resolved cancels the operation.
///
/// ```
/// use duroxide::OrchestrationContext;
///
/// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
///     // Scheduled here, both at once.
///     let text = ctx.schedule_activity("read", input).map(|text| text.map(|t| t.len()));
///     let image = ctx.schedule_activity("render", "cover").with_tag("gpu");
///     // Dropped without being awaited: cancelled.
///     drop(ctx.schedule_activity("read", "something else"));
///     Ok(format!("{} bytes, {}", text.await?, image.await?))
/// }
/// ```
#[must_use = "dropping a durable future cancels its operation"]
pub struct DurableFuture<T> {
    state: State<T>,
    kind: ScheduleKind,
}

type Convert<T> = Box<dyn FnOnce(Resolution) -> T + Send>;

enum State<T> {
    Waiting {
        shared: Arc<Shared>,
        slot: usize,
        convert: Convert<T>,
    },
    /// Known at once, without any event.
    Known(T),
    Done,
}

impl<T> DurableFuture<T> {
    pub(crate) fn waiting(
        shared: Arc<Shared>,
        slot: usize,
        kind: ScheduleKind,
        convert: impl FnOnce(Resolution) -> T + Send + 'static,
    ) -> Self {
        Self {
            state: State::Waiting {
                shared,
                slot,
                convert: Box::new(convert),
            },
            kind,
        }
    }

    pub(crate) fn known(value: T, kind: ScheduleKind) -> Self {
        Self {
            state: State::Known(value),
            kind,
        }
    }

    /// Changes what the future resolves to. Dropping the mapped future still cancels the operation.
    pub fn map<U: Send + 'static>(
        mut self,
        f: impl FnOnce(T) -> U + Send + 'static,
    ) -> DurableFuture<U>
    where
        T: Send + 'static,
    {
        let kind = self.kind.clone();
        match std::mem::replace(&mut self.state, State::Done) {
            State::Waiting {
                shared,
                slot,
                convert,
            } => {
                DurableFuture::waiting(shared, slot, kind, move |resolution| f(convert(resolution)))
            }
            State::Known(value) => DurableFuture::known(f(value), kind),
            State::Done => DurableFuture {
                state: State::Done,
                kind,
            },
        }
    }

    /// Routes an activity to workers that take this tag. The last call wins; it must happen before the activity is
    /// recorded, which is before the next `await` that suspends.
    ///
    /// # Panics
    ///
    /// On a future that is not an activity, which fails the orchestration.
    pub fn with_tag(self, tag: impl Into<String>) -> Self {
        assert!(
            matches!(self.kind, ScheduleKind::Activity { .. }),
            "with_tag() can only be called on activity futures, got {:?}",
            self.kind
        );
        let tag = tag.into();
        if let State::Waiting { shared, slot, .. } = &self.state {
            let mut cell = shared.cell();
            let pending = cell
                .commands
                .iter_mut()
                .rev()
                .find(|c| c.operation == Some(*slot));
            if let Some(command) = pending {
                if let CommandKind::Activity { tag: routed, .. } = &mut command.kind {
                    *routed = Some(tag);
                }
            } else {
                // A panic here would unwind through the code's other futures; the turn reports the misuse instead.
                cell.misuse.get_or_insert_with(|| {
                    "with_tag() was called after the activity was recorded; call it right after scheduling"
                        .to_owned()
                });
            }
        }
        self
    }

    /// Hands every failure of the activity or child to the code as an `Err`, also those that would otherwise end the
    /// orchestration: poison, configuration and infrastructure failures.
    pub fn surface_system_failures(self) -> Self {
        if let State::Waiting { shared, slot, .. } = &self.state {
            shared.cell().operations.get_mut(*slot).surfaces_failures = true;
        }
        self
    }

    /// The operation's slot; `None` once it is resolved.
    pub(crate) fn slot(&self) -> Option<usize> {
        match &self.state {
            State::Waiting { slot, .. } => Some(*slot),
            State::Known(_) | State::Done => None,
        }
    }

    /// The event that scheduled the operation, once it is recorded.
    pub(crate) fn scheduling_event_id(&self) -> Option<u64> {
        match &self.state {
            State::Waiting { shared, slot, .. } => shared.cell().operations.get(*slot).event_id(),
            State::Known(_) | State::Done => None,
        }
    }
}

impl<T> Unpin for DurableFuture<T> {}

impl<T> Future for DurableFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let resolution = match &self.state {
            State::Waiting { shared, slot, .. } => {
                if !shared.presence.is_here() {
                    shared.presence.report(POLLED);
                    panic!("{POLLED}");
                }
                match shared.cell().poll(*slot, cx.waker()) {
                    Some(resolution) => Some(resolution),
                    None => return Poll::Pending,
                }
            }
            State::Known(_) | State::Done => None,
        };
        match (std::mem::replace(&mut self.state, State::Done), resolution) {
            (State::Waiting { convert, .. }, Some(resolution)) => Poll::Ready(convert(resolution)),
            (State::Known(value), _) => Poll::Ready(value),
            (State::Waiting { .. } | State::Done, _) => {
                panic!("a durable future was polled after it had resolved")
            }
        }
    }
}

impl<T> Drop for DurableFuture<T> {
    fn drop(&mut self) {
        if let State::Waiting { shared, slot, .. } = &self.state {
            let mut cell = shared.cell();
            if cell.closed {
                return;
            }
            if shared.presence.is_here() {
                cell.operations.drop_future(*slot);
                let work = cell.in_place.remove(slot);
                // The lock goes first: what the author's closure holds may ask for it.
                drop(cell);
                drop(work);
            } else {
                drop(cell);
                shared.presence.report(DROPPED);
            }
        }
    }
}

impl<T> fmt::Debug for DurableFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableFuture")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
