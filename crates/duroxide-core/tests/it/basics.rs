//! The path of one orchestration, turn by turn.

use std::time::Duration;

use duroxide_core::Action;
use duroxide_core::replay::Outcome;

use crate::history::{completed, failed, fired, queue_message, signal};
use crate::world::{World, failure, kinds, output};

#[test]
fn an_activity_is_scheduled_once_and_its_result_is_returned() {
    let mut world = World::of(|ctx, input| async move {
        let greeting = ctx.schedule_activity("Greet", input).await?;
        Ok(format!("{greeting}!"))
    })
    .input("you");
    let turn = world.turn(vec![]);
    assert_eq!(
        kinds(&turn.events),
        ["OrchestrationStarted", "ActivityScheduled"]
    );
    assert!(matches!(
        &turn.actions[..],
        [Action::CallActivity {
            scheduling_event_id: 2,
            ..
        }]
    ));

    let turn = world.replayed_turn(vec![completed(2, "hello you")]);
    assert_eq!(output(&turn), "hello you!");
    assert!(turn.actions.is_empty());
    assert_eq!(
        kinds(&turn.events),
        ["ActivityCompleted", "OrchestrationCompleted"]
    );
}

#[test]
fn calls_are_recorded_in_call_order_and_awaiting_only_observes() {
    let mut world = World::of(|ctx, _| async move {
        let b = ctx.schedule_timer(Duration::from_secs(1));
        let a = ctx.schedule_activity("A", "");
        let a = a.await?;
        b.await;
        Ok(a)
    });
    world.turn(vec![]);
    assert_eq!(
        world.kinds(),
        ["OrchestrationStarted", "TimerCreated", "ActivityScheduled"]
    );
    world.turn(vec![fired(2)]);
    let turn = world.turn(vec![completed(3, "x")]);
    assert_eq!(output(&turn), "x");
}

#[test]
fn an_error_of_an_activity_is_a_value_for_the_code() {
    let mut world = World::of(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![failed(2, "no luck")]);
    assert_eq!(failure(&turn), "no luck");
}

#[test]
fn a_turn_without_messages_decides_nothing() {
    let mut world = World::of(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![]);
    assert!(turn.events.is_empty());
    assert_eq!(turn.outcome, Outcome::Waiting);
}

#[test]
fn a_signal_reaches_the_oldest_wait_and_a_queue_message_waits_for_its_reader() {
    let mut world = World::of(|ctx, _| async move {
        let (first, second) = (ctx.schedule_wait("s"), ctx.schedule_wait("s"));
        let second_value = second.await;
        let first_value = first.await;
        let message = ctx.dequeue_event("q").await;
        Ok(format!("{first_value},{second_value},{message}"))
    });
    world.turn(vec![queue_message("q", "m")]);
    world.turn(vec![signal("s", "1")]);
    let turn = world.replayed_turn(vec![signal("s", "2")]);
    assert_eq!(output(&turn), "1,2,m");
}

#[test]
fn a_message_for_another_execution_is_dropped() {
    let mut world = World::of(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    world.turn(vec![]);
    let stale = crate::history::in_execution(7, completed(2, "stale"));
    let turn = world.turn(vec![stale]);
    assert!(turn.events.is_empty());
}

#[test]
fn an_execution_that_has_ended_decides_nothing_more() {
    let mut world = World::of(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    world.turn(vec![]);
    world.turn(vec![completed(2, "done")]);
    let turn = world.replayed_turn(vec![completed(2, "again"), signal("s", "late")]);
    assert!(turn.events.is_empty());
    assert!(turn.actions.is_empty());
}

#[test]
fn a_timer_is_computed_from_the_clock_though_recorded_time_is_ahead_of_it() {
    const HOUR_MS: u64 = 3_600_000;
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_wait("go").await;
        ctx.schedule_timer(Duration::from_secs(10)).await;
        Ok(String::new())
    });
    world.now_ms += HOUR_MS;
    world.turn(vec![]);
    world.now_ms -= HOUR_MS;
    let turn = world.replayed_turn(vec![signal("go", "")]);
    let fire_at = turn.actions.iter().find_map(|action| match action {
        Action::CreateTimer { fire_at_ms, .. } => Some(*fire_at_ms),
        _ => None,
    });
    assert_eq!(fire_at, Some(world.now_ms + 10_000));
    let times: Vec<u64> = world.history.iter().map(|e| e.timestamp_ms).collect();
    assert!(
        times.is_sorted(),
        "recorded time does not go back: {times:?}"
    );
}
