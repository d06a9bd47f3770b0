//! Code that watches for the request to cancel and puts things right before it ends.

use std::time::Duration;

use duroxide::{
    ActivityContext, Either2, OrchestrationContext, OrchestrationRegistry, RuntimeOptions,
};

use crate::support::{
    Notes, World, activities, failure, in_memory, kinds, orchestrations, output, quick, until,
};

fn undoing(notes: &Notes) -> duroxide::ActivityRegistry {
    let notes = notes.clone();
    activities()
        .register("undo", move |_: ActivityContext, what: String| {
            notes.add(format!("undone {what}"));
            async move { Ok(what) }
        })
        .build()
}

fn registry() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "saga",
            |ctx: OrchestrationContext, end: String| async move {
                let work = ctx.schedule_wait("go");
                match ctx.select2(work, ctx.cancellation_requested()).await {
                    Either2::First(result) => Ok(result),
                    Either2::Second(reason) => {
                        ctx.schedule_activity("undo", reason.clone()).await?;
                        ctx.schedule_timer(Duration::from_millis(10)).await;
                        // Asked again, it says the same at once.
                        assert_eq!(ctx.cancellation_requested().await, reason);
                        match end.as_str() {
                            "error" => Err("compensated".to_owned()),
                            "continue" => ctx.continue_as_new("").await,
                            "panic" => panic!("while compensating"),
                            _ => Ok("compensated".to_owned()),
                        }
                    }
                }
            },
        )
        .register("stubborn", |ctx: OrchestrationContext, _| async move {
            let child = ctx.schedule_sub_orchestration_with_id("waits", "child", "");
            let reason = ctx
                .select2(ctx.cancellation_requested(), ctx.schedule_wait("go"))
                .await;
            ctx.schedule_wait("never").await;
            child.await?;
            Ok(format!("{reason:?}"))
        })
        .register("waits", |ctx: OrchestrationContext, _| async move {
            Ok(ctx.schedule_wait("go").await)
        })
        .register(
            "changed its mind",
            |ctx: OrchestrationContext, _| async move {
                drop(ctx.cancellation_requested());
                Ok(ctx.schedule_wait("go").await)
            },
        )
        .register("only that", |ctx: OrchestrationContext, _| async move {
            Ok(ctx.cancellation_requested().await)
        })
        .build()
}

#[tokio::test]
async fn code_that_watches_for_it_is_told_and_ends_as_cancelled_however_it_returns() {
    for sticky in [0, 16] {
        let notes = Notes::default();
        let options = RuntimeOptions {
            sticky_instances_max: sticky,
            ..quick()
        };
        let world = World::with_options(undoing(&notes), registry(), options).await;
        for end in ["value", "error", "continue"] {
            world.begin(end, "saga", end).await;
            world.waits_for(end, "go").await;
            world.cancel(end, format!("{end} is enough")).await;
            let text = failure(&world.outcome(end).await);
            assert_eq!(text, format!("canceled: {end} is enough"));
            assert_eq!(notes.count(&format!("undone {end} is enough")), 1);
        }
        world.stop().await;
    }
}

#[tokio::test]
async fn a_request_nobody_watches_for_ends_the_orchestration_at_once() {
    let world = World::start(activities().build(), registry()).await;
    world.begin("i", "changed its mind", "").await;
    world.waits_for("i", "go").await;
    world.cancel("i", "enough").await;
    assert_eq!(failure(&world.outcome("i").await), "canceled: enough");
    world.stop().await;
}

#[tokio::test]
async fn without_a_request_the_future_leaves_no_trace() {
    let world = World::start(activities().build(), registry()).await;
    world.begin("i", "saga", "").await;
    world.waits_for("i", "go").await;
    world.raise("i", "go", "done").await;
    assert_eq!(output(&world.outcome("i").await), "done");
    let recorded = kinds(&world.history("i").await);
    assert_eq!(
        recorded,
        [
            "OrchestrationStarted",
            "ExternalSubscribed",
            "ExternalEvent",
            "OrchestrationCompleted"
        ]
    );
    world.stop().await;
}

#[tokio::test]
async fn terminating_ends_code_that_does_not_come_to_an_end_and_asking_again_does_not() {
    let world = World::start(activities().build(), registry()).await;
    world.begin("i", "stubborn", "").await;
    world.waits_for("child", "go").await;
    world.cancel("i", "please").await;
    world.waits_for("i", "never").await;
    world.cancel("i", "again").await;
    // Answered after the second request, so that one has had its turn.
    world.raise("i", "unheard", "").await;
    let unheard = |e: &duroxide::Event| e.kind.wire_name() == "ExternalEvent";
    until("the signal is recorded", async || {
        world.history("i").await.iter().any(unheard)
    })
    .await;
    assert!(matches!(
        world.client.get_orchestration_status("i").await.unwrap(),
        duroxide::OrchestrationStatus::Running { .. }
    ));
    world.client.terminate_instance("i", "now").await.unwrap();
    assert_eq!(failure(&world.outcome("i").await), "canceled: now");
    assert_eq!(
        failure(&world.outcome("child").await),
        "canceled: parent terminated"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_panic_while_compensating_is_not_hidden() {
    let notes = Notes::default();
    let world = World::start(undoing(&notes), registry()).await;
    world.begin("i", "saga", "panic").await;
    world.waits_for("i", "go").await;
    world.cancel("i", "enough").await;
    assert_eq!(
        failure(&world.outcome("i").await),
        "orchestration panicked: while compensating"
    );
    world.stop().await;
}

#[tokio::test]
async fn watching_for_the_request_alone_is_not_waiting_for_something_durable() {
    let world = World::start(activities().build(), registry()).await;
    let text = failure(&world.run("i", "only that", "").await);
    assert!(text.contains("not durable"), "{text}");
    world.stop().await;
}

#[tokio::test]
async fn compensation_survives_a_restart_of_the_runtime() {
    let store = in_memory().await;
    let notes = Notes::default();
    let turns_only = RuntimeOptions {
        worker_concurrency: 0,
        ..quick()
    };
    let before = World::on(store.clone(), activities().build(), registry(), turns_only).await;
    before.begin("i", "saga", "").await;
    before.waits_for("i", "go").await;
    before.cancel("i", "enough").await;
    before
        .recorded("i", |kind| {
            matches!(kind, duroxide::EventKind::ActivityScheduled { .. })
        })
        .await;
    before.stop().await;

    let after = World::on(store, undoing(&notes), registry(), quick()).await;
    assert_eq!(failure(&after.outcome("i").await), "canceled: enough");
    assert_eq!(notes.all(), ["undone enough"]);
    after.stop().await;
}

#[tokio::test]
async fn a_request_in_the_very_first_turn_reaches_code_that_watches_for_it() {
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client.start_orchestration("i", "saga", "").await.unwrap();
    client.cancel_instance("i", "early").await.unwrap();
    // Delivered twice is still one request.
    client.cancel_instance("i", "early again").await.unwrap();
    let notes = Notes::default();
    let world = World::on(store, undoing(&notes), registry(), quick()).await;
    assert_eq!(failure(&world.outcome("i").await), "canceled: early");
    assert_eq!(notes.all(), ["undone early"]);
    world.stop().await;
}

#[tokio::test]
async fn a_reason_to_cancel_cannot_pass_for_a_reason_to_terminate() {
    let client = duroxide::Client::new(in_memory().await);
    let refused = client.cancel_instance("i", "duroxide:terminate:now").await;
    assert!(
        matches!(&refused, Err(duroxide::ClientError::InvalidInput { message }) if message.contains("terminate_instance")),
        "{refused:?}"
    );
}
