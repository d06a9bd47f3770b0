//! Retention: what is deleted once nobody needs it.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{InstanceQuery, InstanceStatus, Provider};
use duroxide::{OrchestrationContext, Retention, RetentionPolicy, RetentionRule, RuntimeOptions};

use crate::support::{World, activities, in_memory, orchestrations, quick, until};

const HOUR: Duration = Duration::from_secs(3_600);

async fn world(options: RuntimeOptions) -> World {
    world_on(in_memory().await, options).await
}

async fn world_on(store: Arc<dyn Provider>, options: RuntimeOptions) -> World {
    let echo = |_: OrchestrationContext, input: String| async move { Ok(input) };
    let fails = |_: OrchestrationContext, input: String| async move { Err(input) };
    let waits =
        |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) };
    let rounds = |ctx: OrchestrationContext, input: String| async move {
        let round: u32 = input.parse().map_err(|_| "no number".to_owned())?;
        match round {
            0 => Ok(ctx.schedule_wait("go").await),
            _ => ctx.continue_as_new((round - 1).to_string()).await,
        }
    };
    World::on(
        store,
        activities().build(),
        orchestrations()
            .register("echo", echo)
            .register("fails", fails)
            .register("waits", waits)
            .register("rounds", rounds)
            .build(),
        options,
    )
    .await
}

async fn ids(world: &World) -> Vec<String> {
    let page = world
        .client
        .query_instances(&InstanceQuery::new())
        .await
        .unwrap();
    let mut ids: Vec<_> = page.items.into_iter().map(|one| one.instance_id).collect();
    ids.sort();
    ids
}

fn newest(kept: u32) -> RetentionRule {
    RetentionRule {
        newest_kept: Some(kept),
        ..RetentionRule::default()
    }
}

#[tokio::test]
async fn the_newest_are_kept_by_status_and_name_and_nothing_that_runs_goes() {
    let world = world(quick()).await;
    for id in ["e1", "e2", "e3"] {
        world.run(id, "echo", "").await;
    }
    for id in ["f1", "f2"] {
        world.run(id, "fails", "").await;
    }
    world.begin("w", "waits", "").await;
    world.waits_for("w", "go").await;
    // The store's clock must have moved on: what ends within the millisecond of the pass stays.
    let policy = RetentionPolicy::new().rule(RetentionRule {
        name: Some("echo".to_owned()),
        ..newest(1)
    });
    let client = &world.client;
    until("three have ended before now", async || {
        client.preview_retention(&policy).await.unwrap().instances == 2
    })
    .await;
    assert_eq!(ids(&world).await.len(), 6, "a preview deletes nothing");
    let done = client.apply_retention(&policy).await.unwrap();
    assert_eq!(done.instances, 2);
    assert_eq!(ids(&world).await, ["e3", "f1", "f2", "w"]);
    let failed = RetentionPolicy::new().rule(RetentionRule {
        statuses: vec![InstanceStatus::Failed],
        ..newest(0)
    });
    until("the failed ones are gone", async || {
        client.apply_retention(&failed).await.unwrap();
        ids(&world).await == ["e3", "w"]
    })
    .await;
    let old = RetentionPolicy::new().rule(RetentionRule {
        ended_for: Some(HOUR),
        ..RetentionRule::default()
    });
    let done = client.apply_retention(&old).await.unwrap();
    assert_eq!(done.instances, 0, "nothing ended an hour ago");
    world.stop().await;
}

#[tokio::test]
async fn old_executions_of_an_instance_that_runs_go() {
    let world = world(quick()).await;
    world.begin("r", "rounds", "5").await;
    world.waits_for("r", "go").await;
    let client = &world.client;
    assert_eq!(client.list_executions("r").await.unwrap().len(), 6);
    let policy = RetentionPolicy::new().rule(RetentionRule {
        executions_kept: Some(2),
        ..RetentionRule::default()
    });
    let would = client.preview_retention(&policy).await.unwrap();
    assert_eq!(would.executions, 4);
    let done = client.apply_retention(&policy).await.unwrap();
    assert_eq!((done.instances, done.executions), (0, 4));
    assert_eq!(client.list_executions("r").await.unwrap(), [5, 6]);
    world.stop().await;
}

#[tokio::test]
async fn a_node_with_a_policy_applies_it_unless_another_has_the_duty() {
    let retention = Retention {
        interval: Duration::from_millis(20),
        ..Retention::of(RetentionPolicy::new().rule(newest(0)))
    };
    let options = RuntimeOptions {
        retention: Some(retention),
        ..quick()
    };
    let world = world(options).await;
    let admin = world.store.as_management_capability().unwrap();
    until("the duty is free and taken", async || {
        admin.hold_duty("retention", "another", HOUR).await.unwrap() == Some(true)
    })
    .await;
    world.run("kept", "echo", "").await;
    // Passes come and go; without the duty they delete nothing.
    world.run("also kept", "echo", "").await;
    assert_eq!(ids(&world).await.len(), 2);
    let back = admin.hold_duty("retention", "another", Duration::ZERO);
    back.await.unwrap();
    until("what has ended is gone", async || {
        ids(&world).await.is_empty()
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_policy_that_says_nothing_is_refused() {
    let world = world(quick()).await;
    let policy = RetentionPolicy::new().rule(RetentionRule::default());
    let refused = world.client.apply_retention(&policy).await.unwrap_err();
    assert!(refused.to_string().contains("ended_for"), "{refused}");
    let options = RuntimeOptions {
        retention: Some(Retention::of(policy)),
        ..quick()
    };
    assert!(options.validate().is_err());
    world.stop().await;
}

/// What ended an hour ago.
fn an_hour_old() -> RetentionPolicy {
    RetentionPolicy::new().rule(RetentionRule {
        ended_for: Some(HOUR),
        ..RetentionRule::default()
    })
}

/// A store whose clock shows 1970, whatever those of its clients and nodes show.
fn in_1970() -> Arc<dyn Provider> {
    Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)))
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_the_store_tells_what_is_old_for_a_client() {
    let world = world_on(in_1970(), quick()).await;
    world.run("e", "echo", "").await;
    let client = &world.client;
    let done = client.apply_retention(&an_hour_old()).await.unwrap();
    assert_eq!(done.instances, 0, "it ended a moment ago");
    let would = client.preview_retention(&an_hour_old()).await.unwrap();
    assert_eq!(would.instances, 0);
    tokio::time::sleep(2 * HOUR).await;
    let done = client.apply_retention(&an_hour_old()).await.unwrap();
    assert_eq!(done.instances, 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_the_store_tells_what_is_old_for_a_node() {
    let retention = Retention {
        interval: HOUR / 60,
        ..Retention::of(an_hour_old())
    };
    let options = RuntimeOptions {
        retention: Some(retention),
        ..quick()
    };
    let world = world_on(in_1970(), options).await;
    world.run("e", "echo", "").await;
    tokio::time::sleep(HOUR / 2).await;
    assert_eq!(ids(&world).await, ["e"]);
    tokio::time::sleep(HOUR).await;
    assert!(ids(&world).await.is_empty());
    world.stop().await;
}

#[tokio::test]
async fn an_instance_that_cannot_be_deleted_keeps_no_other_from_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let url = format!("sqlite:{}", file.display());
    let store = Arc::new(SqliteProvider::new(&url, None).await.unwrap());
    let world = world_on(store, quick()).await;
    for id in ["one", "stuck", "two"] {
        world.run(id, "echo", "").await;
    }
    let sql = "CREATE TRIGGER stuck BEFORE DELETE ON instances WHEN OLD.instance_id = 'stuck'
               BEGIN SELECT RAISE(ABORT, 'it is stuck'); END";
    let shell = rusqlite::Connection::open(&file).unwrap();
    shell.execute_batch(sql).unwrap();
    let everything = RetentionPolicy::new().rule(newest(0));
    let client = &world.client;
    until("three have ended before now", async || {
        let would = client.preview_retention(&everything).await;
        would.unwrap().instances == 3
    })
    .await;
    let done = client.apply_retention(&everything).await.unwrap();
    assert_eq!(done.instances, 2);
    assert_eq!(ids(&world).await, ["stuck"]);
    world.stop().await;
}
