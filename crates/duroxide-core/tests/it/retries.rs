//! Attempts, waits between them, and the limits on time.

use std::time::Duration;

use duroxide_core::replay::{Outcome, Turn};
use duroxide_core::{Action, ActivityOptions, BackoffStrategy, EventKind, RetryPolicy, attempt_of};

use crate::history::{History, completed, failed, fired, signal};
use crate::world::{World, failure, kinds, output};

fn policy() -> RetryPolicy {
    RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed {
        delay: Duration::from_secs(1),
    })
}

#[test]
fn a_failed_attempt_is_repeated_after_its_wait_and_the_last_error_is_returned() {
    let mut world =
        World::of(
            |ctx, _| async move { ctx.schedule_activity_with_retry("A", "x", policy()).await },
        );
    world.turn(vec![]);
    world.replayed_turn(vec![failed(2, "first")]);
    world.replayed_turn(vec![fired(4)]);
    world.replayed_turn(vec![failed(6, "second")]);
    world.replayed_turn(vec![fired(8)]);
    let turn = world.replayed_turn(vec![failed(10, "third")]);
    assert_eq!(failure(&turn), "third");
    let attempts = world
        .kinds()
        .iter()
        .filter(|k| **k == "ActivityScheduled")
        .count();
    assert_eq!(attempts, 3);
}

#[test]
fn a_limited_attempt_asks_for_its_activity_before_its_timer_and_times_out_for_good() {
    let mut world = World::of(|ctx, _| async move {
        let policy = policy().with_timeout(Duration::from_secs(5));
        ctx.schedule_activity_with_retry("A", "", policy).await
    });
    let turn = world.turn(vec![]);
    assert_eq!(
        kinds(&turn.events),
        ["OrchestrationStarted", "ActivityScheduled", "TimerCreated"]
    );
    let turn = world.replayed_turn(vec![fired(3)]);
    assert_eq!(failure(&turn), "timeout: activity timed out");
    assert_eq!(turn.cancelled_activities, [2]);
}

#[test]
fn a_total_timeout_spans_all_attempts_and_waits() {
    let mut world = World::of(|ctx, _| async move {
        let options = ActivityOptions::new().with_total_timeout(Duration::from_secs(9));
        ctx.schedule_activity_with_retry_options("A", "", policy(), options)
            .await
    });
    world.turn(vec![]);
    assert_eq!(
        world.kinds(),
        ["OrchestrationStarted", "TimerCreated", "ActivityScheduled"]
    );
    world.replayed_turn(vec![failed(3, "first")]);
    world.replayed_turn(vec![fired(5)]);
    let turn = world.replayed_turn(vec![fired(2)]);
    assert_eq!(
        failure(&turn),
        "timeout: activity 'A' did not finish within 9s"
    );
    assert_eq!(turn.cancelled_activities, [7]);
}

#[test]
fn every_attempt_carries_the_tag_and_the_session_of_the_options() {
    let mut world = World::of(|ctx, _| async move {
        let options = ActivityOptions::new().with_tag("gpu").on_session("s");
        ctx.schedule_activity_with_retry_options("A", "", policy(), options)
            .await
    });
    let routed = |actions: &[Action]| {
        assert!(
            matches!(
                actions,
                [Action::CallActivity { tag: Some(tag), session_id: Some(session), .. }]
                    if tag == "gpu" && session == "s"
            ),
            "{actions:?}"
        );
    };
    routed(&world.turn(vec![]).actions);
    world.turn(vec![failed(2, "first")]);
    routed(&world.turn(vec![fired(4)]).actions);
    assert_eq!(output(&world.turn(vec![completed(6, "r")])), "r");
}

#[test]
fn attempts_that_race_with_an_attempt_that_won_leave_nothing_behind() {
    let mut world = World::of(|ctx, _| async move {
        let policy = policy().with_timeout(Duration::from_secs(5));
        let first = ctx.schedule_activity_with_retry("A", "", policy.clone());
        let second = ctx.schedule_activity_with_retry("B", "", policy);
        let (place, result) = ctx.select2(first, second).await.into_tuple();
        ctx.schedule_wait("park").await;
        Ok(format!("{place} {result:?}"))
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![completed(4, "r")]);
    assert_eq!(turn.outcome, Outcome::Waiting);
    assert_eq!(turn.cancelled_activities, [2]);
}

#[test]
fn a_surfaced_failure_is_retried_like_any_other() {
    let mut world = World::of(|ctx, _| async move {
        let options = ActivityOptions::new().surface_system_failures();
        ctx.schedule_activity_with_retry_options("A", "", policy(), options)
            .await
    });
    world.turn(vec![]);
    let poison = crate::history::failed_with(2, crate::history::poison(2));
    let turn = world.turn(vec![poison]);
    assert_eq!(turn.outcome, Outcome::Waiting);
    world.turn(vec![fired(4)]);
    assert_eq!(output(&world.turn(vec![completed(6, "r")])), "r");
}

/// The first attempt that a work item names, for each activity of a turn.
fn first_attempts(turn: &Turn) -> Vec<(u64, Option<u64>, String)> {
    let mut named = Vec::new();
    for action in &turn.actions {
        if let Action::CallActivity {
            scheduling_event_id,
            input,
            ..
        } = action
        {
            let (first, input) = attempt_of(input);
            named.push((*scheduling_event_id, first, input.to_owned()));
        }
    }
    named
}

#[test]
fn every_attempt_of_one_call_names_the_first_and_no_other_call_does() {
    let mut world = World::of(|ctx, _| async move {
        let one = ctx.schedule_activity_with_retry("A", "x", policy());
        let two = ctx.schedule_activity_with_retry("A", "x", policy());
        let (one, two) = ctx.join2(one, two).await;
        Ok(one? + &two?)
    });
    let sent = first_attempts(&world.turn(vec![]));
    let x = || "x".to_owned();
    assert_eq!(sent, [(2, None, x()), (3, None, x())]);
    world.replayed_turn(vec![failed(3, ""), failed(2, "")]);
    let turn = world.replayed_turn(vec![fired(6), fired(7)]);
    assert_eq!(
        first_attempts(&turn),
        [(10, Some(3), x()), (11, Some(2), x())]
    );
    let recorded = |e: &&duroxide_core::Event| matches!(&e.kind, EventKind::ActivityScheduled { input, .. } if input == "x");
    assert_eq!(world.history.iter().filter(recorded).count(), 4);
    world.replayed_turn(vec![failed(10, ""), completed(11, "b")]);
    let turn = world.replayed_turn(vec![fired(14)]);
    assert_eq!(first_attempts(&turn), [(16, Some(3), x())]);
    assert_eq!(output(&world.replayed_turn(vec![completed(16, "a")])), "ba");
}

#[test]
fn an_attempt_is_asked_for_by_the_call_and_not_by_the_await() {
    let mut world = World::of(|ctx, _| async move {
        let options = ActivityOptions::new().with_total_timeout(Duration::from_secs(60));
        let limited = ctx.schedule_activity_with_options("A", "", options);
        let retried = ctx.schedule_activity_with_retry("B", "", policy());
        let unwanted = ctx.schedule_activity_with_retry("C", "", policy());
        ctx.schedule_wait("go").await;
        drop(unwanted);
        Ok(retried.await? + &limited.await?)
    });
    world.turn(vec![]);
    let kinds_so_far = [
        "OrchestrationStarted",
        "TimerCreated",
        "ActivityScheduled",
        "ActivityScheduled",
        "ActivityScheduled",
        "ExternalSubscribed",
    ];
    assert_eq!(world.kinds(), kinds_so_far);
    world.replayed_turn(vec![completed(3, "a")]);
    let turn = world.replayed_turn(vec![signal("go", "")]);
    assert_eq!(turn.cancelled_activities, [5]);
    assert_eq!(output(&world.replayed_turn(vec![completed(4, "b")])), "ba");
}

#[test]
fn a_history_whose_attempts_were_asked_for_by_the_await_replays() {
    let mut world = World::of(|ctx, _| async move {
        let retried = ctx.schedule_activity_with_retry("A", "", policy());
        ctx.set_kv_value("k", "v");
        ctx.schedule_wait("go").await;
        ctx.clear_kv_value("k");
        retried.await
    });
    world.history = History::started("")
        .with(EventKind::KeyValueSet {
            key: "k".into(),
            value: "v".into(),
            last_updated_at_ms: 0,
        })
        .with(EventKind::ExternalSubscribed { name: "go".into() })
        .with(EventKind::ExternalEvent {
            name: "go".into(),
            data: String::new(),
        })
        .with(EventKind::KeyValueCleared { key: "k".into() })
        .activity("A", "")
        .events();
    world.now_ms += 10;
    assert_eq!(output(&world.replayed_turn(vec![completed(6, "r")])), "r");
}
