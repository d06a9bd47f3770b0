//! An executor that polls nothing itself. In: the futures of a runtime. Out: the same, handed to a [`Poller`] that
//! decides when each of them is polled. Simulations draw that order from a seed, on one thread and in virtual time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::contained::Contained;
use super::{Task, until_abort};

/// Polls all futures of a runtime, instead of the runtime's own threads.
///
/// For simulations: one thread that polls the futures of several runtimes in an order of its choosing, inside an async
/// runtime whose time is paused, makes a run repeatable. Code that blocks blocks everything then.
pub trait Poller: fmt::Debug + Send + Sync {
    /// Polls a future until it ends. May be called while another future is polled.
    fn poll(&self, what: &str, future: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// Hands futures to a [`Poller`].
#[derive(Clone)]
pub(crate) struct Given {
    poller: Arc<dyn Poller>,
    host: Handle,
    tasks: TaskTracker,
    abort: CancellationToken,
}

impl Given {
    pub(super) fn new(
        poller: Arc<dyn Poller>,
        tasks: TaskTracker,
        abort: CancellationToken,
    ) -> Self {
        Self {
            poller,
            host: Handle::current(),
            tasks,
            abort,
        }
    }

    pub(super) fn host(&self) -> &Handle {
        &self.host
    }

    pub(super) fn spawn(&self, task: &Task, future: Contained) {
        let future = until_abort(&self.tasks, self.abort.clone(), future);
        self.poller.poll(&task.to_string(), Box::pin(future));
    }

    pub(super) fn spawn_tracked(
        &self,
        what: &str,
        tasks: &TaskTracker,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        self.poller.poll(what, Box::pin(tasks.track_future(future)));
    }
}
