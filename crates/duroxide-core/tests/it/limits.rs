//! Limits: exactly the limit is accepted, one more fails the orchestration, and nothing that broke it is stored.

use duroxide_core::OrchestrationContext;
use duroxide_core::limits::{
    MAX_CUSTOM_STATUS_BYTES, MAX_KV_KEYS, MAX_KV_VALUE_BYTES, MAX_TAG_NAME_BYTES,
};
use duroxide_core::replay::{Outcome, TurnLimits};

use crate::history::{completed, queue_message, signal};
use crate::world::{World, failure, kinds};

/// A decision about a text.
type Decide = fn(&OrchestrationContext, String);

/// Runs one decision that may break a limit, after which the code would complete.
fn decide(size: usize, decide: Decide) -> World {
    World::of(move |ctx, _| async move {
        decide(&ctx, "x".repeat(size));
        Ok("done".into())
    })
}

fn check_limit(max: usize, run: Decide, text: &str) {
    let mut world = decide(max, run);
    let turn = world.turn(vec![]);
    assert!(
        matches!(turn.outcome, Outcome::Completed { .. }),
        "exactly the limit is accepted"
    );
    let mut world = decide(max + 1, run);
    let turn = world.turn(vec![]);
    assert_eq!(failure(&turn), text);
    assert_eq!(
        world.kinds(),
        ["OrchestrationStarted", "OrchestrationFailed"]
    );
    assert!(turn.actions.is_empty());
}

#[test]
fn a_custom_status_may_be_as_large_as_its_limit() {
    check_limit(
        MAX_CUSTOM_STATUS_BYTES,
        |ctx, text| ctx.set_custom_status(text),
        "Custom status size (262145 bytes) exceeds limit (262144 bytes)",
    );
}

#[test]
fn a_large_status_breaks_the_limit_also_when_a_small_one_follows() {
    check_limit(
        MAX_CUSTOM_STATUS_BYTES,
        |ctx, text| {
            ctx.set_custom_status(text);
            ctx.set_custom_status("small");
        },
        "Custom status size (262145 bytes) exceeds limit (262144 bytes)",
    );
}

#[test]
fn a_tag_may_be_as_long_as_its_limit() {
    check_limit(
        MAX_TAG_NAME_BYTES,
        |ctx, text| drop(ctx.schedule_activity("A", "").with_tag(text)),
        "Activity 'A' tag size (257 bytes) exceeds limit (256 bytes)",
    );
}

#[test]
fn a_value_may_be_as_large_as_its_limit() {
    check_limit(
        MAX_KV_VALUE_BYTES,
        |ctx, text| ctx.set_kv_value("k", text),
        "KV value for key 'k' (65537 bytes) exceeds limit (65536 bytes)",
    );
}

#[test]
fn payloads_may_be_as_large_as_the_configured_limit() {
    let cases: [(Decide, &str); 4] = [
        (
            |ctx, text| drop(ctx.schedule_activity("A", text)),
            "Activity 'A' input size (101 bytes) exceeds limit (100 bytes)",
        ),
        (
            |ctx, text| drop(ctx.schedule_sub_orchestration("C", text)),
            "Sub-orchestration 'C' input size (101 bytes) exceeds limit (100 bytes)",
        ),
        (
            |ctx, text| ctx.schedule_orchestration("D", "d", text),
            "Orchestration 'D' input size (101 bytes) exceeds limit (100 bytes)",
        ),
        (
            |ctx, text| drop(ctx.continue_as_new(text)),
            "Continue-as-new input size (101 bytes) exceeds limit (100 bytes)",
        ),
    ];
    for (run, text) in cases {
        let mut world = decide(100, run);
        world.limits.payload_bytes_max = 100;
        let turn = world.turn(vec![]);
        assert!(!matches!(turn.outcome, Outcome::Failed { .. }), "{text}");
        let mut world = decide(101, run);
        world.limits.payload_bytes_max = 100;
        let turn = world.turn(vec![]);
        assert_eq!(failure(&turn), text);
        assert!(turn.actions.is_empty());
    }
}

#[test]
fn outputs_and_error_texts_obey_the_payload_limit() {
    for (ok, what) in [(true, "output"), (false, "error")] {
        let mut world = World::of(move |_, _| async move {
            let text = "x".repeat(101);
            if ok { Ok(text) } else { Err(text) }
        });
        world.limits.payload_bytes_max = 100;
        let turn = world.turn(vec![]);
        let text = format!("Orchestration {what} size (101 bytes) exceeds limit (100 bytes)");
        assert_eq!(failure(&turn), text);
    }
}

#[test]
fn keys_are_counted_over_all_turns() {
    let mut world = World::of(|ctx, _| async move {
        for turn in 0..2 {
            for key in 0..100 {
                ctx.set_kv_value(format!("{turn}-{key}"), "");
            }
            ctx.schedule_wait("next").await;
        }
        Ok(String::new())
    });
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![signal("next", "")]);
    assert_eq!(failure(&turn), "KV key count (200) exceeds limit (150)");
    assert_eq!(
        kinds(&turn.events),
        ["ExternalEvent", "OrchestrationFailed"],
        "the keys that broke the limit are not stored"
    );
}

#[test]
fn as_many_keys_as_the_limit_are_accepted_and_cleared_ones_do_not_count() {
    let mut world = World::of(|ctx, _| async move {
        for key in 0..200 {
            ctx.set_kv_value(format!("a{key}"), "");
        }
        ctx.clear_all_kv_values();
        for key in 0..MAX_KV_KEYS {
            ctx.set_kv_value(format!("b{key}"), "");
        }
        Ok(String::new())
    });
    let turn = world.turn(vec![]);
    assert!(matches!(turn.outcome, Outcome::Completed { .. }));
}

#[test]
fn a_broken_limit_leaves_one_terminal_event_and_takes_the_turns_decisions_back() {
    let mut world = World::of(|ctx, _| async move {
        let child = ctx.schedule_sub_orchestration("C", "");
        let work = ctx.schedule_activity("A", "");
        ctx.schedule_wait("go").await;
        ctx.set_kv_value("fine", "1");
        ctx.schedule_orchestration("D", "d", "");
        ctx.new_guid().await?;
        ctx.set_custom_status("x".repeat(MAX_CUSTOM_STATUS_BYTES + 1));
        drop((child, work));
        Ok("done".into())
    })
    .child_of("parent", 7);
    world.turn(vec![]);
    let turn = world.replayed_turn(vec![queue_message("q", "kept"), signal("go", "")]);
    assert!(failure(&turn).starts_with("Custom status size"));
    assert_eq!(
        kinds(&turn.events),
        [
            "ExternalEventPersistent",
            "ExternalEvent",
            "ActivityCancelRequested",
            "SubOrchestrationCancelRequested",
            "OrchestrationFailed"
        ]
    );
    assert!(turn.actions.is_empty());
    assert_eq!(turn.cancelled_activities, [3]);
    assert_eq!(turn.cancelled_children[0].instance, "sub::2");
    assert_eq!(turn.cancelled_children[0].reason, "parent failed");
}

#[test]
fn the_parent_of_an_execution_that_broke_a_limit_is_known() {
    use duroxide_core::replay::Execution;
    let handler = crate::world::handler(|ctx, _| async move {
        ctx.set_kv_value("k", "x".repeat(MAX_KV_VALUE_BYTES + 1));
        Ok(String::new())
    });
    let mut world = World::with_handler(handler.clone()).child_of("parent", 7);
    world.turn(vec![]);
    let ended = Execution::load(&world.history, handler, Default::default()).unwrap();
    assert!(ended.has_ended());
    let parent = ended.parent().unwrap();
    assert_eq!((parent.instance.as_str(), parent.id), ("parent", 7));
}

#[test]
fn the_first_broken_limit_in_the_documented_order_is_reported() {
    let mut world = World::of(|ctx, _| async move {
        ctx.set_kv_value("k", "x".repeat(MAX_KV_VALUE_BYTES + 1));
        let _work = ctx.schedule_activity("A", "").with_tag("t".repeat(300));
        ctx.set_custom_status("x".repeat(MAX_CUSTOM_STATUS_BYTES + 1));
        Ok(String::new())
    });
    assert!(failure(&world.turn(vec![])).starts_with("Custom status size"));
}

#[test]
fn a_history_that_grows_beyond_its_limit_fails_with_advice() {
    let mut world = World::of(|ctx, _| async move {
        loop {
            ctx.schedule_activity("A", "").await?;
        }
    });
    world.limits = TurnLimits {
        history_events_max: Some(7),
        ..TurnLimits::default()
    };
    world.turn(vec![]);
    for id in [2, 4] {
        assert_eq!(
            world.turn(vec![completed(id, "")]).outcome,
            Outcome::Waiting
        );
    }
    let turn = world.turn(vec![completed(6, "")]);
    assert!(
        failure(&turn).contains("use continue_as_new"),
        "{}",
        failure(&turn)
    );
}
