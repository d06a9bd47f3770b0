//! How messages are batched does not decide which signals arrive.

use duroxide_core::replay::Unused;
use duroxide_core::{OrchestrationContext, WorkItem};

use crate::history::{completed, queue_message, signal};
use crate::world::{World, kinds, output};

/// Takes what comes first, again and again.
fn collector(rounds: usize) -> World {
    World::of(move |ctx, _| async move {
        let mut got = Vec::new();
        for _ in 0..rounds {
            let (a, b) = (ctx.schedule_wait("a"), ctx.schedule_wait("b"));
            let (_, data) = ctx.select2(a, b).await.into_tuple();
            got.push(data);
        }
        Ok(got.join(","))
    })
}

fn signals() -> Vec<WorkItem> {
    let names = ["a", "b", "b", "a", "b"];
    let numbered = names.iter().enumerate();
    numbered
        .map(|(n, name)| signal(name, &format!("{name}{n}")))
        .collect()
}

#[test]
fn signals_of_one_batch_are_not_fewer_than_those_of_several() {
    // Every way to cut the signals into batches, the first of them together with the start or not.
    for cuts in 0..64_u32 {
        for replay in [false, true] {
            let mut world = collector(5);
            let mut batch = Vec::new();
            let mut last = None;
            let mut turn = |world: &mut World, batch: &mut Vec<WorkItem>| {
                if replay {
                    world.forget();
                }
                last = Some(world.turn(std::mem::take(batch)));
            };
            for (place, message) in signals().into_iter().enumerate() {
                if cuts >> place & 1 == 1 {
                    turn(&mut world, &mut batch);
                }
                batch.push(message);
            }
            turn(&mut world, &mut batch);
            let last = last.expect("a turn");
            assert_eq!(output(&last), "a0,b1,b2,a3,b4", "cuts {cuts:b}");
        }
    }
}

#[test]
fn a_signal_finds_a_wait_that_a_completion_of_the_same_batch_led_to() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_activity("ask", "").await?;
        Ok(ctx.schedule_wait("answer").await)
    });
    world.turn(vec![]);
    let turn = world.turn(vec![completed(2, ""), signal("answer", "yes")]);
    assert_eq!(output(&turn), "yes");
    assert_eq!(
        kinds(&turn.events),
        [
            "ActivityCompleted",
            "ExternalSubscribed",
            "ExternalEvent",
            "OrchestrationCompleted"
        ],
        "the wait is recorded before its signal, as if they had come one after the other"
    );
}

#[test]
fn a_signal_finds_a_wait_that_comes_after_a_question_to_the_host_and_a_queue_message() {
    let code = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("ask", "").await?;
        ctx.new_guid().await?;
        ctx.dequeue_event("q").await;
        ctx.utc_now().await?;
        Ok(ctx.schedule_wait("answer").await)
    };
    let messages = [
        queue_message("q", ""),
        completed(2, ""),
        signal("answer", "yes"),
    ];
    for cut in 0..=messages.len() {
        let mut world = World::of(code);
        world.turn(vec![]);
        let (one, two) = messages.split_at(cut);
        let first = world.turn(one.to_vec());
        let last = if cut == messages.len() {
            first
        } else {
            world.turn(two.to_vec())
        };
        assert_eq!(output(&last), "yes", "cut {cut}");
    }
}

#[test]
fn a_signal_that_comes_before_the_code_asks_for_it_is_lost_and_noted() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_activity("ask", "").await?;
        Ok(ctx.schedule_wait("answer").await)
    });
    world.turn(vec![]);
    let turn = world.turn(vec![signal("answer", "early"), completed(2, "")]);
    assert_eq!(turn.notes.unused, [Unused::NobodyWaits]);
    assert_eq!(
        output(&world.turn(vec![signal("answer", "in time")])),
        "in time"
    );
}

#[test]
fn a_wait_that_was_dropped_before_it_was_recorded_takes_no_signal() {
    let mut world = World::of(|ctx, _| async move {
        drop(ctx.schedule_wait("a"));
        ctx.dequeue_event("q").await;
        Ok(ctx.schedule_wait("a").await)
    });
    let turn = world.turn(vec![signal("a", "early"), queue_message("q", "")]);
    assert_eq!(turn.notes.unused, [Unused::NobodyWaits]);
    assert_eq!(
        output(&world.replayed_turn(vec![signal("a", "in time")])),
        "in time"
    );
}

#[test]
fn a_broken_limit_takes_the_decisions_between_two_signals_back() {
    let mut world = World::of(|ctx, _| async move {
        ctx.schedule_wait("a").await;
        let _work = ctx.schedule_activity("A", "");
        ctx.schedule_wait("b").await;
        ctx.set_kv_value("k", "x".repeat(70_000));
        ctx.schedule_wait("c").await;
        Ok(String::new())
    });
    world.turn(vec![]);
    let turn = world.turn(vec![signal("a", ""), signal("b", ""), signal("c", "")]);
    assert_eq!(
        kinds(&turn.events),
        [
            "ExternalEvent",
            "ExternalEvent",
            "ExternalEvent",
            "OrchestrationFailed"
        ]
    );
    assert!(turn.actions.is_empty() && turn.cancelled_activities.is_empty());
}
