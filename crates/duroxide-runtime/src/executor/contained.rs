//! A future whose destructors cannot harm others. In: a future. Out: the same, dropped behind a wall: a panic in the
//! destructor of work that is given up would end the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future whose destructors may panic.
pub(super) struct Contained(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Contained {
    pub(super) fn new(future: Pin<Box<dyn Future<Output = ()> + Send>>) -> Self {
        Self(Some(future))
    }
}

impl Future for Contained {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let future = self.0.take();
        if catch_unwind(AssertUnwindSafe(|| drop(future))).is_err() {
            tracing::error!(target: "duroxide::runtime", "work that was given up panicked while it was dropped");
        }
    }
}
