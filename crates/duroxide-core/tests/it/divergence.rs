//! The report of a divergence: what it says, and when it is made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::replay::{Divergence, Execution, Outcome};
use duroxide_core::{ErrorDetails, Event, EventKind, OrchestrationHandler, RetryPolicy};

use crate::history::{
    History, child_completed, completed, event, failed_with, fired, poison, signal,
};
use crate::world::{World, failure, handler, kinds, output};

fn diverges(history: &[Event], handler: &Arc<dyn OrchestrationHandler>) -> Divergence {
    match Execution::load(history, Arc::clone(handler), HashMap::new()) {
        Err(divergence) => divergence,
        Ok(_) => panic!("it replays: {:?}", kinds(history)),
    }
}

fn one_activity() -> Arc<dyn OrchestrationHandler> {
    handler(|ctx, _| async move { ctx.schedule_activity("A", "x").await })
}

#[test]
fn the_report_shows_recorded_against_attempted_with_event_and_place() {
    let history = History::started("").activity("Old", "x").events();
    let first = line!();
    let new =
        handler(|ctx, _| async move { ctx.schedule_activity("New", "y").with_tag("gpu").await });
    let last = line!();
    let report = diverges(&history, &new);
    assert_eq!(report.headline, "schedule mismatch");
    assert_eq!(report.event_id, Some(2));
    let recorded = "ActivityScheduled name=\"Old\" input=\"x\"";
    let attempted = "ActivityScheduled name=\"New\" input=\"y\" tag=\"gpu\"";
    assert_eq!(report.recorded.as_deref(), Some(recorded));
    assert_eq!(report.attempted.as_deref(), Some(attempted));
    let place = report.location.clone().unwrap();
    let line = place
        .split(':')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap();
    assert!(
        place.contains("divergence.rs:") && (first..last).contains(&line),
        "{place}"
    );
    let text = format!(
        "schedule mismatch at event 2\n  recorded:  {recorded}\n  attempted: {attempted}\n  called at: {place}"
    );
    assert_eq!(report.to_string(), text);
    let details = report.to_details();
    assert_eq!(details, ErrorDetails::nondeterminism(text.clone()));
    assert_eq!(
        details.display_message(),
        format!("nondeterministic: {text}")
    );
}

#[test]
fn the_place_of_a_retried_activity_is_the_authors_line() {
    let history = History::started("").activity("Old", "x").events();
    let new = handler(|ctx, _| async move {
        ctx.schedule_activity_with_retry("New", "x", RetryPolicy::new(2))
            .await
    });
    let place = diverges(&history, &new).location.unwrap();
    assert!(place.contains("divergence.rs"), "{place}");
}

#[test]
fn large_payloads_are_cut_in_the_report() {
    let history = History::started("")
        .activity("A", &"x".repeat(10_000))
        .events();
    let report = diverges(&history, &one_activity());
    let recorded = report.recorded.unwrap();
    assert!(
        recorded.len() < 400 && recorded.contains("(10000 bytes)"),
        "{recorded}"
    );
}

#[test]
fn code_that_returned_too_early_is_named_in_the_report() {
    let history = History::started("").activity("A", "x").events();
    let cases: [(Arc<dyn OrchestrationHandler>, &str); 4] = [
        (
            handler(|_, _| async { Ok("done".into()) }),
            "return Ok(\"done\")",
        ),
        (
            handler(|_, _| async { Err("no".into()) }),
            "return Err(\"no\")",
        ),
        (handler(|_, _| async { panic!("oh") }), "panic \"oh\""),
        (
            handler(|ctx, _| async move { ctx.continue_as_new("n").await }),
            "continue_as_new(\"n\")",
        ),
    ];
    for (code, attempted) in cases {
        let report = diverges(&history, &code);
        assert_eq!(report.headline, "history schedule but no emitted action");
        assert_eq!(report.event_id, Some(2));
        assert_eq!(report.attempted.as_deref(), Some(attempted));
    }
}

#[test]
fn code_that_asks_for_nothing_is_shown_as_nothing() {
    let history = History::started("").activity("A", "x").events();
    let idle = handler(|_, _| std::future::pending());
    let report = diverges(&history, &idle);
    assert_eq!(report.attempted, None);
    assert!(report.to_string().contains("attempted: nothing"));
}

#[test]
fn a_completion_without_a_schedule_is_corruption() {
    let history = History::started("")
        .activity("A", "x")
        .activity_completed(9, "r")
        .events();
    let report = diverges(&history, &one_activity());
    assert_eq!(report.headline, "completion without open schedule");
    assert_eq!(report.event_id, Some(3));
}

#[test]
fn a_second_completion_in_a_history_is_corruption() {
    let again = History::started("")
        .activity("A", "x")
        .activity_completed(2, "r")
        .activity_completed(2, "r")
        .events();
    let waits = handler(|ctx, _| async move {
        ctx.schedule_activity("A", "x").await?;
        std::future::pending().await
    });
    assert_eq!(
        diverges(&again, &waits).headline,
        "completion without open schedule"
    );
}

#[test]
fn a_completion_of_another_kind_in_a_history_is_corruption() {
    let fire = EventKind::TimerFired { fire_at_ms: 1 };
    let history = History::started("")
        .activity("A", "x")
        .answering(2, fire)
        .events();
    let report = diverges(&history, &one_activity());
    assert_eq!(
        report.headline,
        "completion kind mismatch: expected activity"
    );
}

#[test]
fn an_empty_history_is_corruption() {
    assert_eq!(
        diverges(&[], &one_activity()).headline,
        "corrupted history: empty"
    );
}

#[test]
fn a_history_that_does_not_begin_with_its_start_is_corruption() {
    let events = [event(1, None, EventKind::TimerCreated { fire_at_ms: 1 })];
    assert_eq!(
        diverges(&events, &one_activity()).headline,
        "corrupted history: first event must be OrchestrationStarted"
    );
}

#[test]
fn event_ids_that_do_not_increase_are_corruption() {
    let mut events = History::started("")
        .activity("A", "x")
        .activity_completed(2, "r")
        .events();
    events[2].event_id = 2;
    assert_eq!(
        diverges(&events, &one_activity()).headline,
        "corrupted history: event ids must increase"
    );
    for place in [0, 2] {
        let mut events = events.clone();
        events[place].event_id = u64::MAX;
        assert_eq!(
            diverges(&events, &one_activity()).headline,
            "corrupted history: event ids must increase"
        );
    }
    events[2].event_id = 0;
    assert_eq!(
        diverges(&events, &one_activity()).headline,
        "corrupted history: event ids must increase"
    );
}

#[test]
fn gaps_between_event_ids_are_tolerated() {
    let mut events = History::started("").activity("A", "x").events();
    events[1].event_id = 100;
    let mut execution = Execution::load(&events, one_activity(), HashMap::new()).unwrap();
    let limits = duroxide_core::replay::TurnLimits::default();
    let turn = crate::world::run_turn(&mut execution, 1, vec![completed(100, "r")], &limits, true);
    assert_eq!(output(&turn), "r");
    assert_eq!(turn.events[0].event_id, 101);
}

fn open_world() -> World {
    let mut world = World::of(|ctx, _| async move {
        let child = ctx.schedule_sub_orchestration("C", "");
        let timer = ctx.schedule_timer(Duration::from_secs(1));
        let work = ctx.schedule_activity("A", "").await;
        timer.await;
        child.await?;
        work
    });
    world.turn(vec![]);
    world
}

#[test]
fn a_message_of_the_wrong_kind_is_nondeterminism() {
    let cases = [
        (
            completed(3, ""),
            "completion kind mismatch for id=3, expected 'timer', got 'activity'",
        ),
        (
            fired(4),
            "completion kind mismatch for id=4, expected 'activity', got 'timer'",
        ),
        (
            child_completed(4, ""),
            "completion kind mismatch for id=4, expected 'activity', got 'suborchestration'",
        ),
        (
            completed(2, ""),
            "completion kind mismatch for id=2, expected 'suborchestration', got 'activity'",
        ),
    ];
    for (message, text) in cases {
        let turn = open_world().turn(vec![message]);
        assert_eq!(failure(&turn), format!("nondeterministic: {text}"));
    }
}

#[test]
fn a_message_without_a_schedule_is_nondeterminism() {
    let cases = [
        (
            completed(77, ""),
            "no matching schedule for completion id=77",
        ),
        (fired(77), "no matching schedule for timer id=77"),
        (
            child_completed(77, ""),
            "no matching schedule for sub-orchestration id=77",
        ),
    ];
    for (message, text) in cases {
        let turn = open_world().turn(vec![message]);
        assert_eq!(failure(&turn), format!("nondeterministic: {text}"));
        assert_eq!(turn.cancelled_activities, [4]);
        assert_eq!(turn.cancelled_children.len(), 1, "open children are told");
    }
}

#[test]
fn the_first_of_several_errors_in_a_batch_wins() {
    let mut world = open_world();
    let messages = vec![failed_with(4, poison(4)), completed(77, ""), fired(78)];
    assert!(failure(&world.turn(messages)).starts_with("poison: "));

    let mut world = open_world();
    let messages = vec![fired(78), completed(77, ""), failed_with(4, poison(4))];
    let turn = world.turn(messages);
    assert_eq!(
        failure(&turn),
        "nondeterministic: no matching schedule for timer id=78"
    );
}

#[test]
fn a_misfit_message_does_not_undo_what_came_before_it() {
    let done = || World::of(|ctx, _| async move { ctx.schedule_activity("A", "").await });
    let mut world = done();
    world.turn(vec![]);
    let turn = world.turn(vec![completed(2, "r"), completed(77, "")]);
    assert_eq!(output(&turn), "r");
    let mut world = done();
    world.turn(vec![]);
    let turn = world.turn(vec![completed(77, ""), completed(2, "r")]);
    assert!(matches!(turn.outcome, Outcome::Failed { .. }));
}

#[test]
fn a_recorded_bare_name_of_a_versioned_child_is_accepted() {
    let recorded = EventKind::SubOrchestrationScheduled {
        name: "C".into(),
        instance: "sub::2".into(),
        input: "x".into(),
    };
    let history = History::started("").with(recorded).events();
    let code = handler(|ctx, _| async move {
        let version = Some("2.0.0".to_owned());
        ctx.schedule_sub_orchestration_versioned("C", version, "x")
            .await
    });
    Execution::load(&history, code, HashMap::new())
        .expect("earlier engines did not record versions");
}

#[test]
fn a_handler_that_panics_in_the_middle_of_replay_is_reported_as_such() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_wait("s").await;
        ctx.schedule_timer(Duration::from_secs(1)).await;
        Ok(String::new())
    });
    world.turn(vec![]);
    world.turn(vec![signal("s", "")]);
    world.redeploy(handler(|_, _| async { panic!("no config file") }));
    let report = world.try_turn(vec![]).unwrap_err();
    assert!(report.to_string().contains("no config file"), "{report}");
}
