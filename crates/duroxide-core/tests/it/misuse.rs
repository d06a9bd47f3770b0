//! Code that breaks the rules is diagnosed, and only its own orchestration pays.

use std::collections::HashMap;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use duroxide_core::replay::{Execution, Outcome};
use duroxide_core::{OrchestrationContext, RetryPolicy};

use crate::history::{completed, signal};
use crate::world::{World, failure, handler, kinds, output};

#[test]
fn a_late_tag_fails_the_orchestration_and_nothing_else() {
    let mut world = World::of(|ctx, _| async move {
        let work = ctx.schedule_activity("A", "");
        let other = ctx.schedule_activity("B", "");
        ctx.schedule_wait("s").await;
        work.with_tag("gpu").await?;
        other.await
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![signal("s", "")]);
    let text = failure(&turn);
    assert!(
        text.contains("with_tag() was called after the activity was recorded"),
        "{text}"
    );
    assert_eq!(turn.cancelled_activities, [2, 3]);
}

#[test]
fn a_tag_on_something_that_is_no_activity_fails_the_orchestration() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_timer(Duration::from_secs(1))
            .with_tag("gpu")
            .await;
        Ok(String::new())
    });
    let text = failure(&world.turn(vec![]));
    assert!(
        text.contains("with_tag() can only be called on activity futures, got Timer"),
        "{text}"
    );
}

#[test]
fn a_tag_whose_conversion_uses_the_context_is_no_deadlock() {
    struct Tag(OrchestrationContext);
    impl From<Tag> for String {
        fn from(tag: Tag) -> Self {
            tag.0.set_custom_status("converting");
            "gpu".into()
        }
    }
    let mut world = World::of(|ctx, _| async move {
        let work = ctx.schedule_activity("A", "");
        work.with_tag(Tag(ctx.clone())).await
    });
    world.turn(vec![]);
    assert_eq!(
        world.kinds(),
        [
            "OrchestrationStarted",
            "ActivityScheduled",
            "CustomStatusUpdated"
        ]
    );
}

#[test]
fn waiting_for_something_that_is_not_durable_is_diagnosed() {
    let mut world = World::of(|_, _| std::future::pending());
    let turn = world.turn(vec![]);
    let text = failure(&turn);
    assert!(
        text.starts_with("nondeterministic: ") && text.contains("not durable"),
        "{text}"
    );

    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_activity("A", "").await?;
        std::future::pending().await
    });
    world.turn(vec![]);
    let turn = world.turn(vec![completed(2, "")]);
    assert!(failure(&turn).contains("not durable"));
}

#[test]
fn operations_that_were_dropped_or_answered_are_nothing_to_wait_for() {
    let mut world = World::of(|ctx, _| async move {
        drop(ctx.schedule_activity("dropped at once", ""));
        let later = ctx.schedule_activity("dropped later", "");
        let answered = ctx.schedule_wait("s");
        ctx.schedule_wait("go").await;
        drop(later);
        let _held = answered;
        std::future::pending().await
    });
    assert_eq!(world.turn(vec![]).outcome, Outcome::Waiting);
    let turn = world.replayed_turn(vec![signal("s", "v"), signal("go", "")]);
    assert!(failure(&turn).contains("not durable"));
}

#[test]
fn waiting_for_a_wait_beside_something_that_is_not_durable_is_no_error() {
    let mut world = World::of(|ctx, _| async move {
        let foreign = std::future::pending::<String>();
        Ok(ctx
            .select2(foreign, ctx.schedule_wait("s"))
            .await
            .into_tuple()
            .1)
    });
    assert_eq!(world.turn(vec![]).outcome, Outcome::Waiting);
    assert_eq!(output(&world.turn(vec![signal("s", "v")])), "v");
}

#[test]
fn something_that_is_not_durable_is_diagnosed_as_soon_as_nothing_else_is_open() {
    let mut world = World::of(|ctx, _| async move {
        let foreign = std::future::pending::<()>();
        let durable = ctx.schedule_wait("s");
        ctx.join2(foreign, durable).await;
        Ok(String::new())
    });
    assert_eq!(world.turn(vec![]).outcome, Outcome::Waiting);
    let turn = world.turn(vec![signal("s", "")]);
    assert!(failure(&turn).contains("not durable"));
}

#[test]
fn code_that_spins_is_stopped() {
    let mut world = World::of(|_, _| async {
        poll_fn::<(), _>(|cx| {
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        Ok(String::new())
    });
    let text = failure(&world.turn(vec![]));
    assert!(text.contains("keeps waking itself"), "{text}");
}

#[test]
fn a_panic_while_suspended_code_is_dropped_goes_nowhere() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let code = handler(|ctx, _| async move {
        let _bomb = Bomb;
        ctx.schedule_wait("s").await;
        Ok(String::new())
    });
    let mut world = World::with_handler(code.clone());
    world.turn(vec![]);
    world.forget();
    let execution = Execution::load(&world.history, code, HashMap::new()).unwrap();
    drop(execution);
    let text = failure(&world.turn(vec![signal("s", "")]));
    assert_eq!(text, "orchestration panicked: in drop");
}

#[test]
fn code_that_uses_its_context_while_it_is_dropped_decides_nothing() {
    struct Farewell(OrchestrationContext);
    impl Drop for Farewell {
        fn drop(&mut self) {
            self.0.set_custom_status("gone");
            drop(self.0.schedule_activity("Farewell", ""));
        }
    }
    let mut world = World::of(|ctx, _| async move {
        let _farewell = Farewell(ctx.clone());
        Ok(ctx.schedule_wait("s").await)
    });
    world.turn(vec![]);
    for _ in 0..3 {
        let turn = world.replayed_turn(vec![]);
        assert!(turn.events.is_empty());
    }
    let turn = world.replayed_turn(vec![signal("s", "v")]);
    assert_eq!(
        kinds(&turn.events),
        [
            "ExternalEvent",
            "CustomStatusUpdated",
            "ActivityScheduled",
            "ActivityCancelRequested",
            "OrchestrationCompleted"
        ]
    );
}

#[test]
fn a_future_polled_after_it_resolved_fails_the_orchestration() {
    let mut world = World::of(|ctx, _| async move {
        let mut wait = ctx.schedule_wait("s");
        (&mut wait).await;
        Ok((&mut wait).await)
    });
    world.turn(vec![]);
    let text = failure(&world.turn(vec![signal("s", "")]));
    assert!(text.contains("polled after it had resolved"), "{text}");
}

#[test]
fn a_policy_without_attempts_makes_one() {
    let mut world = World::of(|ctx, _| async move {
        let policy = RetryPolicy {
            max_attempts: 0,
            ..RetryPolicy::default()
        };
        ctx.schedule_activity_with_retry("A", "", policy).await
    });
    world.turn(vec![]);
    assert_eq!(output(&world.turn(vec![completed(2, "r")])), "r");
}
