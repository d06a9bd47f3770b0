//! Messages that have no effect, and what a turn notes about them and about its children.

use duroxide_core::replay::{ChildEnded, Outcome, Unused};
use duroxide_core::{ErrorDetails, keyed_message};

use crate::history::{
    cancel, child_completed, child_failed, completed, failed, fired, in_execution, queue_message,
    signal,
};
use crate::world::{World, output};

#[test]
fn a_completion_that_comes_with_the_start_is_dropped_and_the_real_one_is_used() {
    let foreign = [
        completed(2, "foreign"),
        failed(2, "foreign"),
        fired(2),
        child_completed(2, "foreign"),
        completed(77, "foreign"),
    ];
    for message in foreign {
        let mut world = World::of(|ctx, _| async move { ctx.schedule_activity("A", "").await });
        let first = world.turn(vec![message]);
        assert_eq!(first.outcome, Outcome::Waiting);
        assert_eq!(first.notes.unused, [Unused::NeverScheduled]);
        let real = world.replayed_turn(vec![completed(2, "real")]);
        assert_eq!(output(&real), "real");
    }
}

#[test]
fn a_completion_that_comes_with_a_continue_as_new_does_not_fail_the_next_execution() {
    let mut world = World::of(|ctx, input| async move {
        if input.is_empty() {
            return ctx.continue_as_new("again").await;
        }
        ctx.schedule_activity("A", "").await
    });
    world.turn(vec![]);
    let early = in_execution(2, completed(2, "early"));
    let first = world.turn(vec![early]);
    assert_eq!(first.outcome, Outcome::Waiting);
    assert_eq!(first.notes.unused, [Unused::NeverScheduled]);
    let real = in_execution(2, completed(2, "real"));
    assert_eq!(output(&world.turn(vec![real])), "real");
}

/// The sender was not answered and repeats the message; the instance has continued as new since the first.
#[test]
fn a_repeated_message_that_comes_with_the_next_execution_is_not_taken_again() {
    let mut world = World::of(|ctx, input| async move {
        let first = ctx.receive::<String>("orders").await;
        let first = first.map_err(|error| error.to_string())?;
        if input.is_empty() {
            ctx.continue_as_new(first).await
        } else {
            Ok(format!("{input}, {first}"))
        }
    });
    world.turn(vec![]);
    let one = || queue_message("orders", &keyed_message("k", "one"));
    world.turn(vec![one()]);
    let turn = world.turn(vec![one()]);
    assert_eq!(turn.notes.unused, [Unused::Repeated]);
    let turn = world.replayed_turn(vec![
        one(),
        queue_message("orders", &keyed_message("l", "two")),
    ]);
    assert_eq!(turn.notes.unused, [Unused::Repeated]);
    assert_eq!(output(&turn), "one, two");
}

#[test]
fn a_message_without_effect_is_noted_with_its_reason() {
    let mut world = World::of(|ctx, _| async move {
        let wait = ctx.schedule_wait("go");
        ctx.schedule_activity("A", "").await?;
        Ok(wait.await)
    });
    world.turn(vec![]);
    let turn = world.turn(vec![
        completed(3, ""),
        completed(3, ""),
        in_execution(9, completed(3, "")),
        signal("nobody waits", ""),
        signal("go", ""),
    ]);
    assert_eq!(output(&turn), "");
    let unused = [
        Unused::Duplicate,
        Unused::AnotherExecution,
        Unused::NobodyWaits,
    ];
    assert_eq!(turn.notes.unused, unused);
}

#[test]
fn a_second_request_to_cancel_in_one_batch_is_noted() {
    let mut world = World::of(|ctx, _| async move { Ok(ctx.schedule_wait("go").await) });
    world.turn(vec![]);
    let turn = world.turn(vec![cancel("first"), cancel("second")]);
    assert_eq!(turn.notes.unused, [Unused::CancelledAlready]);
}

#[test]
fn the_end_of_a_child_is_noted_once_with_its_name_outcome_and_life() {
    let mut world = World::of(|ctx, _| async move {
        let version = Some("2.0.0".to_owned());
        let one = ctx.schedule_sub_orchestration("One", "");
        let two = ctx.schedule_sub_orchestration_versioned("Two", version, "");
        let three = ctx.schedule_sub_orchestration("Three", "");
        let ended = ctx.join(vec![one, two, three]).await;
        ctx.schedule_wait("go").await;
        Ok(ended.len().to_string())
    });
    world.turn(vec![]);
    let first = world.replayed_turn(vec![child_completed(2, "")]);
    let ended = |name: &str, outcome, lived_ms| ChildEnded {
        name: name.to_owned(),
        outcome,
        lived_ms,
    };
    assert_eq!(first.notes.children_ended, [ended("One", "success", 1_000)]);
    let second = world.replayed_turn(vec![
        child_failed(3, ErrorDetails::orchestration_failed("broken")),
        child_failed(4, ErrorDetails::cancelled("not needed")),
    ]);
    let expected = [
        ended("Two", "failed", 2_000),
        ended("Three", "cancelled", 2_000),
    ];
    assert_eq!(second.notes.children_ended, expected);
    let last = world.replayed_turn(vec![signal("go", "")]);
    assert_eq!(last.notes.children_ended, []);
    assert_eq!(output(&last), "3");
}
