//! A rewound execution, replayed and driven on.

use std::time::Duration;

use duroxide_core::replay::Turn;
use duroxide_core::rewind::{ChildStanding, RewindMessage, RewindPoint, plan};
use duroxide_core::{
    Action, CallOrigin, EventKind, OrchestrationContext, StartExtras, TraceContext, WorkItem,
};

use crate::history::{INSTANCE, completed, failed, in_execution, signal};
use crate::world::{World, output};

/// `a` is tolerated, then an approval is awaited, then `b` must work.
async fn approved(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let first = ctx.schedule_activity("a", "").await;
    let first = first.unwrap_or("without a".into());
    let approval = ctx.schedule_wait("go").await;
    let second = ctx.schedule_activity("b", "").await?;
    Ok(format!("{first} {approval} {second}"))
}

/// The world after its instance was rewound to this point, with the messages that it was sent and that are due.
fn rewound(mut world: World, point: RewindPoint) -> (World, Vec<WorkItem>) {
    let rewind = plan(&world.history, point).expect("it failed");
    let (history, mut messages) =
        rewind.decided(|_| ChildStanding::Unborn, Vec::new(), world.now_ms);
    messages.retain(|message| !matches!(message, WorkItem::TimerFired { .. }));
    world.history = history;
    world.forget();
    (world, messages)
}

fn failed_after_approval() -> World {
    let mut world = World::of(approved);
    world.turn(vec![]);
    world.turn(vec![failed(2, "no")]);
    world.turn(vec![signal("go", "yes")]);
    world.turn(vec![failed(6, "no")]);
    world
}

fn asked_for(turn: &Turn) -> Vec<(u64, CallOrigin)> {
    let calls = turn.actions.iter().filter_map(|action| match action {
        Action::CallActivity {
            scheduling_event_id,
            input,
            ..
        } => Some((*scheduling_event_id, CallOrigin::of(input).0)),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_signal_from_before_a_rewind_reaches_the_first_wait_of_its_name() {
    let (mut world, messages) = rewound(failed_after_approval(), RewindPoint::Event(3));
    world.turn(messages);
    let turn = world.replayed_turn(vec![in_execution(2, completed(2, "a"))]);
    let is_signal = |kind: &EventKind| matches!(kind, EventKind::ExternalEvent { .. });
    let handed_over: Vec<_> = turn.events.iter().filter(|e| is_signal(&e.kind)).collect();
    let wait = handed_over[0].source_event_id.expect("it names its wait");
    let awaited = &world.history[wait as usize - 1].kind;
    assert_eq!(awaited.wire_name(), "ExternalSubscribed");
    let (asked, _) = asked_for(&turn)[0];
    // Nobody hands it over again, from memory or from the record.
    let turn = world.replayed_turn(vec![in_execution(2, completed(asked, "b"))]);
    assert_eq!(output(&turn), "a yes b");
}

#[test]
fn a_signal_from_before_a_rewind_goes_before_one_that_came_since() {
    let (mut world, messages) = rewound(failed_after_approval(), RewindPoint::Event(3));
    world.turn(messages);
    let turn = world.turn(vec![
        in_execution(2, completed(2, "a")),
        signal("go", "new"),
    ]);
    let (asked, _) = asked_for(&turn)[0];
    let turn = world.replayed_turn(vec![in_execution(2, completed(asked, "b"))]);
    assert_eq!(output(&turn), "a yes b");
}

#[test]
fn a_call_that_is_asked_for_anew_is_the_call_of_the_first_execution() {
    let (mut world, messages) = rewound(failed_after_approval(), RewindPoint::Failure);
    let turn = world.turn(messages);
    let first = |execution_id| CallOrigin {
        first_attempt: Some(6),
        execution_id: Some(execution_id),
    };
    assert_eq!(asked_for(&turn), [(6, first(1))]);
    // It fails once more and is retried once more.
    world.turn(vec![in_execution(2, failed(6, "no"))]);
    let (mut world, messages) = rewound(world, RewindPoint::Failure);
    let turn = world.turn(messages);
    assert_eq!(asked_for(&turn), [(6, first(1))]);
}

#[test]
fn a_call_of_the_rewound_execution_itself_is_its_own() {
    let (mut world, messages) = rewound(failed_after_approval(), RewindPoint::Event(3));
    let turn = world.turn(messages);
    assert_eq!(asked_for(&turn)[0].1.execution_id, Some(1));
    let turn = world.turn(vec![in_execution(2, completed(2, "a"))]);
    assert_eq!(asked_for(&turn)[0].1, CallOrigin::default());
}

#[test]
fn work_is_asked_for_anew_once_however_often_somebody_asks() {
    let (mut world, messages) = rewound(failed_after_approval(), RewindPoint::Failure);
    let again = || RewindMessage::AskAgain.to(INSTANCE);
    let twice = messages.into_iter().chain([again()]).collect();
    assert_eq!(asked_for(&world.turn(twice)).len(), 1);
    assert!(asked_for(&world.turn(vec![again()])).is_empty());
    let turn = world.replayed_turn(vec![again()]);
    assert!(asked_for(&turn).is_empty(), "after a replay too");
    let turn = world.turn(vec![in_execution(2, completed(6, "b"))]);
    assert_eq!(output(&turn), "without a yes b");
}

/// Everything that an execution is told about itself goes into what it asks for.
async fn tells_all(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let all = || {
        let (id, luck, name) = (ctx.execution_id(), ctx.random(), ctx.uuid());
        let (until, trace) = (ctx.deadline(), ctx.trace_context());
        let trace = trace.map(|trace| trace.traceparent());
        format!("{id} {luck} {name} {until:?} {trace:?}")
    };
    ctx.schedule_activity("first", all()).await?;
    ctx.schedule_activity("second", all()).await?;
    ctx.schedule_activity("third", all()).await
}

fn input_of(turn: &Turn) -> String {
    let asked = turn.events.iter().find_map(|event| match &event.kind {
        EventKind::ActivityScheduled { input, .. } => Some(input.clone()),
        _ => None,
    });
    asked.expect("an activity")
}

#[test]
fn code_is_told_of_itself_what_it_was_told_when_it_ran_first() {
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = TraceContext::parse(header, None).expect("a trace");
    let extras = StartExtras::default().with_trace(trace);
    let extras = extras.with_timeout(Duration::from_millis(2_500));
    let mut world = World::of(tells_all).with_extras(&extras.expect("a limit"));
    world.turn(vec![]);
    world.turn(vec![completed(2, "a")]);
    world.turn(vec![failed(4, "no")]);
    // Its time was up meanwhile, so it has another deadline. The kept part replays all the same.
    world.now_ms += 60_000;
    let (mut world, messages) = rewound(world, RewindPoint::Failure);
    world.turn(messages);
    let turn = world.replayed_turn(vec![in_execution(2, completed(4, "b"))]);
    assert!(input_of(&turn).starts_with("2 "), "{}", input_of(&turn));
    world.turn(vec![in_execution(2, failed(7, "no"))]);
    let (mut world, messages) = rewound(world, RewindPoint::Failure);
    world.turn(messages);
    let turn = world.replayed_turn(vec![in_execution(3, completed(7, "c"))]);
    assert_eq!(output(&turn), "c");
}
