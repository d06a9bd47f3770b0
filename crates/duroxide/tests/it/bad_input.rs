//! What nobody should send, and what handlers should not do. Each gets a clear answer; nobody else is affected.

use std::time::{Duration, Instant};

use duroxide::{
    ActivityContext, ClientError, ErrorDetails, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus, RuntimeOptions,
};

use crate::support::{
    Notes, World, activities, details, failure, in_memory, orchestrations, output, quick, until,
};

fn echo() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "echo",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.set_kv_value(input.clone(), input.clone());
                let back = ctx.schedule_activity("echo", input.clone()).await?;
                let child = ctx.schedule_sub_orchestration("leaf", input).await?;
                assert_eq!(back, child);
                ctx.schedule_wait("go").await;
                Ok(back)
            },
        )
        .register(
            "leaf",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .build()
}

#[tokio::test]
async fn any_text_is_an_instance_id_an_input_and_a_key_and_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let store = duroxide::providers::sqlite::SqliteProvider::new(&url, None)
        .await
        .unwrap();
    let world = World::on(
        std::sync::Arc::new(store),
        activities()
            .register("echo", |_, input| async move { Ok(input) })
            .build(),
        echo(),
        quick(),
    )
    .await;
    let hostile = [
        "'; DROP TABLE instances; --",
        "\" OR 1=1",
        "<script>alert(1)</script>",
        "line\nbreak\ttab\r\u{7}bell",
        "nul\0inside",
        "\u{202e}right to left \u{1f980} ünï",
        "../../etc/passwd",
        "%s%n{}{0}",
        " ",
        "::",
        "a::b",
    ];
    for id in hostile {
        world
            .client
            .start_orchestration(id, "echo", id)
            .await
            .unwrap();
        world.waits_for(id, "go").await;
        world.client.raise_event(id, "go", id).await.unwrap();
        assert_eq!(output(&world.outcome(id).await), id);
        assert_eq!(
            world.client.get_kv_value(id, id).await.unwrap().as_deref(),
            Some(id)
        );
        assert_eq!(
            world
                .client
                .get_instance_info(id)
                .await
                .unwrap()
                .instance_id,
            id
        );
        let tree = world.client.get_instance_tree(id).await.unwrap();
        assert_eq!(tree.size(), 2, "{:?}", tree.all_ids);
    }
    assert_eq!(
        world.client.list_all_instances().await.unwrap().len(),
        2 * hostile.len()
    );
    let deleted = world
        .client
        .delete_instance(hostile[0], false)
        .await
        .unwrap();
    assert_eq!(deleted.instances_deleted, 2);
    world.stop().await;
}

#[tokio::test]
async fn ids_that_cannot_be_used_are_refused_before_anything_is_stored() {
    let world = World::start(activities().build(), echo()).await;
    let long = "x".repeat(10 * 1024);
    for (id, why) in [
        ("", "must not be empty"),
        (long.as_str(), "exceeds limit"),
        ("sub::1", "reserved sub-orchestration marker 'sub::'"),
        ("a::sub::1", "reserved sub-orchestration marker 'sub::'"),
    ] {
        let refused = world
            .client
            .start_orchestration(id, "leaf", "")
            .await
            .unwrap_err();
        assert!(
            matches!(refused, ClientError::InvalidInput { .. }),
            "{refused:?}"
        );
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(!refused.is_retryable());
    }
    // Others may be asked about them all the same.
    for id in ["", long.as_str(), "sub::1"] {
        let status = world.client.get_orchestration_status(id).await.unwrap();
        assert_eq!(status, OrchestrationStatus::NotFound);
        world.client.raise_event(id, "go", "").await.unwrap();
        world.client.cancel_instance(id, "").await.unwrap();
    }
    assert_eq!(output(&world.run("i", "leaf", "alive").await), "alive");
    world.stop().await;
}

#[tokio::test]
async fn a_child_or_detached_id_that_is_empty_or_too_long_hurts_nobody_else() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register(
                "leaf",
                |_: OrchestrationContext, input: String| async move { Ok(input) },
            )
            .register(
                "child",
                |ctx: OrchestrationContext, id: String| async move {
                    ctx.schedule_sub_orchestration_with_id("leaf", id, "").await
                },
            )
            .build(),
    )
    .await;
    for (n, id) in ["x".repeat(10 * 1024), String::new()]
        .into_iter()
        .enumerate()
    {
        world
            .client
            .start_orchestration(format!("p{n}"), "child", id)
            .await
            .unwrap();
        let ended = world.outcome(&format!("p{n}")).await;
        assert!(
            !matches!(ended, OrchestrationStatus::Running { .. }),
            "{ended:?}"
        );
    }
    assert_eq!(output(&world.run("i", "leaf", "alive").await), "alive");
    world.stop().await;
}

#[tokio::test]
async fn a_payload_of_100_mb_is_refused_at_once() {
    let world = World::start(activities().build(), echo()).await;
    let huge = "x".repeat(100 * 1024 * 1024);
    let client = &world.client;
    let begun = Instant::now();
    let refused = [
        client
            .start_orchestration("i", "leaf", huge.as_str())
            .await
            .unwrap_err(),
        client
            .raise_event("i", "go", huge.as_str())
            .await
            .unwrap_err(),
        client
            .enqueue_event("i", "q", huge.as_str())
            .await
            .unwrap_err(),
        client
            .cancel_instance("i", huge.as_str())
            .await
            .unwrap_err(),
    ];
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    for error in refused {
        let text = error.to_string();
        assert!(
            text.contains("size (104857600 bytes) exceeds limit (2097152 bytes)"),
            "{text}"
        );
    }
    for refused in [
        client.start_orchestration("i", huge.as_str(), "").await,
        client.raise_event("i", huge.as_str(), "").await,
        client.enqueue_event("i", huge.as_str(), "").await,
        client.raise_event(huge.as_str(), "go", "").await,
        client.cancel_instance(huge.as_str(), "").await,
    ] {
        assert!(matches!(refused, Err(ClientError::InvalidInput { .. })));
    }
    let typed = client
        .start_orchestration_typed("i", "leaf", &huge)
        .await
        .unwrap_err();
    assert!(matches!(typed, ClientError::InvalidInput { .. }));
    assert_eq!(
        client.get_queue_depths().await.unwrap().orchestrator_queue,
        0
    );
    world.stop().await;
}

#[tokio::test]
async fn a_payload_that_is_too_large_inside_is_a_recorded_failure_that_stores_nothing_of_it() {
    let options = RuntimeOptions {
        payload_bytes_max: 1_000,
        ..quick()
    };
    let world = World::with_options(
        activities()
            .register("big", |_: ActivityContext, _| async {
                Ok("x".repeat(1_001))
            })
            .register("big error", |_: ActivityContext, _| async {
                Err("x".repeat(1_001))
            })
            .build(),
        orchestrations()
            .register("input", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("big", "x".repeat(1_001)).await
            })
            .register("output", |_: OrchestrationContext, _| async {
                Ok("x".repeat(1_001))
            })
            .register("child", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_sub_orchestration("output", "x".repeat(1_001))
                    .await
            })
            .register("continue", |ctx: OrchestrationContext, _| async move {
                ctx.continue_as_new("x".repeat(1_001)).await
            })
            .register("result", |ctx: OrchestrationContext, _| async move {
                let one = ctx.schedule_activity("big", "").await.unwrap_err();
                let two = ctx.schedule_activity("big error", "").await.unwrap_err();
                Ok(format!("{one}; {two}"))
            })
            .register("exactly", |_: OrchestrationContext, _| async {
                Ok("x".repeat(1_000))
            })
            .build(),
        options,
    )
    .await;
    for (name, what) in [
        ("input", "Activity 'big' input"),
        ("output", "Orchestration output"),
        ("child", "Sub-orchestration 'output' input"),
        ("continue", "Continue-as-new input"),
    ] {
        let text = failure(&world.run(name, name, "").await);
        assert_eq!(
            text,
            format!("{what} size (1001 bytes) exceeds limit (1000 bytes)")
        );
        let stored = serde_json::to_string(&world.history(name).await).unwrap();
        assert!(stored.len() < 2_000, "{} bytes", stored.len());
    }
    let status = world.run("result", "result", "").await;
    assert_eq!(
        output(&status),
        "Activity 'big' result size (1001 bytes) exceeds limit (1000 bytes); Activity 'big error' result size (1001 bytes) exceeds limit (1000 bytes)"
    );
    assert_eq!(
        output(&world.run("exactly", "exactly", "").await).len(),
        1_000
    );
    world.stop().await;
}

#[tokio::test]
async fn a_history_that_grows_too_long_is_a_clear_failure() {
    let options = RuntimeOptions {
        history_events_max: Some(20),
        ..quick()
    };
    let world = World::with_options(
        activities()
            .register("a", |_, input| async move { Ok(input) })
            .build(),
        orchestrations()
            .register("endless", |ctx: OrchestrationContext, _| async move {
                loop {
                    ctx.schedule_activity("a", "").await?;
                }
            })
            .build(),
        options,
    )
    .await;
    let text = failure(&world.run("i", "endless", "").await);
    assert!(
        text.contains("exceeds limit (20 events); use continue_as_new"),
        "{text}"
    );
    world.stop().await;
}

#[tokio::test]
async fn an_orchestration_nobody_registers_is_poisoned_and_others_go_on() {
    let options = RuntimeOptions {
        max_attempts: 3,
        ..quick()
    };
    let world = World::with_options(activities().build(), echo(), options).await;
    for name in ["nobody", "", "'; --"] {
        world
            .client
            .start_orchestration(format!("i{name}"), name, "")
            .await
            .unwrap();
    }
    assert_eq!(output(&world.run("alive", "leaf", "x").await), "x");
    for name in ["nobody", "", "'; --"] {
        let failed = details(world.outcome(&format!("i{name}")).await);
        assert!(matches!(failed, ErrorDetails::Poison { .. }), "{failed:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn panics_stay_where_they_happen_and_are_told_in_words() {
    let world = World::start(
        activities()
            .register("panics", |_: ActivityContext, how: String| async move {
                if how == "odd" {
                    std::panic::panic_any(7_u32);
                }
                panic!("activity {how}")
            })
            .build(),
        orchestrations()
            .register(
                "panics",
                |ctx: OrchestrationContext, how: String| async move {
                    match how.as_str() {
                        "odd" => std::panic::panic_any(7_u32),
                        "later" => {
                            ctx.schedule_timer(Duration::from_millis(1)).await;
                            panic!("later");
                        }
                        _ => panic!("orchestration {how}"),
                    }
                },
            )
            .register("building", |_: OrchestrationContext, how: String| {
                assert!(how.is_empty(), "while building the future");
                async { Ok(String::new()) }
            })
            .register(
                "catches",
                |ctx: OrchestrationContext, how: String| async move {
                    Ok(ctx.schedule_activity("panics", how).await.unwrap_err())
                },
            )
            .register("on drop", |ctx: OrchestrationContext, _| async move {
                struct Bomb;
                impl Drop for Bomb {
                    fn drop(&mut self) {
                        if !std::thread::panicking() {
                            panic!("while dropped");
                        }
                    }
                }
                let _bomb = Bomb;
                ctx.schedule_wait("go").await;
                Ok(String::new())
            })
            .register(
                "fine",
                |_: OrchestrationContext, input: String| async move { Ok(input) },
            )
            .build(),
    )
    .await;
    for (id, name, how, words) in [
        (
            "a",
            "panics",
            "boom",
            "orchestration panicked: orchestration boom",
        ),
        (
            "b",
            "panics",
            "odd",
            "orchestration panicked: orchestration panicked",
        ),
        ("c", "panics", "later", "orchestration panicked: later"),
        (
            "d",
            "building",
            "x",
            "orchestration panicked: while building the future",
        ),
    ] {
        assert_eq!(failure(&world.run(id, name, how).await), words);
    }
    assert_eq!(
        output(&world.run("e", "catches", "boom").await),
        "activity panicked: activity boom"
    );
    assert_eq!(
        output(&world.run("f", "catches", "odd").await),
        "activity panicked"
    );
    world
        .client
        .start_orchestration("g", "on drop", "")
        .await
        .unwrap();
    world.waits_for("g", "go").await;
    world.client.cancel_instance("g", "enough").await.unwrap();
    assert_eq!(failure(&world.outcome("g").await), "canceled: enough");
    assert_eq!(output(&world.run("h", "fine", "alive").await), "alive");
    world.stop().await;
}

#[tokio::test]
async fn an_orchestration_that_blocks_its_thread_delays_nobody_else() {
    let notes = Notes::default();
    let seen = notes.clone();
    // A single thread drives everything else.
    let world = World::start(
        activities()
            .register("echo", |_, input| async move { Ok(input) })
            .build(),
        orchestrations()
            .register("blocks", move |_: OrchestrationContext, _| {
                let seen = seen.clone();
                async move {
                    seen.add("blocks");
                    std::thread::sleep(Duration::from_secs(3));
                    Ok("slow".to_owned())
                }
            })
            .register("spins", |_: OrchestrationContext, _| async {
                let end = Instant::now() + Duration::from_secs(2);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                Ok("slow".to_owned())
            })
            .register(
                "quick",
                |ctx: OrchestrationContext, input: String| async move {
                    ctx.schedule_activity("echo", input).await
                },
            )
            .build(),
    )
    .await;
    for n in 0..3 {
        world
            .client
            .start_orchestration(format!("slow{n}"), "blocks", "")
            .await
            .unwrap();
    }
    world
        .client
        .start_orchestration("slow3", "spins", "")
        .await
        .unwrap();
    notes.wait_for("blocks").await;
    let begun = Instant::now();
    for n in 0..10 {
        assert_eq!(
            output(&world.run(&format!("q{n}"), "quick", "x").await),
            "x"
        );
    }
    assert!(
        begun.elapsed() < Duration::from_millis(2_500),
        "{:?}",
        begun.elapsed()
    );
    for n in 0..4 {
        assert_eq!(output(&world.outcome(&format!("slow{n}")).await), "slow");
    }
    world.stop().await;
}

#[tokio::test]
async fn an_activity_that_blocks_its_thread_delays_nobody_else() {
    let notes = Notes::default();
    let seen = notes.clone();
    // A single thread drives everything else.
    let world = World::start(
        activities()
            .register("echo", |_, input| async move { Ok(input) })
            .register("blocks", move |_: ActivityContext, _| {
                let seen = seen.clone();
                async move {
                    seen.add("blocks");
                    std::thread::sleep(Duration::from_secs(3));
                    Ok("slow".to_owned())
                }
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, name: String| async move {
                ctx.schedule_activity(name, "x").await
            })
            .build(),
    )
    .await;
    for n in 0..4 {
        world
            .client
            .start_orchestration(format!("slow{n}"), "o", "blocks")
            .await
            .unwrap();
    }
    until("all of them block", async || notes.count("blocks") == 4).await;
    let begun = Instant::now();
    for n in 0..10 {
        assert_eq!(output(&world.run(&format!("q{n}"), "o", "echo").await), "x");
    }
    assert!(
        begun.elapsed() < Duration::from_millis(2_500),
        "{:?}",
        begun.elapsed()
    );
    for n in 0..4 {
        assert_eq!(output(&world.outcome(&format!("slow{n}")).await), "slow");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_flood_of_starts_for_one_id_makes_one_instance() {
    let notes = Notes::default();
    let seen = notes.clone();
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    for n in 0..100 {
        client
            .start_orchestration("i", "o", n.to_string())
            .await
            .unwrap();
    }
    let world = World::on(
        store,
        activities()
            .register("once", move |_: ActivityContext, input: String| {
                seen.add(input.clone());
                async move { Ok(input) }
            })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("once", input).await
            })
            .build(),
        quick(),
    )
    .await;
    assert_eq!(output(&world.outcome("i").await), "0");
    until("the queue is empty", async || {
        world
            .client
            .get_queue_depths()
            .await
            .unwrap()
            .orchestrator_queue
            == 0
    })
    .await;
    assert_eq!(notes.all(), ["0"]);
    world.stop().await;
}

#[tokio::test]
async fn more_children_than_any_batch_complete_with_ordinary_combinators() {
    for count in [1_023, 1_025] {
        let world = World::start(
            activities()
                .register("echo", |_, input| async move { Ok(input) })
                .build(),
            orchestrations()
                .register(
                    "fan",
                    |ctx: OrchestrationContext, count: String| async move {
                        let count: usize = count.parse().map_err(|_| "count")?;
                        let work = (0..count).map(|n| ctx.schedule_activity("echo", n.to_string()));
                        let results = futures::future::join_all(work).await;
                        let good = results
                            .iter()
                            .enumerate()
                            .filter(|(n, r)| r.as_deref() == Ok(n.to_string().as_str()));
                        Ok(good.count().to_string())
                    },
                )
                .build(),
        )
        .await;
        let status = world.run("i", "fan", &count.to_string()).await;
        assert_eq!(output(&status), count.to_string());
        world.stop().await;
    }
}
