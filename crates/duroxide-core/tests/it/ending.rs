//! The ways an execution ends: what is recorded, who is told, and what crosses into the next one.

use std::time::Duration;

use duroxide_core::replay::{Outcome, Turn};
use duroxide_core::{Action, EventKind};

use crate::history::{
    History, cancel, child_completed, completed, fired, in_execution, queue_message, signal,
};
use crate::world::{World, failure, kinds, output};

/// Code with one of everything open that ends as the signal `end` says.
fn busy() -> World {
    World::of(|ctx, _| async move {
        let _child = ctx.schedule_sub_orchestration("C", "");
        let _work = ctx.schedule_activity("A", "");
        let _wait = ctx.schedule_wait("s");
        let _queue = ctx.dequeue_event("q");
        let _timer = ctx.schedule_timer(Duration::from_secs(1));
        let how = ctx.schedule_wait("end").await;
        ctx.schedule_orchestration("D", "detached", "");
        let _late_child = ctx.schedule_sub_orchestration("Late", "");
        match how.as_str() {
            "ok" => Ok("done".into()),
            "err" => Err("failed".into()),
            "panic" => panic!("oh no"),
            "again" => ctx.continue_as_new("next").await,
            _ => {
                ctx.schedule_wait("never").await;
                Ok(String::new())
            }
        }
    })
}

fn end_with(messages: Vec<duroxide_core::WorkItem>) -> Turn {
    let mut world = busy();
    world.turn(vec![]);
    world.replayed_turn(messages)
}

fn detached(turn: &Turn) -> usize {
    let is_detached = |a: &&Action| matches!(a, Action::StartOrchestrationDetached { .. });
    assert!(
        turn.actions.iter().all(|a| is_detached(&a)),
        "{:?}",
        turn.actions
    );
    turn.actions.len()
}

/// Every recorded reason, by kind of record.
fn reasons(turn: &Turn) -> Vec<String> {
    let json = |e| serde_json::to_value(e).expect("an event is JSON");
    turn.events
        .iter()
        .map(json)
        .filter(|e| e["reason"].is_string() && !e["source_event_id"].is_null())
        .map(|e| format!("{} {}", e["type"], e["reason"]).replace('"', ""))
        .collect()
}

#[test]
fn code_that_returns_drops_everything_it_held() {
    for how in ["ok", "err"] {
        let turn = end_with(vec![signal("end", how)]);
        assert_eq!(
            reasons(&turn),
            [
                "ActivityCancelRequested dropped_future",
                "SubOrchestrationCancelRequested dropped_future",
                "SubOrchestrationCancelRequested dropped_future",
                "ExternalSubscribedCancelled dropped_future",
                "ExternalSubscribedPersistentCancelled dropped_future",
            ]
        );
        assert_eq!(turn.cancelled_activities, [3]);
        assert_eq!(
            turn.cancelled_children.len(),
            1,
            "the late child was never started"
        );
        assert_eq!(detached(&turn), 1);
    }
}

#[test]
fn a_panic_cancels_activities_and_children_and_decides_nothing() {
    let turn = end_with(vec![signal("end", "panic")]);
    assert_eq!(failure(&turn), "orchestration panicked: oh no");
    assert_eq!(
        kinds(&turn.events),
        [
            "ExternalEvent",
            "ExternalSubscribedCancelled",
            "ExternalSubscribedPersistentCancelled",
            "ActivityCancelRequested",
            "SubOrchestrationCancelRequested",
            "OrchestrationFailed"
        ],
        "the terminal event is last"
    );
    assert_eq!(turn.cancelled_activities, [3]);
    assert_eq!(turn.cancelled_children[0].reason, "parent failed");
    assert_eq!(detached(&turn), 0);
}

#[test]
fn continue_as_new_cancels_activities_and_children_and_sends_detached_starts() {
    let turn = end_with(vec![signal("end", "again")]);
    assert!(matches!(&turn.outcome, Outcome::ContinuedAsNew { input, .. } if input == "next"));
    assert_eq!(
        reasons(&turn),
        [
            "ExternalSubscribedCancelled orchestration_terminal",
            "ExternalSubscribedPersistentCancelled orchestration_terminal",
            "ActivityCancelRequested orchestration_terminal_continued_as_new",
            "SubOrchestrationCancelRequested orchestration_terminal_continued_as_new",
            "SubOrchestrationCancelRequested orchestration_terminal_continued_as_new",
        ]
    );
    assert_eq!(turn.cancelled_children.len(), 1);
    assert_eq!(turn.cancelled_children[0].reason, "parent continued as new");
    assert_eq!(detached(&turn), 1, "what is recorded is sent");
    assert_eq!(
        kinds(&turn.events).last(),
        Some(&"OrchestrationContinuedAsNew")
    );
}

#[test]
fn cancellation_tells_every_open_child_and_sends_detached_starts() {
    let turn = end_with(vec![cancel("stop"), signal("end", "wait")]);
    assert_eq!(failure(&turn), "canceled: stop");
    assert_eq!(turn.cancelled_activities, [3]);
    assert_eq!(
        turn.cancelled_children.len(),
        1,
        "the late child was never started"
    );
    assert_eq!(turn.cancelled_children[0].instance, "sub::2");
    assert_eq!(turn.cancelled_children[0].reason, "parent canceled");
    assert_eq!(detached(&turn), 1);
    assert!(
        reasons(&turn).contains(&"ActivityCancelRequested orchestration_terminal_failed".into())
    );
}

#[test]
fn cancellation_wins_over_whatever_the_code_decides_in_that_turn() {
    for how in ["ok", "err", "again", "panic"] {
        let turn = end_with(vec![signal("end", how), cancel("first"), cancel("second")]);
        assert_eq!(failure(&turn), "canceled: first");
        let requests = kinds(&turn.events);
        let requests = requests
            .iter()
            .filter(|k| **k == "OrchestrationCancelRequested");
        assert_eq!(requests.count(), 1);
    }
}

#[test]
fn a_failure_that_came_before_the_request_to_cancel_stands() {
    let misfit = completed(99, "");
    let turn = end_with(vec![misfit.clone(), cancel("stop")]);
    assert!(failure(&turn).starts_with("nondeterministic"));
    let turn = end_with(vec![cancel("stop"), misfit]);
    assert_eq!(failure(&turn), "canceled: stop");
}

#[test]
fn continue_as_new_wins_over_a_returned_value_and_the_first_one_counts() {
    let mut world = World::of(|ctx, _| async move {
        let _first = ctx.continue_as_new_versioned("2.0.0", "first");
        let _second = ctx.continue_as_new("second");
        Ok("returned".into())
    });
    let turn = world.turn(vec![]);
    let Outcome::ContinuedAsNew { input, version, .. } = turn.outcome else {
        panic!("{:?}", turn.outcome)
    };
    assert_eq!(
        (input.as_str(), version.as_deref()),
        ("first", Some("2.0.0"))
    );
}

#[test]
fn unread_queue_messages_cross_into_the_next_execution_oldest_first_and_none_is_lost() {
    let mut world = World::of(|ctx, input| async move {
        if input == "next" {
            let mut read = Vec::new();
            for _ in 0..600 {
                read.push(ctx.dequeue_event("a").await);
            }
            read.push(ctx.dequeue_event("a").await);
            read.push(ctx.dequeue_event("b").await);
            return Ok(read.join(","));
        }
        ctx.dequeue_event("b").await;
        ctx.continue_as_new("next").await
    });
    let messages = (0..600).flat_map(|n| {
        [
            queue_message("b", &format!("b{n}")),
            queue_message("a", &format!("a{n}")),
        ]
    });
    let turn = world.turn(messages.collect());
    let Outcome::ContinuedAsNew { carried, .. } = &turn.outcome else {
        panic!("{:?}", turn.outcome)
    };
    assert_eq!(carried.len(), 1_199);
    assert_eq!(carried[0], ("a".to_owned(), "a0".to_owned()));
    assert_eq!(carried[1], ("b".to_owned(), "b1".to_owned()));
    assert_eq!(carried[99], ("b".to_owned(), "b50".to_owned()));

    assert_eq!(turn.notes.unused, []);

    let turn = world.turn(vec![queue_message("a", "newer")]);
    let all: String = (0..600).map(|n| format!("a{n},")).collect();
    assert_eq!(output(&turn), format!("{all}newer,b1"));
    assert_eq!(
        kinds(&turn.events)[..2],
        ["OrchestrationStarted", "ExternalEventPersistent"]
    );
}

#[test]
fn custom_status_and_key_values_cross_into_the_next_execution_and_signals_do_not() {
    let mut world = World::of(|ctx, input| async move {
        if input == "next" {
            let status = ctx.get_custom_status();
            let count = ctx.get_kv_value("count");
            let signal = ctx.schedule_wait("s").await;
            return Ok(format!("{status:?} {count:?} {signal}"));
        }
        ctx.set_custom_status("half way");
        ctx.set_kv_value("count", "7");
        ctx.continue_as_new("next").await
    });
    world.turn(vec![signal("s", "of the first execution")]);
    let turn = world.turn(vec![]);
    assert_eq!(turn.outcome, Outcome::Waiting);
    assert_eq!(
        kinds(&turn.events),
        ["OrchestrationStarted", "ExternalSubscribed"]
    );
    let turn = world.replayed_turn(vec![signal("s", "v")]);
    assert_eq!(output(&turn), "Some(\"half way\") Some(\"7\") v");
}

#[test]
fn generated_child_ids_differ_between_executions() {
    let mut world = World::of(|ctx, input| async move {
        let child = ctx.schedule_sub_orchestration("C", "");
        if input.is_empty() {
            return ctx.continue_as_new("next").await;
        }
        child.await
    });
    let turn = world.turn(vec![]);
    assert!(
        turn.actions.is_empty(),
        "a child of a turn that continues as new is never started"
    );
    assert!(turn.cancelled_children.is_empty());
    let turn = world.turn(vec![]);
    let [Action::StartSubOrchestration { instance, .. }] = &turn.actions[..] else {
        panic!("{:?}", turn.actions)
    };
    assert_eq!(instance, "sub::2_2");
    let stale = world.turn(vec![child_completed(2, "of the first execution")]);
    assert!(stale.events.is_empty());
    let turn = world.turn(vec![in_execution(2, child_completed(2, "r"))]);
    assert_eq!(output(&turn), "r");
}

#[test]
fn a_detached_start_of_an_earlier_poll_survives_a_panic_of_a_later_one() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_orchestration("D", "d", "");
        ctx.new_guid().await?;
        panic!("after it was recorded")
    });
    let turn = world.turn(vec![]);
    assert!(failure(&turn).contains("after it was recorded"));
    assert_eq!(detached(&turn), 1, "what is recorded is sent");
}

#[test]
fn reserved_ids_are_refused_where_they_are_chosen() {
    let mut world = World::of(|ctx, _| async move {
        let refused = ctx
            .schedule_sub_orchestration_with_id("C", "sub::9", "")
            .await;
        refused.map_err(|e| format!("refused: {e}"))
    });
    let turn = world.turn(vec![]);
    assert!(failure(&turn).starts_with("refused: sub-orchestration instance id 'sub::9'"));
    assert_eq!(
        kinds(&turn.events),
        ["OrchestrationStarted", "OrchestrationFailed"]
    );
    for id in ["sub::9", "a::sub::9"] {
        let mut world = World::of(move |ctx, _| async move {
            ctx.schedule_orchestration("D", id, "");
            Ok(String::new())
        });
        let text = failure(&world.turn(vec![]));
        assert!(text.contains("reserved sub-orchestration marker"), "{text}");
    }
}

#[test]
fn a_timer_beyond_the_end_of_time_is_cut_there() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_timer(Duration::MAX).await;
        Ok("woke".into())
    });
    let turn = world.turn(vec![]);
    let [Action::CreateTimer { fire_at_ms, .. }] = turn.actions[..] else {
        panic!("{:?}", turn.actions)
    };
    assert_eq!(fire_at_ms, i64::MAX as u64);
    assert_eq!(output(&world.turn(vec![fired(2)])), "woke");
}

#[test]
fn ids_of_children_and_detached_starts_are_checked_as_those_of_clients() {
    let long = "x".repeat(1_025);
    let too_long = "instance id size (1025 bytes) exceeds limit (1024 bytes)";
    for (id, text) in [
        ("", "instance id must not be empty"),
        (long.as_str(), too_long),
    ] {
        let mut world = World::of(|ctx, id| async move {
            ctx.schedule_sub_orchestration_with_id("C", id, "").await
        });
        world = world.input(id);
        assert_eq!(failure(&world.turn(vec![])), text);
        assert_eq!(
            world.kinds(),
            ["OrchestrationStarted", "OrchestrationFailed"]
        );

        let mut world = World::of(|ctx, id| async move {
            ctx.schedule_orchestration("D", id, "");
            Ok(String::new())
        });
        world = world.input(id);
        assert!(failure(&world.turn(vec![])).ends_with(text));
        assert_eq!(
            world.kinds(),
            ["OrchestrationStarted", "OrchestrationFailed"]
        );
    }
}

#[test]
fn an_id_that_an_earlier_engine_recorded_is_replayed() {
    let mut world =
        World::of(
            |ctx, _| async move { ctx.schedule_sub_orchestration_with_id("C", "", "").await },
        );
    let scheduled = EventKind::SubOrchestrationScheduled {
        name: "C".into(),
        instance: String::new(),
        input: String::new(),
    };
    world.history = History::started("").with(scheduled).events();
    for event in &mut world.history {
        event.duroxide_version = "0.1.32".into();
    }
    assert_eq!(output(&world.turn(vec![child_completed(2, "r")])), "r");
}
