//! What reaches an orchestration from outside its history is reported and changes nothing.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use duroxide_core::OrchestrationContext;
use duroxide_core::replay::{FailedBy, Outcome};
use futures::channel::{mpsc, oneshot};
use futures::stream::{FuturesUnordered, StreamExt};

use crate::history::{completed, signal};
use crate::world::{World, failure, output};

/// Something that somebody else wakes.
#[derive(Clone, Default)]
struct Outside(Arc<Mutex<Vec<Waker>>>);

impl Outside {
    async fn wait(&self) -> String {
        poll_fn(|cx| {
            self.0
                .lock()
                .expect("not poisoned")
                .push(cx.waker().clone());
            Poll::<String>::Pending
        })
        .await
    }

    fn wake_all(&self) {
        for waker in self.0.lock().expect("not poisoned").drain(..) {
            waker.wake();
        }
    }
}

/// Waits for something of its own beside something durable.
fn beside(outside: &Outside) -> World {
    let outside = outside.clone();
    World::of(move |ctx, _| {
        let outside = outside.clone();
        async move {
            let durable = ctx.schedule_wait("s");
            Ok(ctx.select2(outside.wait(), durable).await.into_tuple().1)
        }
    })
}

#[test]
fn a_wake_from_another_thread_is_reported_by_the_next_turn() {
    let outside = Outside::default();
    let mut world = beside(&outside);
    assert_eq!(world.turn(vec![]).outcome, Outcome::Waiting);
    let told = Arc::new(AtomicUsize::new(0));
    let telling = told.clone();
    let tell = Arc::new(move || {
        telling.fetch_add(1, Ordering::SeqCst);
    });
    world.live().on_foreign(tell.clone());
    assert!(!elsewhere(move || outside.wake_all()));
    assert_eq!(told.load(Ordering::SeqCst), 1);
    world.live().on_foreign(tell);
    assert_eq!(
        told.load(Ordering::SeqCst),
        2,
        "told at once if it came already"
    );

    let turn = world.turn(vec![signal("s", "in time")]);
    assert_eq!(turn.failed_by, Some(FailedBy::NotDurable));
    let text = failure(&turn);
    assert!(text.starts_with("nondeterministic: "), "{text}");
    assert!(text.contains("was woken by it"), "{text}");
    assert!(text.contains("last durable call: "), "{text}");
    assert!(text.contains("tests/it/foreign.rs:"), "{text}");
}

#[test]
fn a_wake_from_this_thread_after_the_poll_is_foreign_too() {
    let outside = Outside::default();
    let mut world = beside(&outside);
    world.turn(vec![]);
    outside.wake_all();
    let turn = world.turn(vec![]);
    assert!(failure(&turn).contains("was woken by it"));
}

#[test]
fn a_foreign_wake_during_the_poll_is_reported_by_the_same_turn() {
    let mut world = World::of(|ctx, _| async move {
        let _durable = ctx.schedule_wait("s");
        let mut first = true;
        poll_fn(|cx| {
            if !std::mem::take(&mut first) {
                return Poll::Ready(());
            }
            let waker = cx.waker().clone();
            assert!(!elsewhere(move || waker.wake()));
            Poll::Pending
        })
        .await;
        Ok("reached".into())
    });
    let turn = world.turn(vec![]);
    assert!(failure(&turn).contains("was woken by it"));
}

#[test]
fn another_life_of_the_code_begins_without_blame() {
    let outside = Outside::default();
    let mut world = beside(&outside);
    world.turn(vec![]);
    world.forget();
    outside.wake_all();
    assert_eq!(output(&world.turn(vec![signal("s", "v")])), "v");
}

/// Runs a piece of code on another thread, and returns whether it panicked.
fn elsewhere(work: impl FnOnce() + Send + 'static) -> bool {
    std::thread::scope(|scope| scope.spawn(work).join().is_err())
}

#[test]
fn a_context_that_is_used_elsewhere_refuses_there_and_fails_its_orchestration() {
    type Use = fn(&OrchestrationContext);
    let uses: [Use; 9] = [
        |ctx| drop(ctx.schedule_activity("A", "")),
        |ctx| drop(ctx.schedule_timer(std::time::Duration::ZERO)),
        |ctx| drop(ctx.schedule_wait("w")),
        |ctx| drop(ctx.dequeue_event("q")),
        |ctx| drop(ctx.schedule_sub_orchestration("C", "")),
        |ctx| ctx.schedule_orchestration("D", "d", ""),
        |ctx| ctx.set_kv_value("k", "v"),
        |ctx| ctx.set_custom_status("s"),
        |ctx| drop(ctx.continue_as_new("again")),
    ];
    for foreign_use in uses {
        let mut world = World::of(move |ctx, _| async move {
            let elsewhere_ctx = ctx.clone();
            assert!(elsewhere(move || foreign_use(&elsewhere_ctx)), "it refuses");
            Ok(ctx.schedule_wait("s").await)
        });
        let turn = world.turn(vec![]);
        let text = failure(&turn);
        assert!(text.contains("used outside its own code"), "{text}");
        let schedules = [
            "OrchestrationStarted",
            "ExternalSubscribed",
            "ExternalSubscribedCancelled",
            "OrchestrationFailed",
        ];
        assert_eq!(world.kinds(), schedules);
    }
}

#[test]
fn a_durable_future_that_is_polled_or_dropped_elsewhere_fails_its_orchestration() {
    let mut world = World::of(|ctx, _| async move {
        let work = ctx.schedule_activity("A", "");
        ctx.schedule_wait("go").await;
        assert!(elsewhere(move || {
            let mut work = work;
            let waker = futures::task::noop_waker();
            let mut cx = std::task::Context::from_waker(&waker);
            let _ = std::pin::Pin::new(&mut work).poll(&mut cx);
        }));
        Ok(ctx.schedule_wait("s").await)
    });
    world.turn(vec![]);
    let turn = world.turn(vec![signal("go", "")]);
    assert!(failure(&turn).contains("polled outside"));

    let mut world = World::of(|ctx, _| async move {
        let work = ctx.schedule_activity("A", "");
        assert!(!elsewhere(move || drop(work)));
        Ok(ctx.schedule_wait("s").await)
    });
    let turn = world.turn(vec![]);
    assert!(failure(&turn).contains("dropped outside"));
}

#[test]
fn what_an_orchestration_does_with_itself_is_not_foreign() {
    let mut world = World::of(|ctx, _| async move {
        // Wakers of combinators and of channels whose both ends are here.
        let many: Vec<_> = (0..40)
            .map(|n| ctx.schedule_activity("A", n.to_string()))
            .collect();
        let mut many: FuturesUnordered<_> = many.into_iter().collect();
        let (to_one, one) = oneshot::channel();
        let (to_all, mut all) = mpsc::unbounded();
        let produce = async {
            while let Some(result) = many.next().await {
                to_all.unbounded_send(result).map_err(|e| e.to_string())?;
            }
            drop(to_all);
            to_one.send("done").map_err(str::to_owned)
        };
        let consume = async {
            let mut count = 0;
            while let Some(result) = all.next().await {
                count += result?.len();
            }
            Ok::<_, String>(format!("{count} {:?}", one.await))
        };
        let (produced, consumed) = futures::join!(produce, consume);
        produced.and(consumed)
    });
    world.turn(vec![]);
    for id in (2..41).rev() {
        let batch = vec![completed(id, "x")];
        let turn = if id % 3 == 0 {
            world.replayed_turn(batch)
        } else {
            world.turn(batch)
        };
        assert_eq!(turn.outcome, Outcome::Waiting);
    }
    assert_eq!(
        output(&world.turn(vec![completed(41, "x")])),
        "40 Ok(\"done\")"
    );
}

#[test]
fn destructors_that_use_the_context_are_heard_by_nobody_once_the_code_is_discarded() {
    struct Farewell(OrchestrationContext);
    impl Drop for Farewell {
        fn drop(&mut self) {
            self.0.set_custom_status("bye");
            drop(self.0.schedule_activity("clean up", ""));
        }
    }
    let mut world = World::of(|ctx, _| async move {
        let _farewell = Farewell(ctx.clone());
        Ok(ctx.schedule_wait("s").await)
    });
    world.turn(vec![]);
    let before = world.history.len();
    let live = world.take_live();
    assert!(!elsewhere(move || drop(live)));
    assert_eq!(world.history.len(), before);
    assert_eq!(output(&world.turn(vec![signal("s", "v")])), "v");
}
