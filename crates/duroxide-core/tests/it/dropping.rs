//! Dropping a future cancels its operation: what is recorded, what is told, and what happens to late answers.

use std::time::Duration;

use duroxide_core::Action;
use duroxide_core::replay::Outcome;

use crate::history::{child_failed, completed, failed_with, fired, poison, queue_message, signal};
use crate::world::{World, failure, kinds, output};

#[test]
fn the_losers_of_a_race_are_recorded_as_dropped_by_kind_and_then_by_age() {
    let mut world = World::of(|ctx, _| async move {
        let queue = ctx.dequeue_event("q");
        let wait = ctx.schedule_wait("s");
        let child = ctx.schedule_sub_orchestration("C", "");
        let second = ctx.schedule_activity("B", "");
        let first = ctx.schedule_activity("A", "");
        let timer = ctx.schedule_timer(Duration::from_secs(1));
        timer.await;
        drop((first, second, child, wait, queue));
        ctx.schedule_wait("park").await;
        Ok(String::new())
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![fired(7)]);
    let records: Vec<_> = turn
        .events
        .iter()
        .map(|e| (e.kind.wire_name(), e.source_event_id))
        .collect();
    assert_eq!(
        records,
        [
            ("TimerFired", Some(7)),
            ("ExternalSubscribed", None),
            ("ActivityCancelRequested", Some(5)),
            ("ActivityCancelRequested", Some(6)),
            ("SubOrchestrationCancelRequested", Some(4)),
            ("ExternalSubscribedCancelled", Some(3)),
            ("ExternalSubscribedPersistentCancelled", Some(2)),
        ]
    );
    assert_eq!(turn.cancelled_activities, [5, 6]);
    assert_eq!(turn.cancelled_children[0].instance, "sub::4");
    assert_eq!(
        turn.cancelled_children[0].reason,
        "parent dropped sub-orchestration future"
    );
    let turn = world.replayed_turn(vec![]);
    assert!(
        turn.events.is_empty() && turn.cancelled_activities.is_empty(),
        "recorded once"
    );
}

#[test]
fn an_operation_scheduled_and_dropped_in_one_turn_is_recorded_twice_and_never_runs() {
    let mut world = World::of(|ctx, _| async move {
        drop(ctx.schedule_activity("A", ""));
        ctx.schedule_wait("park").await;
        Ok(String::new())
    });
    let turn = world.turn(vec![]);
    assert_eq!(
        kinds(&turn.events),
        [
            "OrchestrationStarted",
            "ActivityScheduled",
            "ExternalSubscribed",
            "ActivityCancelRequested"
        ]
    );
    assert_eq!(turn.cancelled_activities, [2]);
}

#[test]
fn locals_alive_at_the_return_are_dropped_and_so_cancelled() {
    let mut world = World::of(|ctx, _| async move {
        let _child = ctx.schedule_sub_orchestration("C", "");
        ctx.schedule_wait("go").await;
        Ok("done".into())
    });
    world.turn(vec![]);
    let turn = world.turn(vec![signal("go", "")]);
    assert_eq!(output(&turn), "done");
    assert_eq!(
        kinds(&turn.events),
        [
            "ExternalEvent",
            "SubOrchestrationCancelRequested",
            "OrchestrationCompleted"
        ]
    );
    assert_eq!(turn.cancelled_children.len(), 1);
}

#[test]
fn a_child_that_was_forgotten_runs_on_and_an_activity_that_was_forgotten_does_not() {
    let mut world = World::of(|ctx, _| async move {
        std::mem::forget(ctx.schedule_sub_orchestration("C", ""));
        std::mem::forget(ctx.schedule_activity("A", ""));
        ctx.schedule_wait("go").await;
        Ok("done".into())
    });
    world.turn(vec![]);
    let turn = world.turn(vec![signal("go", "")]);
    assert_eq!(
        kinds(&turn.events),
        [
            "ExternalEvent",
            "ActivityCancelRequested",
            "OrchestrationCompleted"
        ]
    );
    assert!(turn.cancelled_children.is_empty());
}

#[test]
fn a_child_scheduled_and_dropped_in_the_last_turn_is_neither_started_nor_cancelled() {
    let mut world = World::of(|ctx, _| async move {
        drop(ctx.schedule_sub_orchestration("C", ""));
        Ok("done".into())
    });
    let turn = world.turn(vec![]);
    assert_eq!(output(&turn), "done");
    assert!(turn.actions.is_empty() && turn.cancelled_children.is_empty());
    assert_eq!(
        kinds(&turn.events),
        [
            "OrchestrationStarted",
            "SubOrchestrationScheduled",
            "SubOrchestrationCancelRequested",
            "OrchestrationCompleted"
        ]
    );
}

#[test]
fn a_child_dropped_in_a_turn_that_goes_on_is_started_and_cancelled() {
    let mut world = World::of(|ctx, _| async move {
        drop(ctx.schedule_sub_orchestration("C", ""));
        ctx.schedule_wait("park").await;
        Ok(String::new())
    });
    let turn = world.turn(vec![]);
    assert!(matches!(
        &turn.actions[..],
        [Action::StartSubOrchestration { .. }]
    ));
    assert_eq!(turn.cancelled_children.len(), 1);
}

#[test]
fn a_late_answer_of_a_dropped_operation_is_recorded_and_ignored() {
    let mut world = World::of(|ctx, _| async move {
        drop(ctx.schedule_activity("A", ""));
        Ok(ctx.schedule_wait("s").await)
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![completed(2, "late")]);
    assert_eq!(kinds(&turn.events), ["ActivityCompleted"]);
    let turn = world.replayed_turn(vec![completed(2, "again")]);
    assert!(turn.events.is_empty(), "but not twice");
    assert_eq!(output(&world.replayed_turn(vec![signal("s", "v")])), "v");
}

#[test]
fn a_system_failure_of_a_dropped_operation_hurts_nobody() {
    for together in [true, false] {
        let mut world = World::of(|ctx, _| async move {
            let (a, b) = (
                ctx.schedule_activity("A", ""),
                ctx.schedule_sub_orchestration("B", ""),
            );
            ctx.select2(a, b).await;
            Ok(ctx.schedule_wait("s").await)
        });
        world.turn(vec![]);
        let (first, second) = (completed(2, ""), child_failed(3, poison(3)));
        if together {
            assert_eq!(world.turn(vec![first, second]).outcome, Outcome::Waiting);
        } else {
            world.turn(vec![first]);
            assert_eq!(world.replayed_turn(vec![second]).outcome, Outcome::Waiting);
        }
        assert_eq!(output(&world.replayed_turn(vec![signal("s", "v")])), "v");
    }
}

#[test]
fn a_system_failure_that_is_awaited_ends_the_orchestration_with_the_same_details() {
    let mut world = World::of(|ctx, _| async move {
        let _child = ctx.schedule_sub_orchestration("C", "");
        let _ = ctx.schedule_activity("A", "").await;
        Ok("handled".into())
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![failed_with(3, poison(3)), signal("s", "recorded")]);
    assert_eq!(turn.outcome, Outcome::Failed { details: poison(3) });
    assert_eq!(
        kinds(&turn.events),
        [
            "ActivityFailed",
            "ExternalEvent",
            "SubOrchestrationCancelRequested",
            "OrchestrationFailed"
        ]
    );
    assert_eq!(turn.cancelled_children[0].reason, "parent failed");
}

#[test]
fn surfaced_system_failures_are_values_for_the_code() {
    let mut world = World::of(|ctx, _| async move {
        let work = ctx.schedule_activity("A", "").surface_system_failures();
        let child = ctx
            .schedule_sub_orchestration("C", "")
            .map(|r| r.unwrap_err())
            .surface_system_failures();
        let work = work.await.unwrap_err();
        Ok(format!("{work} / {}", child.await))
    });
    world.turn(vec![]);
    world.replayed_turn(vec![failed_with(2, poison(2))]);
    let turn = world.replayed_turn(vec![child_failed(
        3,
        duroxide_core::ErrorDetails::nondeterminism("changed"),
    )]);
    assert_eq!(
        output(&turn),
        "poison: activity A#2 exceeded 11 attempts (max 10) / nondeterministic: changed"
    );
}

#[test]
fn a_repeated_completion_is_ignored_whatever_the_first_one_said() {
    let mut world = World::of(|ctx, _| async move {
        let error = ctx.schedule_activity("A", "").await.unwrap_err();
        ctx.schedule_wait("park").await;
        Ok(error)
    });
    world.turn(vec![]);
    let failure = || crate::history::failed(2, "no");
    let turn = world.turn(vec![failure(), failure(), completed(2, "yes")]);
    assert_eq!(
        kinds(&turn.events),
        ["ActivityFailed", "ExternalSubscribed"]
    );
    let turn = world.replayed_turn(vec![failure(), completed(2, "yes")]);
    assert!(turn.events.is_empty());
    assert_eq!(output(&world.turn(vec![signal("park", "")])), "no");
}

#[test]
fn a_dropped_reader_hands_its_message_to_the_next() {
    let mut world = World::of(|ctx, _| async move {
        let (first, second) = (ctx.dequeue_event("q"), ctx.dequeue_event("q"));
        let b = second.await;
        drop(first);
        let a = ctx.dequeue_event("q").await;
        let c = ctx.dequeue_event("q").await;
        Ok(format!("{b},{a},{c}"))
    });
    world.turn(vec![]);
    let turn = world.turn(["m0", "m1", "m2"].map(|m| queue_message("q", m)).to_vec());
    assert_eq!(
        output(&turn),
        "m1,m0,m2",
        "nothing is read twice and nothing is skipped"
    );
}

#[test]
fn a_reader_that_gets_its_message_through_the_drop_of_another_wakes_up_at_once() {
    let mut world = World::of(|ctx, _| async move {
        let older = ctx.dequeue_event("q");
        let newer = ctx.dequeue_event("q");
        let timer = ctx.schedule_timer(Duration::from_secs(1));
        let drop_older = async {
            timer.await;
            drop(older);
            String::new()
        };
        let both: Vec<std::pin::Pin<Box<dyn Future<Output = String> + Send>>> =
            vec![Box::pin(newer), Box::pin(drop_older)];
        Ok(ctx.join(both).await.concat())
    });
    world.turn(vec![]);
    world.turn(vec![queue_message("q", "m")]);
    assert_eq!(output(&world.turn(vec![fired(4)])), "m");
}

#[test]
fn a_dropped_wait_frees_its_place_for_the_next_one() {
    let mut world = World::of(|ctx, _| async move {
        let (first, second) = (ctx.schedule_wait("s"), ctx.schedule_wait("s"));
        ctx.schedule_wait("go").await;
        drop(first);
        Ok(second.await)
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![signal("go", ""), signal("s", "v")]);
    assert_eq!(output(&turn), "v");
}

#[test]
fn a_value_that_a_dropped_wait_had_is_gone() {
    let mut world = World::of(|ctx, _| async move {
        let (first, second) = (ctx.schedule_wait("s"), ctx.schedule_wait("s"));
        ctx.schedule_wait("go").await;
        drop(first);
        Ok(second.await)
    });
    world.turn(vec![]);
    world.turn(vec![signal("s", "for the first"), signal("go", "")]);
    let turn = world.replayed_turn(vec![signal("s", "for the second")]);
    assert_eq!(output(&turn), "for the second");
}

#[test]
fn a_signal_that_nobody_waits_for_is_recorded_and_lost() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_activity("A", "").await?;
        Ok(ctx.schedule_wait("s").await)
    });
    world.turn(vec![signal("s", "early")]);
    world.turn(vec![signal("s", "early too"), completed(2, "")]);
    assert_eq!(output(&world.turn(vec![signal("s", "in time")])), "in time");
}

#[test]
fn a_poisoned_retry_is_not_tried_again() {
    let mut world = World::of(|ctx, _| async move {
        let policy = duroxide_core::RetryPolicy::new(5);
        ctx.schedule_activity_with_retry("A", "", policy).await
    });
    world.turn(vec![]);
    let turn = world.turn(vec![failed_with(2, poison(2))]);
    assert!(failure(&turn).starts_with("poison:"));
}
