//! Instances that cannot go on for now: they are blocked with a report, and can be cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::{InstanceQuery, Provider};
use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::{
    EventKind, OnDivergence, OnUnregistered, OrchestrationContext, OrchestrationRegistry,
    RuntimeOptions,
};

use crate::faulty;
use crate::support::{World, activities, details, in_memory, orchestrations, output, quick, until};

fn blocking() -> RuntimeOptions {
    RuntimeOptions {
        on_divergence: OnDivergence::Block,
        ..quick()
    }
}

/// Waits, then answers; `first` names what it waits for.
fn waits_for(first: &'static str) -> OrchestrationRegistry {
    orchestrations()
        .register(
            "waits",
            move |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_wait(first).await;
                Ok(ctx.schedule_wait("go").await)
            },
        )
        .build()
}

async fn is_blocked(world: &World, instance: &str) {
    until("it is blocked", async || {
        let blocked = world.runtime.blocked_instances();
        blocked.iter().any(|entry| entry.instance_id == instance)
    })
    .await;
}

/// An instance whose code was changed under it, on a runtime that blocks it.
async fn diverged() -> World {
    let store = in_memory().await;
    let before = World::on(
        Arc::clone(&store),
        activities().build(),
        waits_for("first"),
        blocking(),
    )
    .await;
    before.begin("i", "waits", "").await;
    before.waits_for("i", "first").await;
    before.stop().await;
    let after = World::on(store, activities().build(), waits_for("other"), blocking()).await;
    after.raise("i", "first", "").await;
    is_blocked(&after, "i").await;
    after
}

#[tokio::test]
async fn a_blocked_instance_can_be_cancelled() {
    let world = diverged().await;
    world.cancel("i", "no longer needed").await;
    let ended = details(world.outcome("i").await);
    assert!(ended.is_cancelled(), "{ended:?}");
    let history = world.history("i").await;
    let ends = |e: &&duroxide::Event| matches!(e.kind, EventKind::OrchestrationFailed { .. });
    assert_eq!(history.iter().filter(ends).count(), 1);
    assert!(history.last().unwrap().is_terminal());
    until("the list forgets it", async || {
        world.runtime.blocked_instances().is_empty()
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_deleted_instance_does_not_stay_in_the_list_of_blocked_ones() {
    let world = diverged().await;
    world.client.delete_instance("i", true).await.unwrap();
    until("the list forgets it", async || {
        world.runtime.blocked_instances().is_empty()
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_parent_is_not_blocked_by_the_configuration_failure_of_its_child() {
    let parents = || {
        orchestrations().register(
            "parent",
            |ctx: OrchestrationContext, _: String| async move {
                let child = ctx.schedule_sub_orchestration_with_id("child", "c", "");
                child.surface_system_failures().await
            },
        )
    };
    let child = |first: &'static str| {
        move |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait(first).await) }
    };
    let store = in_memory().await;
    let family = parents().register("child", child("go")).build();
    let before = World::on(store.clone(), activities().build(), family, quick()).await;
    let started = before.client.start_orchestration("p", "parent", "");
    started.await.unwrap();
    before.waits_for("c", "go").await;
    before.stop().await;
    // The child runs where divergence fails, and its failure reaches a parent whose node blocks what diverges.
    let fails = RuntimeOptions {
        on_unregistered: Some(OnUnregistered::Wait),
        ..quick()
    };
    let changed = orchestrations().register("child", child("other")).build();
    let children = World::on(store.clone(), activities().build(), changed, fails).await;
    children.raise("c", "go", "").await;
    details(children.outcome("c").await);
    children.stop().await;
    let blocks = World::on(store, activities().build(), parents().build(), blocking()).await;
    let parent = details(blocks.outcome("p").await);
    assert!(!parent.is_cancelled(), "{parent:?}");
    assert!(blocks.runtime.blocked_instances().is_empty());
    blocks.stop().await;
}

#[tokio::test]
async fn code_that_waits_for_something_foreign_stays_blocked_until_it_is_cancelled() {
    let registry = orchestrations()
        .register(
            "sleeps",
            |ctx: OrchestrationContext, _: String| async move {
                let foreign = tokio::time::sleep(Duration::from_millis(5));
                let durable = ctx.schedule_wait("never");
                tokio::select! {
                    () = foreign => Ok("the wrong clock".to_owned()),
                    word = durable => Ok(word),
                }
            },
        )
        .build();
    let world = World::with_options(activities().build(), registry, blocking()).await;
    world.begin("i", "sleeps", "").await;
    is_blocked(&world, "i").await;
    // It is tried again and again, and never looks cured.
    until("it was tried often", async || {
        let blocked = world.runtime.blocked_instances();
        blocked.iter().any(|entry| entry.attempts > 5)
    })
    .await;
    world.cancel("i", "enough").await;
    assert!(details(world.outcome("i").await).is_cancelled());
    world.stop().await;
}

#[tokio::test]
async fn an_instance_that_is_ended_by_force_answers_the_starts_it_consumes() {
    let parent = || {
        orchestrations().register(
            "parent",
            |ctx: OrchestrationContext, _: String| async move {
                let child = ctx.schedule_sub_orchestration_with_id("waits", "i", "");
                Ok(child.await.unwrap_err())
            },
        )
    };
    let store = in_memory().await;
    let on = async |registry: OrchestrationRegistry| {
        let options = RuntimeOptions {
            on_unregistered: Some(OnUnregistered::Wait),
            ..quick()
        };
        World::on(Arc::clone(&store), activities().build(), registry, options).await
    };
    let first = on(waits_for("first")).await;
    first
        .client
        .start_orchestration("i", "waits", "")
        .await
        .unwrap();
    first.waits_for("i", "first").await;
    first.stop().await;
    // Another instance asks for a child of the same id, on a node that does not have the child's code.
    let second = on(parent().build()).await;
    second
        .client
        .start_orchestration("p", "parent", "")
        .await
        .unwrap();
    second
        .recorded("p", |kind| {
            matches!(kind, EventKind::SubOrchestrationScheduled { .. })
        })
        .await;
    second.stop().await;
    // Its request is claimed together with the message that makes the changed code diverge.
    let changed = parent().merge(waits_for("other")).build();
    let client = duroxide::Client::new(Arc::clone(&store));
    client.raise_event("i", "first", "").await.unwrap();
    let third = on(changed).await;
    details(third.outcome("i").await);
    let told = third.outcome("p").await;
    assert!(output(&told).contains("already exists"), "{told:?}");
    third.stop().await;
}

fn registry() -> OrchestrationRegistry {
    orchestrations()
        .register("child", faulty::child)
        .register(
            "parent",
            |ctx: OrchestrationContext, input: String| async move {
                let child =
                    ctx.schedule_sub_orchestration_with_id("child", format!("c {input}"), input);
                match child.surface_system_failures().await {
                    Ok(output) | Err(output) => Ok(output),
                }
            },
        )
        .build()
}

#[tokio::test]
async fn a_refusal_of_the_store_blocks_an_instance_and_is_never_its_outcome() {
    let store = faulty::over(in_memory().await);
    store.layer().refuse_output("refuse me");
    let world = World::on(store.clone(), activities().build(), registry(), quick()).await;
    // In the first turn, in the first turn after continue-as-new, and in a later one that was kept in memory.
    let inputs = ["refuse me", "continues", "waits"];
    for input in inputs {
        world.begin(input, "parent", input).await;
        let child = format!("c {input}");
        if input == "waits" {
            world.waits_for(&child, "go").await;
            world.raise(&child, "go", "refuse me").await;
        }
        is_blocked(&world, &child).await;
        let blocked = world.runtime.blocked_instances();
        let entry = blocked.iter().find(|entry| entry.instance_id == child);
        let report = &entry.unwrap().report;
        assert!(report.contains("the store does not take this"), "{report}");
    }
    // What the store refused for a while it takes in the end.
    store.layer().refuse_nothing();
    for input in inputs {
        assert_eq!(output(&world.outcome(input).await), "refuse me");
    }
    world.stop().await;
}

#[tokio::test]
async fn an_instance_whose_turns_the_store_refuses_can_be_cancelled() {
    let store = faulty::over(in_memory().await);
    store.layer().refuse_output("refuse me");
    let world = World::on(store, activities().build(), registry(), quick()).await;
    world.begin("p", "parent", "refuse me").await;
    is_blocked(&world, "c refuse me").await;
    world.cancel("c refuse me", "enough").await;
    assert!(details(world.outcome("c refuse me").await).is_cancelled());
    assert_eq!(output(&world.outcome("p").await), "canceled: enough");
    world.stop().await;
}

#[tokio::test]
async fn a_history_that_cannot_be_read_blocks_its_instance_where_that_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let url = format!("sqlite:{}", file.display());
    let open = async || {
        let store = duroxide::providers::sqlite::SqliteProvider::new(&url, None).await;
        Arc::new(store.unwrap()) as Arc<dyn Provider>
    };
    let before = World::on(
        open().await,
        activities().build(),
        waits_for("go"),
        blocking(),
    )
    .await;
    before.begin("i", "waits", "").await;
    before.waits_for("i", "go").await;
    before.stop().await;
    let database = rusqlite::Connection::open(&file).unwrap();
    database.busy_timeout(Duration::from_secs(10)).unwrap();
    database
        .execute("UPDATE history SET event_data = '{' WHERE event_id = 2", [])
        .unwrap();
    // Its end must find a number, however long the history is.
    database
        .execute(
            "INSERT INTO history SELECT instance_id, execution_id, 99999, event_type, event_data, created_at
             FROM history WHERE event_id = 1",
            [],
        )
        .unwrap();
    let after = World::on(
        open().await,
        activities().build(),
        waits_for("go"),
        blocking(),
    )
    .await;
    after.raise("i", "go", "").await;
    is_blocked(&after, "i").await;
    after.cancel("i", "beyond repair").await;
    until("it has ended", async || {
        let info = after.client.get_instance_info("i").await.unwrap();
        info.status == "Failed"
    })
    .await;
    after.stop().await;
}

#[tokio::test]
async fn a_store_that_refuses_to_consume_messages_is_not_asked_without_a_pause() {
    const PAUSE: Duration = Duration::from_millis(100);
    let store = faulty::over(in_memory().await);
    let options = RuntimeOptions {
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: PAUSE,
            max_delay: PAUSE,
        },
        on_unregistered: Some(OnUnregistered::Wait),
        ..quick()
    };
    let world = World::on(store.clone(), activities().build(), registry(), options).await;
    world.run("i", "child", "done").await;
    store.layer().refuse_empty_turns();
    let began = Instant::now();
    world.raise("i", "late", "").await;
    until("it was tried three times", async || {
        let blocked = world.runtime.blocked_instances();
        blocked.iter().any(|entry| entry.attempts >= 3)
    })
    .await;
    // Two pauses lie between them, by a clock that counts in milliseconds.
    let least = 2 * PAUSE - Duration::from_millis(2);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    world.stop().await;
}

#[tokio::test]
async fn any_client_is_told_why_an_instance_is_blocked() {
    let store = in_memory().await;
    let before = World::on(
        store.clone(),
        activities().build(),
        waits_for("a"),
        blocking(),
    )
    .await;
    before.begin("i", "waits", "").await;
    before.waits_for("i", "a").await;
    before.stop().await;
    let options = RuntimeOptions {
        node_announce_interval: Some(Duration::from_millis(20)),
        ..blocking()
    };
    let after = World::on(store.clone(), activities().build(), waits_for("b"), options).await;
    after.raise("i", "a", "").await;
    is_blocked(&after, "i").await;
    let before_store = store.clone();
    let client = duroxide::Client::new(store);
    until("the node has told it", async || {
        !client.blocked_instances().await.unwrap().is_empty()
    })
    .await;
    let told = client.blocked_instances().await.unwrap();
    assert_eq!(told[0].instance_id, "i");
    assert!(told[0].report.contains("attempted"), "{}", told[0].report);
    let why = client.explain("i").await.unwrap().to_string();
    assert!(why.contains("cannot go on with it"), "{why}");
    assert!(why.contains("attempted"), "{why}");
    let waits = client.waits("i").await.unwrap();
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].name(), Some("a"));
    after.stop().await;
    assert!(
        client.blocked_instances().await.unwrap().is_empty(),
        "no node is up"
    );
    // What it noted is in the store.
    let blocked = InstanceQuery::new().with_blocked(true);
    let found = client.query_instances(&blocked).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].instance_id, "i");
    let why = client.explain("i").await.unwrap().to_string();
    assert!(why.contains("attempted"), "{why}");
    // Code that fits goes on with it.
    let fits = World::on(
        before_store,
        activities().build(),
        waits_for("a"),
        blocking(),
    )
    .await;
    fits.waits_for("i", "go").await;
    fits.raise("i", "go", "on").await;
    assert_eq!(output(&fits.outcome("i").await), "on");
    let found = client.query_instances(&blocked).await.unwrap().items;
    assert!(found.is_empty(), "{found:?}");
    fits.stop().await;
}
