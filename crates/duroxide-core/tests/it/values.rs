//! Key-values, custom status and typed payloads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duroxide_core::{Action, EventKind, OrchestrationContext};
use serde::{Deserialize, Serialize};

use crate::history::{EPOCH_MS, child_completed, completed, queue_message, signal};
use crate::world::{World, failure, handler, kinds, output};

#[derive(Debug, Serialize, Deserialize)]
struct Point {
    x: i32,
}

#[test]
fn a_counter_in_the_key_value_store_counts_each_turn_once_also_when_replayed() {
    let mut world = World::of(|ctx, _| async move {
        for _ in 0..20 {
            let n: u32 = ctx.get_kv_value_typed("n")?.unwrap_or(0);
            ctx.set_kv_value_typed("n", &(n + 1));
            ctx.schedule_wait("next").await;
        }
        Ok(ctx.get_kv_value("n").unwrap())
    });
    world.turn(vec![]);
    for _ in 0..19 {
        world.replayed_turn(vec![signal("next", "")]);
    }
    assert_eq!(output(&world.replayed_turn(vec![signal("next", "")])), "20");
}

#[test]
fn pruning_decides_by_the_recorded_times() {
    let mut world = World::of(|ctx, _| async move {
        ctx.set_kv_value("old", "1");
        ctx.schedule_wait("next").await;
        ctx.set_kv_value("new", "2");
        let pruned = ctx.prune_kv_values_updated_before(EPOCH_MS + 1_500);
        ctx.schedule_wait("end").await;
        Ok(format!("{pruned} {:?}", ctx.get_kv_all_keys()))
    });
    world.turn(vec![]);
    world.replayed_turn(vec![signal("next", "")]);
    for _ in 0..5 {
        world.replayed_turn(vec![]);
    }
    let turn = world.replayed_turn(vec![signal("end", "")]);
    assert_eq!(output(&turn), "1 [\"new\"]");
}

#[test]
fn stamps_are_taken_from_the_history_also_when_they_differ_from_the_times_of_its_events() {
    let mut world = World::of(|ctx, _| async move {
        ctx.set_kv_value("k", "1");
        ctx.schedule_wait("next").await;
        Ok(ctx.prune_kv_values_updated_before(EPOCH_MS).to_string())
    });
    world.turn(vec![]);
    let EventKind::KeyValueSet {
        last_updated_at_ms, ..
    } = &mut world.history[1].kind
    else {
        panic!("{:?}", world.history[1])
    };
    *last_updated_at_ms = 5;
    assert_eq!(output(&world.replayed_turn(vec![signal("next", "")])), "1");
}

#[test]
fn keys_of_this_turn_can_be_pruned_and_removals_are_recorded_by_key() {
    let mut world = World::of(|ctx, _| async move {
        for key in ["b", "c", "a"] {
            ctx.set_kv_value(key, "");
        }
        ctx.clear_kv_value("absent");
        Ok(ctx.prune_kv_values_updated_before(u64::MAX).to_string())
    });
    let turn = world.turn(vec![]);
    assert_eq!(output(&turn), "3");
    let cleared: Vec<_> = turn
        .events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::KeyValueCleared { key } => Some(key.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(cleared, ["absent", "a", "b", "c"]);
}

#[test]
fn a_status_is_recorded_each_time_it_is_set_and_can_be_read_back() {
    let mut world = World::of(|ctx, _| async move {
        ctx.set_custom_status("one");
        ctx.set_custom_status("one");
        let seen = ctx.get_custom_status();
        ctx.reset_custom_status();
        Ok(format!("{seen:?} {:?}", ctx.get_custom_status()))
    });
    let turn = world.turn(vec![]);
    assert_eq!(output(&turn), "Some(\"one\") None");
    let updates = kinds(&turn.events)
        .iter()
        .filter(|k| **k == "CustomStatusUpdated")
        .count();
    assert_eq!(updates, 3);
}

#[test]
fn a_payload_that_does_not_decode_is_a_value_for_the_try_variants() {
    let mut world = World::of(|ctx, _| async move {
        let wait = ctx.try_schedule_wait_typed::<Point>("s").await.map(|p| p.x);
        let read = ctx.try_dequeue_event_typed::<Point>("q").await.map(|p| p.x);
        let good = ctx.try_dequeue_event_typed::<Point>("q").await.map(|p| p.x);
        Ok(format!("{} {} {good:?}", wait.is_err(), read.is_err()))
    });
    world.turn(vec![
        queue_message("q", "garbage"),
        queue_message("q", "{\"x\":4}"),
    ]);
    assert_eq!(
        output(&world.turn(vec![signal("s", "garbage")])),
        "true true Ok(4)"
    );
}

#[test]
fn a_payload_that_does_not_decode_panics_the_plain_variants_and_nothing_else() {
    let mut world = World::of(|ctx, _| async move {
        let point: Point = ctx.schedule_wait_typed("s").await;
        Ok(point.x.to_string())
    });
    world.turn(vec![]);
    let text = failure(&world.turn(vec![signal("s", "{\"x\":oops}")]));
    assert!(
        text.starts_with("orchestration panicked: decode: "),
        "{text}"
    );
    assert!(
        text.contains("line 1"),
        "the position in the JSON is named: {text}"
    );
}

#[test]
fn typed_strings_come_back_as_they_were() {
    let mut world = World::of(|ctx, _| async move {
        let text: String = ctx.schedule_activity_typed("A", &"\"quoted\"").await?;
        let point: Point = ctx.schedule_activity_typed("B", &Point { x: 4 }).await?;
        Ok(format!("{text} {}", point.x))
    });
    let turn = world.turn(vec![]);
    assert!(
        matches!(&turn.actions[..], [Action::CallActivity { input, .. }] if input == "\"quoted\"")
    );
    let turn = world.turn(vec![completed(2, "\"quoted\"")]);
    assert!(
        matches!(&turn.actions[..], [Action::CallActivity { input, .. }] if input == "{\"x\":4}")
    );
    assert_eq!(
        output(&world.turn(vec![completed(4, "{\"x\":5}")])),
        "\"quoted\" 5"
    );
}

#[test]
fn a_typed_child_can_have_a_version_and_an_id() {
    let mut world = World::of(|ctx, _| async move {
        let version = || Some("2.0.0".to_owned());
        let a = ctx.schedule_sub_orchestration_versioned_typed::<_, Point>("C", version(), &1);
        let b = ctx.schedule_sub_orchestration_versioned_with_id_typed::<_, Point>(
            "C",
            version(),
            "mine",
            &2,
        );
        let (a, b) = ctx.join2(a, b).await;
        Ok(format!("{} {}", a?.x, b?.x))
    });
    let turn = world.turn(vec![]);
    let started: Vec<_> = turn
        .actions
        .iter()
        .map(|action| match action {
            Action::StartSubOrchestration {
                instance, version, ..
            } => (instance.as_str(), version.as_deref()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        started,
        [("sub::2", Some("2.0.0")), ("mine", Some("2.0.0"))]
    );
    let both = vec![
        child_completed(2, "{\"x\":7}"),
        child_completed(3, "{\"x\":8}"),
    ];
    assert_eq!(output(&world.turn(both)), "7 8");
}

#[test]
fn code_after_a_completion_runs_once_without_replaying() {
    let live = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&live);
    let mut world = World::of(move |ctx, _| {
        let seen = Arc::clone(&seen);
        async move {
            let note = |ctx: &duroxide_core::OrchestrationContext| {
                assert_eq!(ctx.is_logging_enabled(), !ctx.is_replaying());
                seen.fetch_add(usize::from(!ctx.is_replaying()), Ordering::Relaxed);
            };
            note(&ctx);
            let (a, b) = (
                ctx.schedule_activity("A", ""),
                ctx.schedule_activity("B", ""),
            );
            a.await?;
            note(&ctx);
            b.await?;
            note(&ctx);
            Ok(String::new())
        }
    });
    world.turn(vec![]);
    assert_eq!(live.load(Ordering::Relaxed), 1);
    world.replayed_turn(vec![completed(2, "")]);
    assert_eq!(live.load(Ordering::Relaxed), 2);
    world.replayed_turn(vec![]);
    world.replayed_turn(vec![]);
    assert_eq!(live.load(Ordering::Relaxed), 2, "a replay repeats nothing");
    world.replayed_turn(vec![completed(3, "")]);
    assert_eq!(live.load(Ordering::Relaxed), 3);
}

/// Sets a map whose order differs in every execution, hands it on, and reads it back.
async fn unordered(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let prices: HashMap<String, u32> = (0..20).map(|n| (format!("shop-{n}"), n)).collect();
    // Written by hand, so that nothing has sorted it.
    let text = serde_json::to_string(&prices).map_err(|e| e.to_string())?;
    ctx.set_kv_value("text", text.as_str());
    ctx.set_kv_value_typed("prices", &prices);
    ctx.schedule_activity("store", text.as_str()).await?;
    ctx.schedule_sub_orchestration("child", text.as_str())
        .await?;
    ctx.schedule_orchestration("audit", "audit-1", text);
    ctx.schedule_wait("end").await;
    Ok(ctx.get_kv_value("text").unwrap_or_default())
}

#[test]
fn a_value_that_is_written_in_another_order_is_the_same_value_in_replay() {
    let mut world = World::of(unordered);
    world.turn(vec![]);
    let recorded = match &world.history[1].kind {
        EventKind::KeyValueSet { value, .. } => value.clone(),
        other => panic!("not a key: {other:?}"),
    };
    world.replayed_turn(vec![completed(4, "")]);
    world.replayed_turn(vec![child_completed(6, "")]);
    let turn = world.replayed_turn(vec![signal("end", "")]);
    assert_eq!(output(&turn), recorded, "the code reads what is recorded");
}

#[test]
fn another_value_is_still_noticed() {
    let write = |value: &'static str| {
        handler(move |ctx: OrchestrationContext, _: String| async move {
            ctx.set_kv_value("k", value);
            ctx.schedule_wait("end").await;
            Ok(String::new())
        })
    };
    let mut world = World::with_handler(write(r#"{"a":9007199254740993}"#));
    world.turn(vec![]);
    world.redeploy(write(r#"{"a":9007199254740992}"#));
    let divergence = world.try_turn(vec![]).expect_err("another number");
    assert_eq!(divergence.headline, "kv set mismatch");
    world.redeploy(write(r#"{ "a": 9007199254740993 }"#));
    world.turn(vec![]);
}

#[test]
fn all_keys_and_values_can_be_had_in_order() {
    let mut world = World::of(|ctx: OrchestrationContext, _: String| async move {
        for key in ["b", "c", "a"] {
            ctx.set_kv_value(key, key.to_uppercase());
        }
        let pairs = ctx.get_kv_all_sorted();
        Ok(pairs.into_iter().map(|(k, v)| k + &v).collect())
    });
    assert_eq!(output(&world.turn(vec![])), "aAbBcC");
}
