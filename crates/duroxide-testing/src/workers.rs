//! The worker processes of a harness: real runtimes whose futures one scheduler polls, in an order that the seed
//! decides.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide_core::clock::ClockRef;
use duroxide_core::provider::Provider;
use duroxide_runtime::observability::Layered;
use duroxide_runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide_runtime::{Runtime, RuntimeOptions};

use crate::fate::{Fate, WorkerRun};
use crate::sched::{Group, GroupPoller, Scheduler};

/// The code that workers run.
#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) activities: ActivityRegistry,
    pub(crate) orchestrations: OrchestrationRegistry,
}

/// A worker and its futures.
type Running = (Group, Arc<Runtime>);

/// All workers of a harness.
pub(crate) struct Workers {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) fate: Arc<Fate>,
    pub(crate) store: Arc<dyn Provider>,
    pub(crate) clock: ClockRef,
    pub(crate) options: RuntimeOptions,
    pub(crate) code: Mutex<Code>,
    pub(crate) running: Mutex<Vec<Option<Running>>>,
    pub(crate) crashes: AtomicU32,
}

impl Workers {
    fn running(&self) -> MutexGuard<'_, Vec<Option<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn code(&self) -> Code {
        let code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        code.clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.running().len()
    }

    /// Starts a worker. Its futures are a group of the scheduler.
    pub(crate) async fn boot(&self, worker: usize) {
        let run = WorkerRun::new(Arc::clone(&self.fate), worker);
        let group = self.scheduler.group();
        let poller = GroupPoller {
            scheduler: Arc::clone(&self.scheduler),
            group,
        };
        let code = self.code();
        let runtime = Runtime::builder()
            .with_provider(Arc::new(Layered::around(Arc::clone(&self.store), run)))
            .with_activities(code.activities)
            .with_orchestrations(code.orchestrations)
            .with_options(self.options.clone())
            .with_clock(Arc::clone(&self.clock))
            .with_poller(Arc::new(poller))
            .build()
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        self.running()[worker] = Some((group, runtime));
    }

    /// Kills a worker where it stands, and starts it again.
    pub(crate) async fn crash(&self, worker: usize) {
        let life = self.running()[worker].take();
        if let Some((group, runtime)) = life {
            self.crashes.fetch_add(1, Ordering::Relaxed);
            self.scheduler.kill(group);
            drop(runtime);
            self.boot(worker).await;
        }
    }

    pub(crate) async fn shut_down(&self) {
        let all: Vec<_> = self.running().iter_mut().map(Option::take).collect();
        for (group, runtime) in all.into_iter().flatten() {
            runtime.shutdown(None).await;
            self.scheduler.kill(group);
        }
    }

    /// Starts every worker again that dies, for as long as the harness lives.
    pub(crate) async fn raise_the_dead(self: Arc<Self>) {
        loop {
            let worker = self.fate.died().await;
            self.crash(worker).await;
        }
    }
}
