//! The executor alone: futures that block, that are never woken, that are given up.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Executor, Shared, Task, TaskKind};

const STEP_MAX: Duration = Duration::from_secs(20);

struct World {
    executor: Executor,
    tasks: TaskTracker,
    keepers: TaskTracker,
    abort: CancellationToken,
}

impl World {
    fn on(runtime: &Runtime) -> Self {
        let _entered = runtime.enter();
        let (tasks, keepers) = (TaskTracker::new(), TaskTracker::new());
        let abort = CancellationToken::new();
        let executor = Executor::start(tasks.clone(), &keepers, abort.clone(), None);
        Self {
            executor,
            tasks,
            keepers,
            abort,
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        match &self.executor {
            Executor::Own(shared) => shared,
            Executor::Given(_) => unreachable!("no poller was given"),
        }
    }

    /// Returns when nothing is being polled.
    fn rest(&self) {
        while !self.shared().queue().drainers().is_empty() {
            std::thread::yield_now();
        }
    }

    async fn shut_down(&self) {
        self.tasks.close();
        self.keepers.close();
        self.abort.cancel();
        self.tasks.wait().await;
        self.keepers.wait().await;
    }
}

/// The two kinds of async runtimes.
fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.enable_all().build().unwrap())
}

/// Runs code that must not hang.
fn in_time<T: Send + 'static>(code: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || done.send(code()));
    outcome
        .recv_timeout(STEP_MAX)
        .expect("it ended, and in time")
}

#[test]
fn a_future_that_blocks_its_thread_holds_up_no_other_of_any_kind() {
    for runtime in runtimes() {
        for (blocks, frees) in [
            (TaskKind::Engine, TaskKind::Engine),
            (TaskKind::Engine, TaskKind::Work),
            (TaskKind::Work, TaskKind::Engine),
            (TaskKind::Work, TaskKind::Work),
        ] {
            let world = World::on(&runtime);
            let (begun, has_begun) = tokio::sync::oneshot::channel();
            let (free, freed) = mpsc::channel();
            let (ended, end) = tokio::sync::oneshot::channel();
            world
                .executor
                .spawn(Task::of(blocks, "a task", "".into()), async move {
                    let _ = begun.send(());
                    let _ = ended.send(freed.recv_timeout(STEP_MAX).is_ok());
                });
            runtime.block_on(async {
                has_begun.await.unwrap();
                world
                    .executor
                    .spawn(Task::of(frees, "a task", "".into()), async move {
                        let _ = free.send(());
                    });
                assert!(end.await.unwrap(), "{frees:?} ran while {blocks:?} blocked");
                world.shut_down().await;
            });
        }
    }
}

#[test]
fn more_blocking_futures_than_processors_hold_up_nobody() {
    let [runtime, _] = runtimes();
    let world = World::on(&runtime);
    let all = Arc::new(std::sync::Barrier::new(24));
    for _ in 0..24 {
        let all = Arc::clone(&all);
        // Each blocks until every other one runs.
        world
            .executor
            .spawn(Task::of(TaskKind::Work, "a task", "".into()), async move {
                all.wait();
            });
    }
    world.tasks.close();
    let ended = async { tokio::time::timeout(STEP_MAX, world.tasks.wait()).await };
    assert!(runtime.block_on(ended).is_ok());
}

#[test]
fn a_dropped_async_runtime_drops_every_future_whatever_it_waits_for() {
    in_time(|| {
        for runtime in runtimes() {
            let world = World::on(&runtime);
            let store = Arc::new(());
            let (begun, has_begun) = mpsc::channel();
            for n in 0..8 {
                let (held, begun) = (Arc::clone(&store), begun.clone());
                world
                    .executor
                    .spawn(Task::of(TaskKind::Work, "a task", "".into()), async move {
                        let _held = held;
                        let _ = begun.send(());
                        match n % 2 {
                            0 => pending::<()>().await,
                            _ => tokio::time::sleep(STEP_MAX).await,
                        }
                    });
            }
            for _ in 0..8 {
                has_begun.recv_timeout(STEP_MAX).unwrap();
            }
            drop(runtime);
            assert_eq!(Arc::strong_count(&store), 1);
            assert!(world.tasks.is_empty() && world.keepers.is_empty());
            // A caller that still has the executor may use it; it polls nothing more.
            let held = Arc::clone(&store);
            world.executor.spawn(
                Task::of(TaskKind::Engine, "a task", "".into()),
                async move {
                    drop(held);
                },
            );
            assert_eq!(Arc::strong_count(&store), 1);
        }
    });
}

/// A waker to be called, under a lock.
type Registry = Arc<Mutex<Option<Waker>>>;

/// Waits in the registry, and leaves it when it is dropped.
struct Registered(Registry);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.lock().unwrap().take();
    }
}

/// Wakes the registered waker when it is dropped.
struct Ringer(Registry);

impl Drop for Ringer {
    fn drop(&mut self) {
        if let Some(waker) = &*self.0.lock().unwrap() {
            waker.wake_by_ref();
        }
    }
}

#[test]
fn futures_are_not_dropped_by_those_who_wake_them() {
    in_time(|| {
        for runtime in runtimes() {
            let world = World::on(&runtime);
            let registry = Registry::default();
            let (begun, has_begun) = mpsc::channel();
            let (ringer, rings) = (Ringer(Arc::clone(&registry)), begun.clone());
            world
                .executor
                .spawn(Task::of(TaskKind::Work, "a task", "".into()), async move {
                    let _ringer = ringer;
                    let _ = rings.send(());
                    pending::<()>().await;
                });
            has_begun.recv_timeout(STEP_MAX).unwrap();
            let registered = Registered(registry);
            world.executor.spawn(
                Task::of(TaskKind::Work, "a task", "".into()),
                poll_fn(move |cx| {
                    *registered.0.lock().unwrap() = Some(cx.waker().clone());
                    let _ = begun.send(());
                    Poll::Pending
                }),
            );
            has_begun.recv_timeout(STEP_MAX).unwrap();
            world.rest();
            drop(runtime);
            assert!(world.tasks.is_empty());
        }
    });
}

#[test]
fn a_waker_called_after_the_end_does_nothing() {
    for runtime in runtimes() {
        let world = World::on(&runtime);
        let kept = Arc::new(Mutex::new(None::<Waker>));
        let (keep, (begun, has_begun)) = (Arc::clone(&kept), mpsc::channel());
        world.executor.spawn(
            Task::of(TaskKind::Work, "a task", "".into()),
            poll_fn(move |cx| {
                *keep.lock().unwrap() = Some(cx.waker().clone());
                let _ = begun.send(());
                Poll::<()>::Pending
            }),
        );
        has_begun.recv_timeout(STEP_MAX).unwrap();
        runtime.block_on(world.shut_down());
        let waker = kept.lock().unwrap().take().unwrap();
        waker.wake_by_ref();
        drop(runtime);
        waker.wake();
        assert!(has_begun.try_recv().is_err(), "it was polled again");
    }
}

#[test]
fn a_destructor_that_panics_reaches_neither_the_others_nor_whoever_drops_the_async_runtime() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("a bad destructor");
        }
    }
    for runtime in runtimes() {
        let world = World::on(&runtime);
        let store = Arc::new(());
        let (begun, has_begun) = mpsc::channel();
        for n in 0..4 {
            let (held, begun) = (Arc::clone(&store), begun.clone());
            world
                .executor
                .spawn(Task::of(TaskKind::Work, "a task", "".into()), async move {
                    let _held = held;
                    let _bad = (n == 1).then(|| Bad);
                    let _ = begun.send(());
                    pending::<()>().await;
                });
        }
        for _ in 0..4 {
            has_begun.recv_timeout(STEP_MAX).unwrap();
        }
        drop(runtime);
        assert_eq!(Arc::strong_count(&store), 1);
    }
}

#[test]
fn a_shutdown_leaves_no_task_and_no_drainer() {
    for runtime in runtimes() {
        let world = World::on(&runtime);
        for n in 0..32 {
            let kind = if n % 2 == 0 {
                TaskKind::Engine
            } else {
                TaskKind::Work
            };
            world
                .executor
                .spawn(Task::of(kind, "a task", "".into()), async move {
                    tokio::task::yield_now().await;
                    if n % 3 == 0 {
                        pending::<()>().await;
                    }
                });
        }
        runtime.block_on(world.shut_down());
        let shared = world.shared();
        assert_eq!(shared.queue().len(), 0);
        assert!(shared.queue().drainers().is_empty());
        assert!(world.tasks.is_empty() && world.keepers.is_empty());
    }
}
