//! Nodes as operators see them.

use duroxide::providers::SeenNode;
use duroxide::{ActivityContext, Client, OrchestrationContext, RuntimeOptions};

use crate::support::{World, activities, orchestrations, quick, until};

async fn world(options: RuntimeOptions) -> World {
    let echo = |_: OrchestrationContext, input: String| async move { Ok(input) };
    World::with_options(
        activities()
            .register(
                "say",
                |_: ActivityContext, said: String| async move { Ok(said) },
            )
            .build(),
        orchestrations()
            .register("echo", echo)
            .register_versioned("echo", "2.0.0", echo)
            .build(),
        options,
    )
    .await
}

async fn nodes(client: &Client) -> Vec<SeenNode> {
    client
        .nodes()
        .await
        .unwrap()
        .expect("the store keeps nodes")
}

#[tokio::test]
async fn a_node_is_listed_with_its_code_until_it_shuts_down() {
    let world = world(RuntimeOptions {
        worker_node_id: Some("harbour-1".to_owned()),
        ..quick()
    })
    .await;
    let client = world.client.clone();
    until("the node is listed", async || {
        nodes(&client).await.len() == 1
    })
    .await;
    let SeenNode { node, is_gone, .. } = nodes(&client).await.remove(0);
    assert!(!is_gone);
    assert_eq!(node.name, "harbour-1");
    assert_eq!(node.pid, std::process::id());
    assert_eq!(node.orchestrations["echo"], ["1.0.0", "2.0.0"]);
    assert_eq!(node.activities, ["say"], "those of the engine are left out");
    world.stop().await;
    assert_eq!(nodes(&client).await, []);
}

#[tokio::test]
async fn an_explanation_names_the_handler_that_no_node_has() {
    let world = world(RuntimeOptions::default()).await;
    let client = &world.client;
    until("the node is listed", async || {
        nodes(client).await.len() == 1
    })
    .await;
    let start = client.start_orchestration_versioned("lost", "echo", "3.0.0", "");
    start.await.unwrap();
    let why = client.explain("lost").await.unwrap().to_string();
    assert!(
        why.contains("no handler registered for orchestration echo 3.0.0: the one node that is up does not have it"),
        "{why}"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_node_that_is_told_to_be_silent_is_not_listed() {
    let world = world(RuntimeOptions {
        node_announce_interval: None,
        ..quick()
    })
    .await;
    world.run("one", "echo", "").await;
    assert_eq!(nodes(&world.client).await, []);
    world.stop().await;
}
