//! What a start carries: memo, time limit and trace, seen by the code, handed to children and to the next execution.

use std::time::{Duration, SystemTime};

use duroxide_core::replay::{FailedBy, Outcome};
use duroxide_core::{
    Action, ErrorDetails, EventKind, MEMO_BYTES_MAX, OrchestrationError, OrchestrationRef,
    StartExtras, TraceContext, WorkItem, trace_of,
};

use crate::history::{INSTANCE, cancel, completed, signal};
use crate::world::{World, failure, output};

const CHILD: OrchestrationRef<u64, String> = OrchestrationRef::new("child");
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const MINUTE: Duration = Duration::from_secs(60);

fn timed() -> StartExtras {
    StartExtras::default()
        .with_timeout(MINUTE)
        .expect("it is long enough")
}

/// The message that says that the time is up, as the turn asked for it.
fn deadline(actions: &[Action], execution_id: u64) -> WorkItem {
    let due = actions.iter().find_map(|action| match action {
        Action::CreateTimer {
            scheduling_event_id: 1,
            fire_at_ms,
        } => Some(*fire_at_ms),
        _ => None,
    });
    fires(execution_id, due.expect("the first turn sets the deadline"))
}

fn fires(execution_id: u64, fire_at_ms: u64) -> WorkItem {
    WorkItem::TimerFired {
        instance: INSTANCE.into(),
        execution_id,
        id: 1,
        fire_at_ms,
    }
}

fn waiting() -> World {
    World::of(|ctx, _| async move { Ok(ctx.schedule_wait("end").await) }).with_extras(&timed())
}

#[test]
fn an_instance_fails_when_its_time_is_up() {
    for is_replayed in [false, true] {
        let mut world = World::of(|ctx, _| async move {
            let child = ctx.schedule_sub_orchestration("child", "");
            let work = ctx.schedule_activity("work", "");
            ctx.schedule_wait("end").await;
            drop((child, work));
            Ok(String::new())
        })
        .with_extras(&timed());
        let first = world.turn(vec![]);
        let due = deadline(&first.actions, 1);
        if is_replayed {
            world.forget();
        }
        let turn = world.turn(vec![due]);
        assert_eq!(turn.failed_by, Some(FailedBy::Timeout));
        let Outcome::Failed { details } = &turn.outcome else {
            panic!("{:?}", turn.outcome);
        };
        assert_eq!(details.code(), "D0310");
        assert_eq!(
            failure(&turn),
            "timed out: the orchestration did not end within 60s"
        );
        let error = OrchestrationError::<String>::of(details.clone());
        assert!(matches!(error, OrchestrationError::TimedOut { .. }));
        assert_eq!(turn.cancelled_activities.len(), 1);
        assert_eq!(turn.cancelled_children.len(), 1);
        assert!(world.is_over());
    }
}

#[test]
fn a_value_that_came_first_stands_and_one_that_comes_later_does_not() {
    let mut world = waiting();
    let due = deadline(&world.turn(vec![]).actions, 1);
    let turn = world.turn(vec![signal("end", "in time"), due]);
    assert_eq!(output(&turn), "in time");

    let mut world = waiting();
    let due = deadline(&world.turn(vec![]).actions, 1);
    let turn = world.turn(vec![due, signal("end", "too late")]);
    assert!(failure(&turn).starts_with("timed out"));
}

#[test]
fn a_cancellation_that_came_first_stands() {
    let mut world = waiting();
    let due = deadline(&world.turn(vec![]).actions, 1);
    let turn = world.turn(vec![cancel("enough"), due]);
    assert_eq!(turn.failed_by, Some(FailedBy::Cancellation));
}

#[test]
fn code_that_winds_down_has_no_more_time_than_the_rest() {
    let mut world = World::of(|ctx, _| async move {
        match ctx.cancellable(ctx.schedule_wait("end")).await {
            Ok(said) => Ok(said),
            Err(_cancelled) => ctx.schedule_activity("put_right", "").await,
        }
    })
    .with_extras(&timed());
    let due = deadline(&world.turn(vec![]).actions, 1);
    assert_eq!(world.turn(vec![cancel("enough")]).outcome, Outcome::Waiting);
    let turn = world.replayed_turn(vec![due]);
    assert_eq!(turn.failed_by, Some(FailedBy::Timeout));
}

#[test]
fn the_deadline_is_the_same_in_every_execution_and_none_begins_after_it() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_wait("next").await;
        ctx.continue_as_new("").await
    })
    .with_extras(&timed());
    let first = deadline(&world.turn(vec![]).actions, 1);
    world.turn(vec![signal("next", "")]);
    let second = deadline(&world.turn(vec![]).actions, 2);
    let due = |item: &WorkItem| match item {
        WorkItem::TimerFired { fire_at_ms, .. } => *fire_at_ms,
        other => panic!("{other:?}"),
    };
    assert_eq!(due(&first), due(&second));
    // That of the first execution says nothing to the second.
    assert_eq!(world.turn(vec![first]).outcome, Outcome::Waiting);
    let turn = world.replayed_turn(vec![signal("next", ""), second]);
    assert_eq!(turn.failed_by, Some(FailedBy::Timeout));
}

#[test]
fn an_instance_whose_executions_take_one_turn_each_times_out_too() {
    let mut world = World::of(|ctx, rounds| async move {
        let rounds = rounds.parse::<u64>().map_err(|e| e.to_string())?;
        ctx.continue_as_new((rounds + 1).to_string()).await
    })
    .input("0")
    .with_extras(&timed());
    let turn = loop {
        let turn = world.turn(vec![]);
        assert!(world.past.len() < 70, "it never ends");
        if world.is_over() {
            break turn;
        }
    };
    assert_eq!(turn.failed_by, Some(FailedBy::Timeout));
    assert_eq!(world.past.len(), 60, "one execution a second, for a minute");
    let kinds: Vec<_> = world.history.iter().map(|e| e.kind.wire_name()).collect();
    let expected = ["OrchestrationStarted", "TimerFired", "OrchestrationFailed"];
    assert_eq!(kinds, expected);
}

#[test]
fn code_does_not_run_when_its_time_was_up_before() {
    let mut world = World::of(|ctx, input| async move {
        match input.as_str() {
            "first" => {
                ctx.schedule_wait("next").await;
                ctx.continue_as_new("second").await
            }
            _ => Ok("it ran".to_owned()),
        }
    })
    .input("first")
    .with_extras(&timed());
    world.turn(vec![]);
    world.turn(vec![signal("next", "")]);
    world.now_ms += 3_600_000;
    assert!(failure(&world.turn(vec![])).starts_with("timed out"));
}

#[test]
fn a_deadline_of_another_life_is_ignored() {
    let mut limited = waiting();
    let WorkItem::TimerFired { fire_at_ms, .. } = deadline(&limited.turn(vec![]).actions, 1) else {
        panic!("it is a timer");
    };
    // A deadline names no life. Replay knows one of another life by its time, which differs from the recorded one.
    let turn = limited.turn(vec![fires(1, fire_at_ms - 1)]);
    assert_eq!(turn.outcome, Outcome::Waiting);
    let mut endless = World::of(|ctx, _| async move { Ok(ctx.schedule_wait("end").await) });
    assert_eq!(endless.turn(vec![]).actions, []);
    let turn = endless.replayed_turn(vec![fires(1, fire_at_ms)]);
    assert_eq!(turn.outcome, Outcome::Waiting);
    assert_eq!(endless.history.len(), 2, "nothing is recorded");
}

#[test]
fn the_code_sees_memo_deadline_and_trace_in_every_execution() {
    let mut world = World::of(|ctx, input| async move {
        let memo: Option<Vec<u64>> = ctx.memo()?;
        let not_a_text = ctx.memo::<String>().is_err();
        let left = ctx.deadline().map(|at| at.duration_since(ctx.now()));
        let trace = ctx.trace_context().map(|trace| trace.traceparent());
        let seen = format!("{memo:?} {not_a_text} {left:?} {trace:?}");
        if input == "first" {
            return ctx.continue_as_new(seen).await;
        }
        Ok(format!("{input} | {seen}"))
    })
    .input("first")
    .with_extras(
        &timed()
            .with_memo(&[7, 8])
            .unwrap()
            .with_trace(TraceContext::parse(TRACEPARENT, None).unwrap()),
    );
    world.turn(vec![]);
    let turn = world.turn(vec![]);
    let (one, other) = output(&turn).split_once(" | ").unwrap();
    assert!(one.starts_with("Some([7, 8]) true Some(Ok(60s))"), "{one}");
    assert!(
        other.starts_with("Some([7, 8]) true Some(Ok(59s))"),
        "{other}"
    );
    for seen in [one, other] {
        assert!(seen.contains("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert!(!seen.contains("00f067aa0ba902b7"), "a span of its own");
    }
    let span = |seen: &str| seen.rsplit('-').nth(1).map(str::to_owned);
    assert_ne!(span(one), span(other), "each execution is one");
}

#[test]
fn what_was_not_given_is_not_there() {
    let mut world = World::of(|ctx, _| async move {
        let memo: Option<String> = ctx.memo()?;
        let none: (_, Option<SystemTime>, _) = (memo, ctx.deadline(), ctx.trace_context());
        ctx.schedule_activity("work", "as it is").await?;
        Ok(format!("{none:?}"))
    });
    let turn = world.turn(vec![]);
    let Action::CallActivity { input, .. } = &turn.actions[0] else {
        panic!("{:?}", turn.actions);
    };
    assert_eq!(input, "as it is");
    let turn = world.replayed_turn(vec![completed(2, "")]);
    assert_eq!(output(&turn), "(None, None, None)");
    let EventKind::OrchestrationStarted {
        carry_forward_events,
        ..
    } = &world.history[0].kind
    else {
        panic!("a history begins with its start");
    };
    assert_eq!(
        *carry_forward_events, None,
        "the stored format is as it was"
    );
}

#[test]
fn activities_children_and_detached_starts_belong_to_the_trace() {
    let trace = TraceContext::parse(TRACEPARENT, Some("vendor=1")).unwrap();
    let extras = StartExtras::default().with_trace(trace);
    let mut world = World::of(|ctx, _| async move {
        let work = ctx.schedule_activity("work", "own input");
        ctx.spawn(CHILD, 1).memo("detached").timeout(MINUTE);
        let child = ctx.child(CHILD, 2).timeout(MINUTE).memo("child");
        let own = ctx.trace_context().map(|trace| trace.traceparent());
        work.await?;
        drop(child);
        Ok(own.unwrap_or_default())
    })
    .with_extras(&extras);
    let turn = world.turn(vec![]);
    let mut spans = Vec::new();
    let mut memos = Vec::new();
    for action in turn.actions {
        match action {
            Action::CallActivity { input, .. } => {
                let (trace, own) = trace_of(&input);
                assert_eq!(own, "own input");
                spans.push(trace.expect("it has one"));
            }
            Action::StartSubOrchestration { input, .. }
            | Action::StartOrchestrationDetached { input, .. } => {
                let (extras, own) = StartExtras::of_input(input);
                assert!(["1", "2"].contains(&own.as_str()), "{own}");
                assert_eq!(extras.timeout_ms, Some(60_000));
                spans.push(extras.trace.expect("it has one"));
                memos.extend(extras.memo);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(memos, [r#""detached""#, r#""child""#]);
    let turn = world.replayed_turn(vec![completed(2, "")]);
    assert_eq!(spans.len(), 3);
    for span in spans {
        assert_eq!(span.traceparent(), output(&turn));
        assert_eq!(span.tracestate(), Some("vendor=1"));
    }
    for event in &world.history {
        if let EventKind::ActivityScheduled { input, .. } = &event.kind {
            assert_eq!(
                input, "own input",
                "histories hold the author's input alone"
            );
        }
    }
}

#[test]
fn what_a_child_cannot_carry_is_refused() {
    type Begun = duroxide_core::Child<OrchestrationRef<u64, String>>;
    let refusals: [fn(Begun) -> Begun; 2] = [
        |child| child.timeout(Duration::ZERO),
        |child| child.memo(&"x".repeat(MEMO_BYTES_MAX)),
    ];
    for refuse in refusals {
        let mut world = World::of(move |ctx, _| async move {
            let child = refuse(ctx.child(CHILD, 2)).await;
            Err(child.unwrap_err().to_string())
        });
        let turn = world.turn(vec![]);
        let told = failure(&turn);
        assert!(told.contains("memo") || told.contains("timeout"), "{told}");
        assert_eq!(turn.actions, [], "nothing was started");
    }
    let mut world = World::of(|ctx, _| async move {
        ctx.spawn(CHILD, 2).timeout(Duration::ZERO);
        Ok(String::new())
    });
    assert!(failure(&world.turn(vec![])).contains("timeout"));
}

#[test]
fn a_parent_hears_that_the_time_of_its_child_was_up() {
    let mut world = World::of(|ctx, _| async move {
        match ctx.child(CHILD, 2).timeout(MINUTE).await {
            Err(OrchestrationError::TimedOut { message }) => Ok(message),
            other => Err(format!("{other:?}")),
        }
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![WorkItem::SubOrchFailed {
        parent_instance: INSTANCE.into(),
        parent_execution_id: 1,
        parent_id: 2,
        details: ErrorDetails::timed_out("a minute"),
    }]);
    assert_eq!(output(&turn), "timed out: a minute");
}
