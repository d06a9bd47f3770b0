//! Questions to the host: answered within the turn, recorded like activities, never sent to a worker.

use std::time::{Duration, UNIX_EPOCH};

use duroxide_core::replay::{HostRequest, Outcome};
use duroxide_core::{ActivityOptions, WorkItem};

use crate::history::{completed, fired, signal};
use crate::world::{World, kinds, output};

#[test]
fn ids_and_times_are_answered_within_the_turn_and_need_no_worker() {
    let mut world = World::of(|ctx, _| async move {
        let guid = ctx.new_guid().await?;
        let now = ctx.utc_now().await?;
        let value = ctx.get_kv_value_from_instance("other", "k").await?;
        ctx.schedule_wait("s").await;
        let ms = now.duration_since(UNIX_EPOCH).unwrap().as_millis();
        Ok(format!("{guid} {ms} {value:?}"))
    });
    let turn = world.turn(vec![]);
    assert!(turn.actions.is_empty() && turn.unanswered.is_empty());
    assert_eq!(
        kinds(&turn.events),
        [
            "OrchestrationStarted",
            "ActivityScheduled",
            "ActivityCompleted",
            "ActivityScheduled",
            "ActivityCompleted",
            "ActivityScheduled",
            "ActivityCompleted",
            "ExternalSubscribed"
        ]
    );
    let turn = world.replayed_turn(vec![signal("s", "")]);
    let asked = world.history[0].timestamp_ms;
    assert_eq!(
        output(&turn),
        format!("guid-2-{asked} {asked} Some(\"other/k@{asked}\")"),
        "a replay sees what was recorded, not what the host would say"
    );
}

#[test]
fn a_host_that_cannot_answer_now_answers_by_message() {
    let mut world = World::of(|ctx, _| async move { ctx.new_guid().await });
    world.ask_host = false;
    let turn = world.turn(vec![]);
    assert!(turn.actions.is_empty());
    assert_eq!(turn.unanswered[0].activity_id, 2);
    assert_eq!(turn.unanswered[0].request, HostRequest::NewGuid);
    assert_eq!(output(&world.replayed_turn(vec![completed(2, "g")])), "g");
}

#[test]
fn a_question_that_was_dropped_is_not_asked() {
    let mut world = World::of(|ctx, _| async move {
        drop(ctx.new_guid());
        ctx.schedule_wait("s").await;
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
}

#[test]
fn a_cancelled_turn_asks_nothing() {
    let mut world = World::of(|ctx, _| async move { ctx.new_guid().await });
    let turn = world.turn(vec![crate::history::cancel("stop")]);
    assert!(matches!(turn.outcome, Outcome::Failed { .. }));
    assert!(!kinds(&turn.events).contains(&"ActivityCompleted"));
}

#[test]
fn a_malformed_question_is_answered_with_its_error() {
    let parse = |input| HostRequest::parse("__duroxide_syscall:get_kv_value", input);
    let malformed = |error: &str| {
        Some(HostRequest::Malformed {
            error: error.into(),
        })
    };
    assert_eq!(parse("{}"), malformed("get_kv_value: missing instance_id"));
    assert_eq!(
        parse("{\"instance_id\":\"i\"}"),
        malformed("get_kv_value: missing key")
    );
    let Some(HostRequest::Malformed { error }) = parse("nonsense") else {
        panic!("nonsense was understood")
    };
    assert!(
        error.starts_with("get_kv_value: invalid input: "),
        "{error}"
    );
    assert_eq!(HostRequest::parse("Ordinary", ""), None);
}

fn with_start_timeout() -> World {
    World::of(|ctx, _| async move {
        let options = ActivityOptions::new().with_start_timeout(Duration::from_secs(60));
        ctx.schedule_activity_with_options("A", "", options).await
    })
}

#[test]
fn an_activity_that_no_worker_takes_times_out() {
    let mut world = with_start_timeout();
    world.turn(vec![]);
    // The host of these tests says that activities with an even id were claimed.
    let turn = world.replayed_turn(vec![fired(3)]);
    assert_eq!(
        turn.outcome,
        Outcome::Waiting,
        "a claimed activity is waited for"
    );
    assert_eq!(output(&world.replayed_turn(vec![completed(2, "r")])), "r");

    let mut world = World::of(|ctx, _| async move {
        ctx.set_custom_status("shifts the ids by one");
        let options = ActivityOptions::new().with_start_timeout(Duration::from_secs(60));
        ctx.schedule_activity_with_options("A", "", options).await
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![fired(4)]);
    assert_eq!(
        crate::world::failure(&turn),
        "timeout: no worker took activity 'A' within 60s"
    );
    assert_eq!(turn.cancelled_activities, [3]);
}

#[test]
fn a_message_to_the_host_activity_by_a_worker_is_accepted_too() {
    // An engine that sends system calls to workers leaves such completions in the queue.
    let mut world = World::of(|ctx, _| async move { ctx.new_guid().await });
    world.ask_host = false;
    world.turn(vec![]);
    let message = WorkItem::ActivityCompleted {
        instance: "inst".into(),
        execution_id: 1,
        id: 2,
        result: "guid of a worker".into(),
    };
    assert_eq!(output(&world.turn(vec![message])), "guid of a worker");
}
