//! Orchestrations that nobody awaits.

use duroxide::OrchestrationContext;

use crate::support::{World, activities, failure, orchestrations, output};

fn registry() -> duroxide::OrchestrationRegistry {
    orchestrations()
        .register(
            "echo",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .register_versioned("echo", "2.0.0", |_: OrchestrationContext, _| async {
            Ok("two".to_owned())
        })
        .register(
            "starts",
            |ctx: OrchestrationContext, how: String| async move {
                ctx.schedule_orchestration_versioned(
                    "echo",
                    Some("1.0.0".into()),
                    format!("started by {how}"),
                    "hello",
                );
                match how.as_str() {
                    "error" => Err("no".to_owned()),
                    "continue" => ctx.continue_as_new("again").await,
                    "wait" => Ok(ctx.schedule_wait("go").await),
                    _ => Ok("done".to_owned()),
                }
            },
        )
        .register(
            "reserved",
            |ctx: OrchestrationContext, id: String| async move {
                ctx.schedule_orchestration("echo", id, "");
                Ok(String::new())
            },
        )
        .build()
}

#[tokio::test]
async fn a_detached_start_is_sent_however_its_turn_ends() {
    let world = World::start(activities().build(), registry()).await;
    for how in ["return", "error", "continue", "wait"] {
        world.begin(how, "starts", how).await;
        let started = format!("started by {how}");
        assert_eq!(output(&world.outcome(&started).await), "hello");
        let info = world.client.get_instance_info(&started).await.unwrap();
        assert_eq!(info.parent_instance_id, None, "nobody's child");
    }
    assert_eq!(output(&world.outcome("continue").await), "done");
    world.stop().await;
}

#[tokio::test]
async fn a_detached_start_is_sent_when_its_turn_is_cancelled() {
    let store = crate::support::in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client
        .start_orchestration("i", "starts", "wait")
        .await
        .unwrap();
    client.cancel_instance("i", "at once").await.unwrap();
    let world = World::on(
        store,
        activities().build(),
        registry(),
        crate::support::quick(),
    )
    .await;
    assert_eq!(failure(&world.outcome("i").await), "canceled: at once");
    assert_eq!(output(&world.outcome("started by wait").await), "hello");
    world.stop().await;
}

#[tokio::test]
async fn a_detached_start_for_a_taken_id_is_ignored() {
    let world = World::start(activities().build(), registry()).await;
    assert_eq!(
        output(&world.run("started by return", "echo", "first").await),
        "two"
    );
    assert_eq!(output(&world.run("p", "starts", "return").await), "done");
    assert_eq!(output(&world.run("q", "echo", "").await), "two");
    assert_eq!(output(&world.outcome("started by return").await), "two");
    world.stop().await;
}

#[tokio::test]
async fn a_detached_start_cannot_take_an_id_reserved_for_children() {
    let world = World::start(activities().build(), registry()).await;
    for id in ["sub::1", "a::sub::1"] {
        let text = failure(&world.run(&format!("p-{}", id.len()), "reserved", id).await);
        assert!(
            text.contains("uses the reserved sub-orchestration marker 'sub::'"),
            "{text}"
        );
    }
    world.stop().await;
}
