//! Nodes as operators see them.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{
    HeldActivity, NodeInfo, NodeTerm, ScheduledActivityIdentifier, SeenNode,
};
use duroxide::{ActivityContext, Client, OrchestrationContext, RuntimeOptions};
use tokio::sync::Notify;

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

/// A world with an instance `i` whose activity `press` runs until it is released.
async fn at_work(options: RuntimeOptions) -> (World, Arc<Notify>) {
    let release = Arc::new(Notify::new());
    let released = release.clone();
    let press = move |_: ActivityContext, _: String| {
        let released = released.clone();
        async move {
            released.notified().await;
            Ok(String::new())
        }
    };
    let presses = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("press", "apples").await
    };
    let world = World::with_options(
        activities().register("press", press).build(),
        orchestrations().register("presses", presses).build(),
        options,
    )
    .await;
    world.begin("i", "presses", "").await;
    world.claimed_activities(1).await;
    (world, release)
}

async fn why(client: &Client) -> String {
    client.explain("i").await.unwrap().to_string()
}

#[tokio::test]
async fn an_explanation_names_the_worker_that_holds_an_activity() {
    let (world, release) = at_work(RuntimeOptions {
        worker_node_id: Some("harbour-1".to_owned()),
        node_announce_interval: Some(Duration::from_millis(20)),
        ..quick()
    })
    .await;
    let client = &world.client;
    let words = "worker harbour-1 holds it, attempt 1, since ";
    until("the worker is named", async || {
        why(client).await.contains(words)
    })
    .await;
    let held = nodes(client).await.remove(0).node.holds;
    let [held] = &held[..] else {
        panic!("one activity: {held:?}");
    };
    assert_eq!((held.instance_id.as_str(), held.execution_id), ("i", 1));
    assert_eq!((held.activity_id, held.attempt), (2, 1));
    release.notify_one();
    world.outcome("i").await;
    until("the node holds nothing any more", async || {
        nodes(client).await.remove(0).node.holds.is_empty()
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_worker_that_died_is_named_while_its_lease_lasts() {
    let (world, release) = at_work(RuntimeOptions {
        node_announce_interval: None,
        ..quick()
    })
    .await;
    let unknown = why(&world.client).await;
    assert!(
        unknown.contains("a worker holds it, attempt 1, its lease"),
        "{unknown}"
    );
    // The node announced what it holds, and then nothing for too long.
    let scheduled = world.history("i").await[1].timestamp_ms;
    let mut dead = NodeInfo::new("1", "harbour-2");
    let activity = ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    dead.holds.push(HeldActivity::new(activity, 1, scheduled));
    let term = NodeTerm {
        gone_after: Duration::ZERO,
        forgotten_after: Duration::from_secs(60),
    };
    let admin = world.store.as_management_capability().unwrap();
    assert!(admin.announce_node(&dead, term).await.unwrap());
    let dead = why(&world.client).await;
    let words = "worker harbour-2, which has not been heard from for ";
    assert!(
        dead.contains(words) && dead.contains(", holds it, attempt 1, since "),
        "{dead}"
    );
    release.notify_one();
    world.outcome("i").await;
    world.stop().await;
}
