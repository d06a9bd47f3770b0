//! Starting orchestrations, and starting them twice.

use std::time::Duration;

use duroxide::{ClientError, OrchestrationContext, OrchestrationStatus};
use serde::{Deserialize, Serialize};

use crate::support::{
    Notes, PATIENCE, World, activities, failure, in_memory, orchestrations, output, quick,
};

async fn echo(_ctx: OrchestrationContext, input: String) -> Result<String, String> {
    Ok(input)
}

async fn wait_for_go(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_wait("go").await;
    Ok(input)
}

#[tokio::test]
async fn a_started_instance_is_described_and_listed() {
    let world = World::start(
        activities().build(),
        orchestrations().register("wait", wait_for_go).build(),
    )
    .await;
    let unknown = world.client.get_orchestration_status("i").await.unwrap();
    assert_eq!(unknown, OrchestrationStatus::NotFound);
    assert!(
        world
            .runtime
            .get_orchestration_descriptor("i")
            .await
            .is_none()
    );

    world.begin("i", "wait", "").await;
    world.waits_for("i", "go").await;
    let described = world
        .runtime
        .get_orchestration_descriptor("i")
        .await
        .unwrap();
    assert_eq!(
        (described.name.as_str(), described.version.as_str()),
        ("wait", "1.0.0")
    );
    assert_eq!(described.parent_instance, None);
    let status = world.client.get_orchestration_status("i").await.unwrap();
    assert!(
        matches!(status, OrchestrationStatus::Running { .. }),
        "{status:?}"
    );
    let running = world
        .client
        .list_instances_by_status("Running")
        .await
        .unwrap();
    assert_eq!(running, ["i"]);
    world.stop().await;
}

#[tokio::test]
async fn a_second_start_is_ignored_while_the_first_runs_and_after_it_ended() {
    let notes = Notes::default();
    let seen = notes.clone();
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("once", move |ctx: OrchestrationContext, input: String| {
                let seen = seen.clone();
                async move {
                    seen.add(format!("began {input}"));
                    ctx.schedule_wait("go").await;
                    Ok(input)
                }
            })
            .register("other", echo)
            .build(),
    )
    .await;
    world.begin("i", "once", "first").await;
    world.waits_for("i", "go").await;
    world.begin("i", "other", "second").await;
    world.raise("i", "go", "").await;
    assert_eq!(output(&world.outcome("i").await), "first");
    let history = world.history("i").await;

    world.begin("i", "other", "third").await;
    // A later instance overtakes nothing: once it is done, the third start was looked at too.
    assert_eq!(output(&world.run("j", "other", "x").await), "x");
    assert_eq!(output(&world.outcome("i").await), "first");
    assert_eq!(world.history("i").await, history);
    assert_eq!(notes.count("began second") + notes.count("began third"), 0);
    world.stop().await;
}

#[tokio::test]
async fn a_start_if_absent_says_whether_the_id_was_free() {
    let world = World::start(
        activities().build(),
        orchestrations().register("echo", echo).build(),
    )
    .await;
    assert!(
        world
            .client
            .start_orchestration_if_absent("i", "echo", "1")
            .await
            .unwrap()
    );
    assert_eq!(output(&world.outcome("i").await), "1");
    assert!(
        !world
            .client
            .start_orchestration_if_absent("i", "echo", "2")
            .await
            .unwrap()
    );
    assert_eq!(output(&world.outcome("i").await), "1");
    world.stop().await;
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Order {
    item: String,
    count: u32,
}

#[tokio::test]
async fn typed_input_and_output_go_through_orchestration_activity_and_client() {
    let world = World::start(
        activities()
            .register_typed("double", |_ctx, order: Order| async move {
                Ok(Order {
                    count: order.count * 2,
                    ..order
                })
            })
            .build(),
        orchestrations()
            .register_typed(
                "order",
                |ctx: OrchestrationContext, order: Order| async move {
                    ctx.schedule_activity_typed::<Order, Order>("double", &order)
                        .await
                },
            )
            .build(),
    )
    .await;
    let order = Order {
        item: "tea".into(),
        count: 2,
    };
    world
        .client
        .start_orchestration_typed("i", "order", &order)
        .await
        .unwrap();
    let done: Result<Order, String> = world
        .client
        .wait_for_orchestration_typed("i", PATIENCE)
        .await
        .unwrap();
    assert_eq!(done.unwrap().count, 4);
    world.stop().await;
}

#[tokio::test]
async fn a_string_that_is_a_json_string_keeps_its_quotes() {
    let world = World::start(
        activities()
            .register_typed("echo", |_ctx, text: String| async move { Ok(text) })
            .build(),
        orchestrations()
            .register_typed(
                "quote",
                |ctx: OrchestrationContext, text: String| async move {
                    let back: String = ctx.schedule_activity_typed("echo", &text).await?;
                    Ok((text == back, back))
                },
            )
            .build(),
    )
    .await;
    for text in ["plain", "\"quoted\"", "123", "null", "{\"a\":1}"] {
        world
            .client
            .start_orchestration_typed(text, "quote", text)
            .await
            .unwrap();
        let answer: Result<(bool, String), String> = world
            .client
            .wait_for_orchestration_typed(text, PATIENCE)
            .await
            .unwrap();
        assert_eq!(answer.unwrap(), (true, text.to_owned()));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_wait_for_an_instance_nobody_started_times_out() {
    let world = World::start(activities().build(), orchestrations().build()).await;
    let waited = world
        .client
        .wait_for_orchestration("nobody", Duration::from_millis(30))
        .await;
    assert!(matches!(waited, Err(ClientError::Timeout)), "{waited:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_start_waits_in_the_store_for_a_runtime() {
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client
        .start_orchestration("i", "echo", "kept")
        .await
        .unwrap();
    let registry = orchestrations().register("echo", echo).build();
    let world = World::on(store, activities().build(), registry, quick()).await;
    assert_eq!(output(&world.outcome("i").await), "kept");
    world.stop().await;
}

#[tokio::test]
async fn activities_learn_who_they_work_for_and_how_often_they_were_tried() {
    let world = World::start(
        activities()
            .register("who", |ctx: duroxide::ActivityContext, _| async move {
                Ok(format!(
                    "{} {} {} {} {} {} {}",
                    ctx.instance_id(),
                    ctx.execution_id(),
                    ctx.orchestration_name(),
                    ctx.orchestration_version(),
                    ctx.activity_name(),
                    ctx.activity_id(),
                    ctx.attempt()
                ))
            })
            .build(),
        orchestrations()
            .register_versioned("asks", "3.2.1", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("who", "").await
            })
            .build(),
    )
    .await;
    assert_eq!(
        output(&world.run("i", "asks", "").await),
        "i 1 asks 3.2.1 who 2 1"
    );
    world.stop().await;
}

#[tokio::test]
async fn an_error_of_a_typed_handler_for_a_malformed_input_is_recorded_before_its_code_runs() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register_typed("typed", |_ctx: OrchestrationContext, n: u32| async move {
                Ok(n)
            })
            .build(),
    )
    .await;
    let text = failure(&world.run("i", "typed", "not a number").await);
    assert!(text.contains("expected"), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    world.stop().await;
}

#[tokio::test]
async fn what_no_start_could_carry_is_refused_by_the_client() {
    let client = duroxide::Client::new(crate::support::in_memory().await);
    let unfit: [fn(&mut duroxide::StartExtras); 4] = [
        |extras| extras.memo = Some("no JSON".into()),
        |extras| extras.memo = Some(format!("\"{}\"", "x".repeat(5 * 1024))),
        |extras| extras.timeout_ms = Some(0),
        |extras| extras.deadline_ms = Some(1),
    ];
    for spoil in unfit {
        let mut extras = duroxide::StartExtras::default();
        spoil(&mut extras);
        let start = duroxide::client::NewStart::new("i", "o", "");
        let refused = client
            .start_orchestration_with(duroxide::client::NewStart { extras, ..start })
            .await;
        assert!(
            matches!(refused, Err(duroxide::ClientError::InvalidInput { .. })),
            "{refused:?}"
        );
    }
    let depths = client.get_queue_depths().await.unwrap();
    assert_eq!(depths.orchestrator_queue, 0);
}
