//! What clients see: waiting, administration, errors.

use std::sync::Arc;
use std::time::Duration;

use duroxide::{
    ActivityContext, ClientError, InstanceFilter, OrchestrationContext, OrchestrationRegistry,
    PruneOptions,
};
use tokio::sync::Notify;

use crate::faulty;
use crate::support::{Notes, World, activities, in_memory, orchestrations, output, quick, until};

fn registry() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "echo",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .register("waits", |ctx: OrchestrationContext, _| async move {
            Ok(ctx.schedule_wait("go").await)
        })
        .register("parent", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_sub_orchestration_with_id("echo", "c", "x")
                .await
        })
        .build()
}

#[tokio::test]
async fn a_wait_of_any_length_is_a_wait() {
    let world = World::start(activities().build(), registry()).await;
    world.begin("i", "waits", "").await;
    world.waits_for("i", "go").await;
    let client = world.client.clone();
    let waiting =
        tokio::spawn(async move { client.wait_for_orchestration("i", Duration::MAX).await });
    world.raise("i", "go", "done").await;
    assert_eq!(output(&waiting.await.unwrap().unwrap()), "done");
    let at_once = world
        .client
        .wait_for_orchestration("i", Duration::ZERO)
        .await;
    assert!(at_once.is_ok() || matches!(at_once, Err(ClientError::Timeout)));
    world.stop().await;
}

#[tokio::test]
async fn waiting_reads_no_history_and_does_not_ask_again_and_again() {
    let store = faulty::over(in_memory().await);
    let world = World::on(store.clone(), activities().build(), registry(), quick()).await;
    world.begin("i", "waits", "").await;
    world.waits_for("i", "go").await;
    let reads = store.layer().calls("read") + store.layer().calls("read_with_execution");
    let asked = store.layer().calls("read_outcome");
    let client = world.client.clone();
    let waiting = tokio::spawn(async move {
        client
            .wait_for_orchestration("i", Duration::from_secs(20))
            .await
    });
    until("it waits", async || {
        store.layer().calls("read_outcome") > asked
    })
    .await;
    for n in 0..20 {
        // What happens to others is no reason to look.
        world.begin(format!("other {n}"), "waits", "").await;
        world.raise(format!("other {n}"), "go", "").await;
    }
    world.raise("i", "go", "done").await;
    assert_eq!(output(&waiting.await.unwrap().unwrap()), "done");
    assert_eq!(
        store.layer().calls("read") + store.layer().calls("read_with_execution"),
        reads
    );
    let asked = store.layer().calls("read_outcome") - asked;
    assert!(asked <= 6, "asked {asked} times");
    world.stop().await;
}

#[tokio::test]
async fn an_activity_costs_no_read_of_its_orchestrations_history() {
    let store = faulty::over(in_memory().await);
    let world = World::on(
        store.clone(),
        activities()
            .register("name", |ctx: ActivityContext, _| async move {
                Ok(ctx.orchestration_name().to_owned())
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let mut names = Vec::new();
                for _ in 0..5 {
                    names.push(ctx.schedule_activity("name", "").await?);
                }
                Ok(names.join(" "))
            })
            .build(),
        quick(),
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "").await), "o o o o o");
    let reads = store.layer().calls("read")
        + store.layer().calls("read_with_execution")
        + store.layer().calls("execution_handler");
    assert_eq!(reads, 0);
    world.stop().await;
}

#[tokio::test]
async fn a_wait_outlives_an_outage_of_the_store() {
    let store = faulty::over(in_memory().await);
    let world = World::on(store.clone(), activities().build(), registry(), quick()).await;
    world.begin("i", "echo", "fine").await;
    store.layer().unavailable("read_outcome", 4);
    assert_eq!(output(&world.outcome("i").await), "fine");
    // Asked directly, the client says what the store says.
    store.layer().unavailable("read_outcome", 1);
    let error = world
        .client
        .get_orchestration_status("i")
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error}");
    store.layer().unavailable("read_outcome", usize::MAX);
    let patience = Duration::from_millis(50);
    let waited = world.client.wait_for_orchestration("i", patience).await;
    assert!(matches!(waited, Err(ClientError::Timeout)), "{waited:?}");
    store.layer().heal("read_outcome");
    world.stop().await;
}

#[tokio::test]
async fn an_unknown_instance_is_not_found_whatever_is_asked_about_it() {
    let world = World::start(activities().build(), registry()).await;
    let client = &world.client;
    let errors = [
        client
            .get_instance_info("nobody")
            .await
            .map(|_| ())
            .unwrap_err(),
        client
            .get_execution_info("nobody", 1)
            .await
            .map(|_| ())
            .unwrap_err(),
        client
            .delete_instance("nobody", false)
            .await
            .map(|_| ())
            .unwrap_err(),
        client
            .prune_executions("nobody", PruneOptions::default())
            .await
            .map(|_| ())
            .unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(&error, ClientError::InstanceNotFound { instance_id } if instance_id == "nobody"),
            "{error:?}"
        );
        assert_eq!(error.to_string(), "Instance nobody not found");
    }
    assert!(client.list_executions("nobody").await.unwrap().is_empty());
    assert!(
        client
            .get_orchestration_stats("nobody")
            .await
            .unwrap()
            .is_none()
    );
    assert!(client.get_kv_all_values("nobody").await.unwrap().is_empty());
    world.stop().await;
}

#[tokio::test]
async fn what_an_operator_sees_has_times_and_no_output_while_it_runs() {
    let world = World::start(activities().build(), registry()).await;
    world.begin("i", "waits", "").await;
    world.waits_for("i", "go").await;
    let info = world.client.get_instance_info("i").await.unwrap();
    let execution = world.client.get_execution_info("i", 1).await.unwrap();
    let this_century = 1_700_000_000_000;
    assert!(
        info.created_at > this_century && info.updated_at >= info.created_at,
        "{info:?}"
    );
    assert!(execution.started_at > this_century, "{execution:?}");
    assert_eq!(
        (info.output, execution.output, execution.completed_at),
        (None, None, None)
    );
    assert_eq!(
        (info.status.as_str(), execution.event_count),
        ("Running", 2)
    );
    let missing = world.client.get_execution_info("i", 9).await.unwrap_err();
    assert!(matches!(missing, ClientError::Provider(_)), "{missing:?}");

    world.raise("i", "go", "done").await;
    world.outcome("i").await;
    let info = world.client.get_instance_info("i").await.unwrap();
    assert_eq!(
        (info.status.as_str(), info.output.as_deref()),
        ("Completed", Some("done"))
    );
    let stats = world
        .client
        .get_orchestration_stats("i")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stats.history_event_count, 4);
    let totals = world.client.get_system_metrics().await.unwrap();
    assert_eq!((totals.total_instances, totals.completed_instances), (1, 1));
    world.stop().await;
}

#[tokio::test]
async fn only_whole_trees_that_have_ended_are_deleted() {
    let world = World::start(activities().build(), registry()).await;
    assert_eq!(output(&world.run("p", "parent", "").await), "x");
    let child = world.client.delete_instance("c", true).await.unwrap_err();
    assert!(
        matches!(child, ClientError::CannotDeleteSubOrchestration { .. }),
        "{child:?}"
    );
    world.begin("i", "waits", "").await;
    world.waits_for("i", "go").await;
    let running = world.client.delete_instance("i", false).await.unwrap_err();
    assert!(
        matches!(running, ClientError::InstanceStillRunning { .. }),
        "{running:?}"
    );
    let deleted = world
        .client
        .delete_instance_bulk(InstanceFilter::default())
        .await
        .unwrap();
    assert_eq!(deleted.instances_deleted, 2);
    assert_eq!(world.client.list_all_instances().await.unwrap(), ["i"]);
    assert_eq!(
        world
            .client
            .delete_instance("i", true)
            .await
            .unwrap()
            .instances_deleted,
        1
    );
    world.stop().await;
}

#[tokio::test]
async fn an_instance_deleted_under_a_running_activity_leaves_nothing_behind() {
    let (release, notes) = (Arc::new(Notify::new()), Notes::default());
    let slow = {
        let (release, notes) = (release.clone(), notes.clone());
        move |_: ActivityContext, _| {
            let (release, notes) = (release.clone(), notes.clone());
            async move {
                release.notified().await;
                notes.add("ended");
                Ok("too late".to_owned())
            }
        }
    };
    let world = World::start(
        activities().register("slow", slow).build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("slow", "").await
            })
            .register(
                "echo",
                |_: OrchestrationContext, input: String| async move { Ok(input) },
            )
            .build(),
    )
    .await;
    world.begin("i", "o", "").await;
    world.claimed_activities(1).await;
    world.client.delete_instance("i", true).await.unwrap();
    release.notify_one();
    notes.wait_for("ended").await;
    assert_eq!(output(&world.run("j", "echo", "alive").await), "alive");
    let (store, client) = (world.store.clone(), world.client.clone());
    // A shutdown waits for the activity to be put away.
    world.stop().await;
    assert!(store.read("i").await.unwrap().is_empty());
    assert_eq!(client.list_all_instances().await.unwrap(), ["j"]);
}
