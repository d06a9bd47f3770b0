//! Children: their ids, their results, and ids that are taken.

use std::time::Duration;

use duroxide::{ErrorDetails, EventKind, OrchestrationContext};

use crate::support::{
    World, activities, details, failure, in_memory, orchestrations, output, quick, until,
};

async fn whoami(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    Ok(format!("{} {input}", ctx.instance_id()))
}

#[tokio::test]
async fn children_get_ids_from_their_parent_its_execution_and_their_event() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("child", whoami)
            .register("middle", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_sub_orchestration("child", "").await
            })
            .register(
                "parent",
                |ctx: OrchestrationContext, input: String| async move {
                    let auto = ctx.schedule_sub_orchestration("child", "").await?;
                    let chosen = ctx
                        .schedule_sub_orchestration_with_id("child", format!("chosen-{input}"), "")
                        .await?;
                    let nested = ctx.schedule_sub_orchestration("middle", "").await?;
                    if input == "1" {
                        return ctx.continue_as_new("2").await;
                    }
                    Ok(format!("{auto}| {chosen}| {nested}"))
                },
            )
            .build(),
    )
    .await;
    let status = world.run("p", "parent", "1").await;
    assert_eq!(
        output(&status),
        "p::sub::2_2 | chosen-2 | p::sub::2_6::sub::2 "
    );
    let tree = world.client.get_instance_tree("p").await.unwrap();
    let mut ids = tree.all_ids;
    ids.sort();
    let expected = [
        "chosen-1",
        "chosen-2",
        "p",
        "p::sub::2",
        "p::sub::2_2",
        "p::sub::2_6",
        "p::sub::2_6::sub::2",
        "p::sub::6",
        "p::sub::6::sub::2",
    ];
    assert_eq!(ids, expected);
    world.stop().await;
}

#[tokio::test]
async fn a_failed_child_is_an_error_its_parent_can_handle() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("fails", |_: OrchestrationContext, _| async {
                Err("no".to_owned())
            })
            .register("panics", |_: OrchestrationContext, _| async {
                panic!("oh")
            })
            .register("parent", |ctx: OrchestrationContext, _| async move {
                let failed = ctx.schedule_sub_orchestration("fails", "").await;
                let panicked = ctx.schedule_sub_orchestration("panics", "").await;
                let reserved = ctx
                    .schedule_sub_orchestration_with_id("fails", "sub::x", "")
                    .await;
                Ok(format!("{failed:?} {panicked:?} {}", reserved.unwrap_err()))
            })
            .build(),
    )
    .await;
    let status = world.run("p", "parent", "").await;
    let text = output(&status);
    assert!(
        text.starts_with("Err(\"no\") Err(\"orchestration panicked: oh\") sub-orchestration instance id 'sub::x' starts with the reserved marker"),
        "{text}"
    );
    world.stop().await;
}

#[tokio::test]
async fn an_id_that_is_taken_is_an_error_for_the_parent_and_never_a_hang() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("child", whoami)
            .register("waits", |ctx: OrchestrationContext, _| async move {
                Ok(ctx.schedule_wait("go").await)
            })
            .register(
                "parent",
                |ctx: OrchestrationContext, id: String| async move {
                    let taken = ctx
                        .schedule_sub_orchestration_with_id("child", id, "")
                        .await;
                    Ok(taken.unwrap_err())
                },
            )
            .register("twice", |ctx: OrchestrationContext, _| async move {
                let one = ctx.schedule_sub_orchestration_with_id("waits", "same", "");
                let two = ctx.schedule_sub_orchestration_with_id("waits", "same", "");
                let (second, _) = ctx.join2(two, ctx.schedule_wait("seen")).await;
                drop(one);
                Ok(second.unwrap_err())
            })
            .build(),
    )
    .await;
    assert_eq!(output(&world.run("ended", "child", "").await), "ended ");
    let status = world.run("p1", "parent", "ended").await;
    assert_eq!(
        output(&status),
        "sub-orchestration instance id 'ended' already exists and is terminal"
    );

    world.begin("running", "waits", "").await;
    world.waits_for("running", "go").await;
    let status = world.run("p2", "parent", "running").await;
    assert_eq!(
        output(&status),
        "sub-orchestration instance id 'running' already exists"
    );

    // Two children of one parent under one id: the second is told.
    world.begin("p3", "twice", "").await;
    world.waits_for("p3", "seen").await;
    world.raise("p3", "seen", "").await;
    let status = world.outcome("p3").await;
    assert_eq!(
        output(&status),
        "sub-orchestration instance id 'same' already exists"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_child_that_continues_as_new_still_answers_its_parent() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register(
                "child",
                |ctx: OrchestrationContext, left: String| async move {
                    match left.parse::<u32>().unwrap() {
                        0 => Ok(format!("after {} executions", ctx.execution_id())),
                        left => ctx.continue_as_new((left - 1).to_string()).await,
                    }
                },
            )
            .register(
                "parent",
                |ctx: OrchestrationContext, left: String| async move {
                    ctx.schedule_sub_orchestration("child", left).await
                },
            )
            .build(),
    )
    .await;
    for left in 0..4 {
        let status = world
            .run(&format!("p{left}"), "parent", &left.to_string())
            .await;
        assert_eq!(output(&status), format!("after {} executions", left + 1));
    }
    world.stop().await;
}

#[tokio::test]
async fn typed_children_can_be_versioned() {
    let child = |by: u32| move |_: OrchestrationContext, n: u32| async move { Ok(n * by) };
    let world = World::start(
        activities().build(),
        orchestrations()
            .register_versioned_typed("times", "1.0.0", child(10))
            .register_versioned_typed("times", "2.0.0", child(100))
            .register("parent", |ctx: OrchestrationContext, _| async move {
                let old = Some("1.0.0".to_owned());
                let one: u32 = ctx
                    .schedule_sub_orchestration_versioned_typed("times", old.clone(), &1)
                    .await?;
                let two: u32 = ctx
                    .schedule_sub_orchestration_versioned_with_id_typed("times", old, "two", &2)
                    .await?;
                let three: u32 = ctx.schedule_sub_orchestration_typed("times", &3).await?;
                let four = ctx
                    .schedule_sub_orchestration_versioned("times", Some("1.0.0".into()), "4")
                    .await?;
                Ok(format!("{one} {two} {three} {four}"))
            })
            .build(),
    )
    .await;
    assert_eq!(output(&world.run("p", "parent", "").await), "10 20 300 40");
    world.stop().await;
}

#[tokio::test]
async fn a_child_that_fails_on_a_limit_tells_its_parent() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("child", |ctx: OrchestrationContext, _| async move {
                ctx.set_custom_status("x".repeat(300_000));
                Ok("never".to_owned())
            })
            .register("parent", |ctx: OrchestrationContext, _| async move {
                Ok(ctx
                    .schedule_sub_orchestration("child", "")
                    .await
                    .unwrap_err())
            })
            .build(),
    )
    .await;
    let status = world.run("p", "parent", "").await;
    assert_eq!(
        output(&status),
        "Custom status size (300000 bytes) exceeds limit (262144 bytes)"
    );
    let child = world.history("p::sub::2").await;
    let ends = child.iter().filter(|e| e.is_terminal()).count();
    assert_eq!(ends, 1, "one end, not a completion and a failure");
    world.stop().await;
}

#[tokio::test]
async fn a_system_failure_of_a_child_ends_its_parent_unless_it_asks_to_see_it() {
    let options = duroxide::RuntimeOptions {
        max_attempts: 2,
        ..quick()
    };
    let world = World::with_options(
        activities().build(),
        orchestrations()
            .register("plain", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_sub_orchestration("nobody", "").await
            })
            .register("careful", |ctx: OrchestrationContext, _| async move {
                let child = ctx.schedule_sub_orchestration("nobody", "");
                let failed = child.surface_system_failures().await.unwrap_err();
                Ok(format!("compensated: {failed}"))
            })
            .build(),
        options,
    )
    .await;
    let plain = details(world.run("p", "plain", "").await);
    assert!(matches!(plain, ErrorDetails::Poison { .. }), "{plain:?}");
    let careful = world.run("c", "careful", "").await;
    assert!(
        output(&careful).starts_with("compensated: poison: "),
        "{careful:?}"
    );
    world.stop().await;
}

/// Ends in the named way while a child and an activity are open.
async fn ends(ctx: OrchestrationContext, how: String) -> Result<String, String> {
    let child = ctx.schedule_sub_orchestration_with_id("waits", format!("child of {how}"), "");
    let work = ctx.schedule_activity("hangs", how.clone());
    ctx.schedule_wait("go").await;
    match how.as_str() {
        "panic" => panic!("on purpose"),
        "error" => Err("on purpose".to_owned()),
        "return" => Ok("done".to_owned()),
        "limit" => {
            ctx.set_custom_status("x".repeat(300_000));
            ctx.schedule_wait("never").await;
            Ok(String::new())
        }
        "continue" => ctx.continue_as_new("finish").await,
        _ => {
            let (child, _) = ctx.join2(child, work).await;
            child
        }
    }
}

#[tokio::test]
async fn every_way_to_end_cancels_the_children_and_activities_that_are_open() {
    let notes = crate::support::Notes::default();
    let told = notes.clone();
    let world = World::start(
        activities()
            .register(
                "hangs",
                move |ctx: duroxide::ActivityContext, how: String| {
                    let told = told.clone();
                    async move {
                        told.add(format!("{how} runs"));
                        ctx.cancelled().await;
                        told.add(format!("{how} cancelled"));
                        Ok(String::new())
                    }
                },
            )
            .build(),
        orchestrations()
            .register("waits", |ctx: OrchestrationContext, _| async move {
                Ok(ctx.schedule_wait("go").await)
            })
            .register(
                "ends",
                |ctx: OrchestrationContext, how: String| async move {
                    if how == "finish" {
                        Ok(how)
                    } else {
                        ends(ctx, how).await
                    }
                },
            )
            .build(),
    )
    .await;
    for how in ["panic", "error", "return", "limit", "continue", "cancel"] {
        let child = format!("child of {how}");
        world.begin(how, "ends", how).await;
        world.waits_for(&child, "go").await;
        notes.wait_for(&format!("{how} runs")).await;
        if how == "cancel" {
            world.cancel(how, "enough").await;
        } else {
            world.raise(how, "go", "").await;
        }
        world.outcome(how).await;
        let text = failure(&world.outcome(&child).await);
        assert!(text.starts_with("canceled: parent"), "{how}: {text}");
        notes.wait_for(&format!("{how} cancelled")).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn a_child_scheduled_and_dropped_in_the_last_turn_is_neither_started_nor_cancelled() {
    let store = in_memory().await;
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("child", whoami)
            .register("parent", |ctx: OrchestrationContext, _| async move {
                drop(ctx.schedule_sub_orchestration_with_id("child", "unborn", ""));
                Ok("done".to_owned())
            })
            .build(),
        quick(),
    )
    .await;
    assert_eq!(output(&world.run("p", "parent", "").await), "done");
    // Others go on, and nothing is left in the queues for somebody who never lived.
    assert_eq!(output(&world.run("q", "child", "").await), "q ");
    until("queues are empty", async || {
        world
            .client
            .get_queue_depths()
            .await
            .unwrap()
            .orchestrator_queue
            == 0
    })
    .await;
    assert!(world.history("unborn").await.is_empty());
    assert!(world.client.list_dead_letters(10).await.unwrap().is_empty());
    let recorded = |e: &duroxide::Event| {
        matches!(
            e.kind,
            EventKind::SubOrchestrationScheduled { .. }
                | EventKind::SubOrchestrationCancelRequested { .. }
        )
    };
    assert_eq!(
        world
            .history("p")
            .await
            .iter()
            .filter(|e| recorded(e))
            .count(),
        2
    );
    world.stop().await;
}

#[tokio::test]
async fn the_loser_of_a_race_between_children_is_cancelled() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("fast", whoami)
            .register("waits", |ctx: OrchestrationContext, _| async move {
                Ok(ctx.schedule_wait("go").await)
            })
            .register("parent", |ctx: OrchestrationContext, _| async move {
                let slow = ctx.schedule_sub_orchestration_with_id("waits", "slow", "");
                let fast = ctx.schedule_sub_orchestration_with_id("fast", "fast", "");
                let (place, _) = ctx.select(vec![slow, fast]).await;
                ctx.schedule_wait("end").await;
                Ok(place.to_string())
            })
            .build(),
    )
    .await;
    world.begin("p", "parent", "").await;
    world.waits_for("p", "end").await;
    assert_eq!(
        failure(&world.outcome("slow").await),
        "canceled: parent dropped sub-orchestration future"
    );
    world.raise("p", "end", "").await;
    assert_eq!(output(&world.outcome("p").await), "1");
    world.stop().await;
}

/// The parent chose the id of an instance that lives already, and ends before it hears that its start was refused.
#[tokio::test]
async fn a_parent_that_ends_early_does_not_cancel_a_stranger() {
    let registry = orchestrations()
        .register(
            "stranger",
            |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) },
        )
        .register(
            "parent",
            |ctx: OrchestrationContext, _: String| async move {
                let child = ctx.schedule_sub_orchestration_with_id("stranger", "x", "");
                drop(child);
                ctx.schedule_timer(Duration::from_millis(1)).await;
                let child = ctx.schedule_sub_orchestration_with_id("stranger", "x", "");
                ctx.select2(child, ctx.schedule_timer(Duration::ZERO)).await;
                Ok("gone".to_owned())
            },
        )
        .build();
    let world = World::start(activities().build(), registry).await;
    let started = world.client.start_orchestration("x", "stranger", "");
    started.await.unwrap();
    world.waits_for("x", "go").await;
    assert_eq!(output(&world.run("p", "parent", "").await), "gone");
    world.raise("x", "go", "alive").await;
    assert_eq!(output(&world.outcome("x").await), "alive");
    world.stop().await;
}
