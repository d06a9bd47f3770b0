//! Nodes with different code on one store: each claims what it can run, and waiting for the right node costs nothing.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::{
    ActivityContext, ActivityRegistry, ErrorDetails, OnUnregistered, OrchestrationContext,
    OrchestrationRegistry, Runtime, RuntimeOptions,
};

use crate::support::{
    Notes, World, activities, details, in_memory, orchestrations, output, quick, until,
};

fn waiting() -> RuntimeOptions {
    RuntimeOptions {
        on_unregistered: Some(OnUnregistered::Wait),
        max_attempts: 2,
        ..quick()
    }
}

fn greets() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "hello",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("greet", input).await
            },
        )
        .build()
}

fn greet() -> ActivityRegistry {
    activities()
        .register("greet", |_: ActivityContext, name: String| async move {
            Ok(format!("hello {name}"))
        })
        .build()
}

async fn node(
    store: &Arc<dyn Provider>,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
) -> Arc<Runtime> {
    Runtime::start_with_options(Arc::clone(store), activities, orchestrations, waiting()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_without_the_code_spend_no_attempts_of_an_instance() {
    let store = in_memory().await;
    let mut without = Vec::new();
    for _ in 0..4 {
        without.push(node(&store, activities().build(), orchestrations().build()).await);
    }
    let world = World::on(store, greet(), greets(), waiting()).await;
    for i in 0..50 {
        let id = format!("i{i}");
        world.begin(&id, "hello", &id).await;
    }
    for i in 0..50 {
        let id = format!("i{i}");
        assert_eq!(output(&world.outcome(&id).await), format!("hello {id}"));
    }
    for node in without {
        node.shutdown(None).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn an_instance_waits_for_the_node_that_has_its_code() {
    let store = in_memory().await;
    let without = World::on(
        Arc::clone(&store),
        activities().build(),
        orchestrations().build(),
        waiting(),
    )
    .await;
    without.begin("i", "hello", "you").await;
    // Somebody can see what it waits for.
    until("the ready work is listed", async || {
        let ready = without.client.list_ready_work(10).await.unwrap().unwrap();
        ready
            .iter()
            .any(|work| work.name == "hello" && work.count == 1)
    })
    .await;
    let with = World::on(store, greet(), greets(), waiting()).await;
    assert_eq!(output(&with.outcome("i").await), "hello you");
    with.stop().await;
    without.stop().await;
}

#[tokio::test]
async fn an_activity_waits_for_the_node_that_has_its_code() {
    let store = in_memory().await;
    let turns = World::on(
        Arc::clone(&store),
        activities().build(),
        greets(),
        waiting(),
    )
    .await;
    turns.begin("i", "hello", "you").await;
    until("the activity is listed", async || {
        let ready = turns.client.list_ready_work(10).await.unwrap().unwrap();
        ready.iter().any(|work| work.name == "greet")
    })
    .await;
    let worker = node(&store, greet(), orchestrations().build()).await;
    assert_eq!(output(&turns.outcome("i").await), "hello you");
    worker.shutdown(None).await;
    turns.stop().await;
}

#[tokio::test]
async fn a_version_that_no_node_has_waits_and_is_not_run_by_another() {
    let store = in_memory().await;
    let notes = Notes::default();
    let version = |version: &'static str, notes: &Notes| {
        let notes = notes.clone();
        orchestrations()
            .register_versioned(
                "job",
                version,
                move |ctx: OrchestrationContext, _: String| {
                    let notes = notes.clone();
                    async move {
                        let word = ctx.schedule_wait("go").await;
                        notes.add(version);
                        Ok(format!("{version} {word}"))
                    }
                },
            )
            .build()
    };
    let old = World::on(
        Arc::clone(&store),
        activities().build(),
        version("1.0.0", &notes),
        waiting(),
    )
    .await;
    old.begin("i", "job", "").await;
    old.waits_for("i", "go").await;
    let client = old.client.clone();
    old.stop().await;
    let new = node(&store, activities().build(), version("2.0.0", &notes)).await;
    client.raise_event("i", "go", "now").await.unwrap();
    until("the old version is missed", async || {
        let ready = client.list_ready_work(10).await.unwrap().unwrap();
        ready
            .iter()
            .any(|work| work.version.as_deref() == Some("1.0.0"))
    })
    .await;
    let old = World::on(
        store,
        activities().build(),
        version("1.0.0", &notes),
        waiting(),
    )
    .await;
    assert_eq!(output(&old.outcome("i").await), "1.0.0 now");
    assert_eq!(notes.all(), ["1.0.0"]);
    new.shutdown(None).await;
    old.stop().await;
}

#[tokio::test]
async fn who_asks_for_it_gets_the_published_way_and_unknown_work_fails_in_the_end() {
    let options = RuntimeOptions {
        on_unregistered: Some(OnUnregistered::Fail),
        ..waiting()
    };
    let store = in_memory().await;
    let world = World::on(
        store,
        activities().build(),
        orchestrations().build(),
        options,
    )
    .await;
    let ended = details(world.run("i", "hello", "you").await);
    assert!(matches!(ended, ErrorDetails::Poison { .. }), "{ended:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_claim_pins_no_more_sessions_than_the_node_may_serve() {
    let served = Notes::default();
    let held = |node: &'static str| {
        let served = served.clone();
        activities()
            .register("hold", move |_: ActivityContext, _: String| {
                let served = served.clone();
                async move {
                    served.add(node);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok(String::new())
                }
            })
            .build()
    };
    let registry = orchestrations()
        .register(
            "sessions",
            |ctx: OrchestrationContext, _: String| async move {
                let calls: Vec<_> = (0..20)
                    .map(|i| ctx.schedule_activity_on_session("hold", "", format!("s{i}")))
                    .collect();
                for done in ctx.join(calls).await {
                    done?;
                }
                Ok(String::new())
            },
        )
        .build();
    let options = RuntimeOptions {
        max_sessions_per_runtime: 2,
        ..waiting()
    };
    let store = in_memory().await;
    let one = World::on(
        Arc::clone(&store),
        held("one"),
        registry.clone(),
        options.clone(),
    )
    .await;
    let two = World::on(store, held("two"), registry, options).await;
    output(&one.run("i", "sessions", "").await);
    assert!(
        served.count("one") > 0 && served.count("two") > 0,
        "{served:?}"
    );
    one.stop().await;
    two.stop().await;
}
