//! Requests to cancel and to terminate: what counts, what is recorded, who is told.

use duroxide_core::replay::{EndOf, FailedBy, Outcome, Unused, terminate_without_replay};
use duroxide_core::{Either2, Event, EventKind, TERMINATE_PREFIX, WorkItem};

use crate::history::{cancel, completed, event, signal};
use crate::world::{World, failure, kinds};

/// Code with a child open that undoes its work when it is asked to end.
fn careful() -> World {
    World::of(|ctx, _| async move {
        let _child = ctx.schedule_sub_orchestration("C", "");
        let work = ctx.schedule_wait("paid");
        let _ = ctx.select2(work, ctx.cancellation_requested()).await;
        ctx.schedule_activity("undo", "").await?;
        Ok("undone".into())
    })
}

fn terminate(reason: &str) -> WorkItem {
    cancel(&format!("{TERMINATE_PREFIX}{reason}"))
}

#[test]
fn a_second_request_to_cancel_changes_nothing_while_the_code_winds_down() {
    let mut world = careful();
    world.turn(vec![]);
    world.turn(vec![cancel("please"), cancel("in one batch")]);
    for replay in [false, true] {
        if replay {
            world.forget();
        }
        let turn = world.turn(vec![cancel("again")]);
        assert_eq!(turn.outcome, Outcome::Waiting);
        assert_eq!(turn.notes.unused, [Unused::CancelledAlready]);
        assert_eq!(turn.events, []);
    }
    let undo = kinds(&world.history)
        .iter()
        .position(|k| *k == "ActivityScheduled");
    let undo = undo.expect("it undoes its work") as u64 + 1;
    let turn = world.replayed_turn(vec![cancel("late"), completed(undo, ""), cancel("later")]);
    assert_eq!(failure(&turn), "canceled: please");
    assert_eq!(turn.failed_by, Some(FailedBy::Cancellation));
}

#[test]
fn terminating_ends_at_once_also_while_the_code_winds_down() {
    for first in [vec![], vec![cancel("please")]] {
        let mut world = careful();
        world.turn(vec![]);
        world.turn(first);
        let turn = world.replayed_turn(vec![
            terminate("now"),
            terminate("once more"),
            cancel("too"),
        ]);
        assert_eq!(failure(&turn), "canceled: now");
        assert_eq!(turn.failed_by, Some(FailedBy::Cancellation));
        assert_eq!(
            turn.notes.unused,
            [Unused::CancelledAlready, Unused::CancelledAlready]
        );
        let told: Vec<_> = turn
            .cancelled_children
            .iter()
            .map(|c| c.reason.as_str())
            .collect();
        assert_eq!(told, ["duroxide:terminate:parent terminated"]);
        assert!(world.history.last().is_some_and(Event::is_terminal));
        let terminal = world.history.iter().filter(|e| e.is_terminal()).count();
        assert_eq!(terminal, 1);
    }
}

#[test]
fn the_code_does_not_run_once_it_is_terminated() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_wait("go").await;
        ctx.schedule_activity("A", "").await
    });
    world.turn(vec![]);
    let turn = world.turn(vec![terminate("now"), signal("go", "")]);
    assert_eq!(
        kinds(&turn.events),
        [
            "OrchestrationCancelRequested",
            "ExternalEvent",
            "OrchestrationFailed"
        ]
    );
    assert!(turn.actions.is_empty());
}

#[test]
fn an_instance_is_terminated_alike_with_and_without_its_code() {
    let mut world = careful();
    world.turn(vec![]);
    world.turn(vec![cancel("please")]);
    let before = world.history.clone();
    let with_code = world.turn(vec![terminate("now")]);
    let of = EndOf {
        instance_id: "inst",
        execution_id: 1,
        history: &before,
        now_ms: world.now_ms,
    };
    let without = terminate_without_replay(of, Vec::new(), "now");
    let records = |events: &[Event]| {
        let mut all: Vec<_> = events
            .iter()
            .map(|e| (e.source_event_id, e.kind.clone()))
            .collect();
        all.sort_by_key(|(source, kind)| (source.is_none(), *source, kind.wire_name()));
        all
    };
    assert_eq!(records(&without.events), records(&with_code.events));
    assert_eq!(without.outcome, with_code.outcome);
    assert_eq!(without.failed_by, with_code.failed_by);
    assert_eq!(without.cancelled_activities, with_code.cancelled_activities);
    assert_eq!(without.cancelled_children, with_code.cancelled_children);
    assert!(without.events.last().is_some_and(Event::is_terminal));
}

#[test]
fn a_second_request_that_is_recorded_still_ends_the_execution() {
    let mut world = careful();
    world.turn(vec![]);
    world.turn(vec![cancel("please")]);
    let reason = "again".to_owned();
    let again = EventKind::OrchestrationCancelRequested { reason };
    let mut again = event(world.history.len() as u64 + 1, None, again);
    again.timestamp_ms = world.now_ms;
    world.history.push(again);
    let turn = world.replayed_turn(vec![]);
    assert_eq!(failure(&turn), "canceled: please");
}

/// Code that watches for a request to cancel until it ends as it is told.
fn watchful() -> World {
    World::of(|ctx, _| async move {
        let work = async {
            match ctx.schedule_wait("end").await.as_str() {
                "continue" => ctx.continue_as_new("next").await,
                text => Ok(text.to_owned()),
            }
        };
        match ctx.select2(work, ctx.cancellation_requested()).await {
            Either2::First(ended) => ended,
            Either2::Second(reason) => ctx.schedule_activity("undo", reason).await,
        }
    })
}

#[test]
fn a_request_that_comes_with_the_message_that_lets_watchful_code_continue_reaches_the_next_execution()
 {
    for replay in [false, true] {
        let mut world = watchful();
        world.turn(vec![]);
        if replay {
            world.forget();
        }
        let turn = world.turn(vec![signal("end", "continue"), cancel("please")]);
        assert!(matches!(turn.outcome, Outcome::ContinuedAsNew { .. }));
        assert_eq!(turn.cancel_for_successor.as_deref(), Some("please"));
        assert!(!kinds(&turn.events).contains(&"OrchestrationCancelRequested"));
    }
}

#[test]
fn a_request_that_comes_after_watchful_code_has_returned_changes_nothing() {
    let mut world = watchful();
    world.turn(vec![]);
    let turn = world.turn(vec![signal("end", "done"), cancel("please")]);
    let output = "done".to_owned();
    assert_eq!(turn.outcome, Outcome::Completed { output });
    assert_eq!(turn.notes.unused, [Unused::Ended]);
    assert_eq!(turn.cancel_for_successor, None);
}

#[test]
fn a_request_that_comes_with_the_start_does_not_undo_what_watchful_code_returns_at_once() {
    let mut world = World::of(|ctx, _| async move {
        let work = async { Ok("done".to_owned()) };
        match ctx.select2(work, ctx.cancellation_requested()).await {
            Either2::First(ended) => ended,
            Either2::Second(reason) => Err(reason),
        }
    });
    let turn = world.turn(vec![cancel("please")]);
    let output = "done".to_owned();
    assert_eq!(turn.outcome, Outcome::Completed { output });
}

#[test]
fn terminating_wins_over_whatever_watchful_code_decided_before() {
    for end in ["continue", "done"] {
        let mut world = watchful();
        world.turn(vec![]);
        let turn = world.turn(vec![signal("end", end), terminate("now")]);
        assert_eq!(failure(&turn), "canceled: now");
        assert_eq!(turn.cancel_for_successor, None);
    }
}
