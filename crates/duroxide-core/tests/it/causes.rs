//! What made an execution fail is told, whatever the failure says.

use duroxide_core::replay::{FailedBy, Outcome, Unused};
use duroxide_core::{ErrorDetails, WorkItem};

use crate::history::{
    cancel, child_completed, child_failed, completed, failed_with, fired, poison, queue_message,
    signal,
};
use crate::world::{World, failure, output};

/// Code that waits for a child, an activity and a signal.
fn waiting() -> World {
    World::of(|ctx, _| async move {
        let child = ctx.schedule_sub_orchestration("C", "");
        let work = ctx.schedule_activity("A", "");
        let how = ctx.schedule_wait("how").await;
        match how.as_str() {
            "error" => return Err("nondeterministic: says the author".into()),
            "panic" => panic!("oh"),
            "large" => ctx.set_kv_value("k", "x".repeat(70_000)),
            "foreign" => std::future::pending().await,
            _ => {}
        }
        let (child, work) = ctx.join2(child, work).await;
        Ok(format!("{} {}", child?, work?))
    })
}

fn failed_by(message: WorkItem) -> Option<FailedBy> {
    let mut world = waiting();
    world.turn(vec![]);
    world.turn(vec![message]).failed_by
}

#[test]
fn a_failure_names_its_cause() {
    assert_eq!(failed_by(queue_message("q", "")), None);
    assert_eq!(failed_by(signal("how", "error")), Some(FailedBy::Code));
    assert_eq!(failed_by(signal("how", "panic")), Some(FailedBy::Panic));
    assert_eq!(failed_by(signal("how", "large")), Some(FailedBy::Limit));
    assert_eq!(failed_by(cancel("enough")), Some(FailedBy::Cancellation));
    assert_eq!(
        failed_by(failed_with(3, poison(3))),
        Some(FailedBy::Operation)
    );
    assert_eq!(failed_by(fired(77)), Some(FailedBy::StrayCompletion));
    assert_eq!(failed_by(fired(3)), Some(FailedBy::StrayCompletion));
}

#[test]
fn the_divergence_of_a_child_is_no_divergence_of_its_parent() {
    let diverged = ErrorDetails::nondeterminism("schedule mismatch at event 2");
    let mut world = waiting();
    world.turn(vec![]);
    let turn = world.turn(vec![child_failed(2, diverged.clone())]);
    assert_eq!(turn.outcome, Outcome::Failed { details: diverged });
    assert_eq!(turn.failed_by, Some(FailedBy::Operation));
    assert!(!FailedBy::Operation.is_cured_by_other_code());
}

#[test]
fn waiting_for_nothing_durable_is_cured_by_other_code() {
    let mut world = World::of(|_, _| std::future::pending());
    let turn = world.turn(vec![]);
    assert_eq!(turn.failed_by, Some(FailedBy::NotDurable));
    assert!(FailedBy::NotDurable.is_cured_by_other_code());
}

#[test]
fn a_stray_completion_can_be_left_out_and_the_execution_goes_on() {
    let mut world = waiting();
    world.ignore_strays = true;
    world.turn(vec![]);
    let strays = vec![
        completed(99, "of nobody"),
        fired(3),
        child_completed(2, "c"),
    ];
    let turn = world.turn(strays);
    assert_eq!(turn.outcome, Outcome::Waiting);
    assert_eq!(turn.notes.unused, [Unused::Stray, Unused::Stray]);
    let why: Vec<_> = turn
        .notes
        .strays
        .iter()
        .map(|s| (s.id, s.why.as_str()))
        .collect();
    assert_eq!(
        why,
        [
            (99, "no matching schedule for completion id=99"),
            (
                3,
                "completion kind mismatch for id=3, expected 'activity', got 'timer'"
            )
        ]
    );
    world.replayed_turn(vec![signal("how", "")]);
    assert_eq!(output(&world.replayed_turn(vec![completed(3, "a")])), "c a");
}

#[test]
fn a_stray_completion_fails_the_execution_unless_asked_otherwise() {
    let mut world = waiting();
    world.turn(vec![]);
    let turn = world.turn(vec![completed(99, "of nobody")]);
    assert_eq!(
        failure(&turn),
        "nondeterministic: no matching schedule for completion id=99"
    );
}
