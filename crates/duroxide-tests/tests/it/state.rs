//! Key-values and custom status.

use std::collections::HashMap;
use std::time::Duration;

use duroxide::{OrchestrationContext, OrchestrationStatus};

use crate::support::{PATIENCE, World, activities, failure, orchestrations, output};

/// The instance `w` has set and cleared key-values and waits for `go`, upon which it clears all and sets one.
async fn world_with_values() -> World {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("writer", |ctx: OrchestrationContext, _| async move {
                ctx.set_kv_value("plain", "text");
                ctx.set_kv_value_typed("typed", &vec![1, 2]);
                ctx.set_kv_value("gone", "x");
                ctx.clear_kv_value("gone");
                let list: Vec<u32> = ctx.get_kv_value_typed("typed")?.unwrap();
                let keys = ctx.get_kv_all_keys();
                let length = ctx.get_kv_length();
                ctx.schedule_wait("go").await;
                ctx.clear_all_kv_values();
                ctx.set_kv_value("last", "1");
                Ok(format!("{list:?} {keys:?} {length}"))
            })
            .register("reader", |ctx: OrchestrationContext, _| async move {
                let plain = ctx.get_kv_value_from_instance("w", "plain").await?;
                let typed: Option<Vec<u32>> =
                    ctx.get_kv_value_from_instance_typed("w", "typed").await?;
                let none = ctx.get_kv_value_from_instance("nobody", "plain").await?;
                Ok(format!("{plain:?} {typed:?} {none:?}"))
            })
            .build(),
    )
    .await;
    world.begin("w", "writer", "").await;
    let plain = world.client.wait_for_kv_value("w", "plain", PATIENCE);
    assert_eq!(plain.await.unwrap(), "text");
    world
}

#[tokio::test]
async fn code_reads_the_key_values_that_it_has_set() {
    let world = world_with_values().await;
    world.raise("w", "go", "").await;
    let read = world.outcome("w").await;
    assert_eq!(output(&read), "[1, 2] [\"plain\", \"typed\"] 2");
    world.stop().await;
}

#[tokio::test]
async fn clients_read_the_key_values_of_an_instance() {
    let world = world_with_values().await;
    let client = &world.client;
    let typed: Vec<u32> = client
        .wait_for_kv_value_typed("w", "typed", PATIENCE)
        .await
        .unwrap();
    assert_eq!(typed, [1, 2]);
    let wrong = client.get_kv_value_typed::<u32>("w", "plain").await;
    assert!(wrong.is_err(), "{wrong:?}");
    assert_eq!(client.get_kv_value("w", "gone").await.unwrap(), None);
    world.stop().await;
}

#[tokio::test]
async fn instances_read_the_key_values_of_another_one() {
    let world = world_with_values().await;
    let read = world.run("r", "reader", "").await;
    assert_eq!(output(&read), "Some(\"text\") Some([1, 2]) None");
    world.stop().await;
}

#[tokio::test]
async fn what_was_set_after_all_was_cleared_is_left_when_an_instance_has_ended() {
    let world = world_with_values().await;
    world.raise("w", "go", "").await;
    world.outcome("w").await;
    let left = HashMap::from([("last".to_owned(), "1".to_owned())]);
    assert_eq!(world.client.get_kv_all_values("w").await.unwrap(), left);
    world.stop().await;
}

#[tokio::test]
async fn old_values_are_pruned_the_same_way_in_every_replay() {
    let options = duroxide::RuntimeOptions {
        sticky_instances_max: 0,
        ..crate::support::quick()
    };
    let world = World::with_options(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.set_kv_value("a", "1");
                let now = ctx.utc_now().await?;
                let cutoff =
                    now.duration_since(std::time::UNIX_EPOCH).unwrap() + Duration::from_millis(50);
                let pruned = ctx.prune_kv_values_updated_before(cutoff.as_millis() as u64);
                ctx.schedule_timer(Duration::from_millis(80)).await;
                ctx.schedule_timer(Duration::ZERO).await;
                Ok(format!("{pruned} {}", ctx.get_kv_length()))
            })
            .build(),
        options,
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "").await), "1 0");
    world.stop().await;
}

#[tokio::test]
async fn custom_status_counts_commits_and_wakes_who_waits_for_it() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.set_custom_status("one");
                ctx.set_custom_status("two");
                ctx.schedule_wait("go").await;
                ctx.reset_custom_status();
                ctx.schedule_wait("end").await;
                ctx.set_custom_status("end");
                Ok(String::new())
            })
            .build(),
    )
    .await;
    let tick = Duration::from_millis(10);
    let seen = |status: OrchestrationStatus| match status {
        OrchestrationStatus::Running {
            custom_status,
            custom_status_version,
        }
        | OrchestrationStatus::Completed {
            custom_status,
            custom_status_version,
            ..
        } => (custom_status, custom_status_version),
        other => panic!("{other:?}"),
    };
    world.begin("i", "o", "").await;
    let first = seen(
        world
            .client
            .wait_for_status_change("i", 0, tick, PATIENCE)
            .await
            .unwrap(),
    );
    assert_eq!(first, (Some("two".to_owned()), 1));
    world.waits_for("i", "go").await;
    world.raise("i", "go", "").await;
    let second = seen(
        world
            .client
            .wait_for_status_change("i", 1, tick, PATIENCE)
            .await
            .unwrap(),
    );
    assert_eq!(second, (None, 2));
    world.waits_for("i", "end").await;
    world.raise("i", "end", "").await;
    let last = seen(
        world
            .client
            .wait_for_status_change("i", 2, tick, PATIENCE)
            .await
            .unwrap(),
    );
    assert_eq!(last, (Some("end".to_owned()), 3));
    // Nothing newer will come, but it has ended.
    seen(
        world
            .client
            .wait_for_status_change("i", 3, tick, PATIENCE)
            .await
            .unwrap(),
    );
    world.stop().await;
}

#[tokio::test]
async fn keys_are_counted_over_all_turns_of_an_instance() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                for turn in 0..4 {
                    for n in 0..50 {
                        ctx.set_kv_value(format!("{turn}-{n}"), "");
                    }
                    ctx.schedule_timer(Duration::ZERO).await;
                }
                Ok("all".to_owned())
            })
            .build(),
    )
    .await;
    assert_eq!(
        failure(&world.run("i", "o", "").await),
        "KV key count (200) exceeds limit (150)"
    );
    assert_eq!(
        world.client.get_kv_all_values("i").await.unwrap().len(),
        150
    );
    world.stop().await;
}
