//! Polling activities off the async threads. In: an activity's future. Out: its result or its panic.
//!
//! An activity that blocks instead of waiting would otherwise hold up every task of the program that happens to share
//! its thread: other activities, lease renewals, the dispatchers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::engine::Engine;

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A notice that comes before the wait is kept for it.
        self.0.notify_one();
    }
}

/// Runs an activity to its end, or until this future is dropped; the `Err` is its panic. Within it tokio works as everywhere: its timers, sockets and tasks belong to the
/// runtime of the caller.
pub(super) async fn run<T: Send + 'static>(
    engine: &Engine,
    activity: impl Future<Output = T> + Send + 'static,
) -> Result<T, Box<dyn Any + Send>> {
    let mut activity = Box::pin(activity);
    let woken = Arc::new(Woken(Notify::new()));
    let subscriber = tracing::dispatcher::get_default(Clone::clone);
    loop {
        let (waker, handle) = (Waker::from(Arc::clone(&woken)), Handle::current());
        let subscriber = subscriber.clone();
        let poll = move || {
            let _within_tokio = handle.enter();
            let polled = tracing::dispatcher::with_default(&subscriber, || {
                let mut cx = Context::from_waker(&waker);
                catch_unwind(AssertUnwindSafe(|| activity.as_mut().poll(&mut cx)))
            });
            (activity, polled)
        };
        match engine.activity_polls.run(poll).await {
            Some((_, Ok(Poll::Ready(result)))) => return Ok(result),
            Some((_, Err(panic))) => return Err(panic),
            Some((waiting, Ok(Poll::Pending))) => activity = waiting,
            // Everything is being torn down, this task too.
            None => return std::future::pending().await,
        }
        woken.0.notified().await;
    }
}
