//! Which worker runs an activity: tags and sessions.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::{
    ActivityContext, ActivityOptions, ActivityRegistry, OrchestrationContext,
    OrchestrationRegistry, RuntimeOptions, TagFilter,
};
use tokio::sync::Semaphore;

use crate::faulty;
use crate::support::{
    Notes, World, activities, failure, in_memory, orchestrations, output, quick, until,
};

fn only(filter: TagFilter) -> RuntimeOptions {
    RuntimeOptions {
        worker_tag_filter: filter,
        ..quick()
    }
}

fn named(node: &'static str) -> ActivityRegistry {
    activities()
        .register("where", move |ctx: ActivityContext, _| async move {
            Ok(format!("{node} {:?}", ctx.tag()))
        })
        .build()
}

#[tokio::test]
async fn tags_bring_activities_to_the_workers_that_take_them() {
    let store = in_memory().await;
    let code = orchestrations()
        .register("o", |ctx: OrchestrationContext, _| async move {
            let gpu = ctx.schedule_activity("where", "").with_tag("gpu");
            let any = ctx.schedule_activity("where", "");
            let (gpu, any) = ctx.join2(gpu, any).await;
            Ok(format!("{} {}", gpu?, any?))
        })
        .build();
    let gpu = World::on(
        store.clone(),
        named("gpu"),
        code.clone(),
        only(TagFilter::tags(["gpu"])),
    )
    .await;
    let rest = World::on(store, named("rest"), code, only(TagFilter::default_only())).await;
    for n in 0..5 {
        let status = rest.run(&format!("i{n}"), "o", "").await;
        assert_eq!(output(&status), "gpu Some(\"gpu\") rest None");
    }
    gpu.stop().await;
    rest.stop().await;
}

#[tokio::test]
async fn system_calls_need_no_worker_at_all() {
    let world = World::with_options(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.set_kv_value("k", "v");
                let guid = ctx.new_guid().await?;
                let now = ctx.utc_now().await?;
                let other = ctx.get_kv_value_from_instance("nobody", "k").await?;
                Ok(format!(
                    "{} {} {other:?}",
                    guid.len(),
                    now.elapsed().is_ok()
                ))
            })
            .build(),
        only(TagFilter::tags(["gpu"])),
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "").await), "36 true None");
    world.stop().await;
}

/// Code that calls an activity which takes as long as `work`, and has to be taken by a worker within `limit`.
async fn limited(limit: Duration, work: Duration) -> World {
    let slow = move |_: ActivityContext, _| async move {
        tokio::time::sleep(work).await;
        Ok("done".to_owned())
    };
    let calls = move |ctx: OrchestrationContext, tag: String| async move {
        let mut options = ActivityOptions::new().with_start_timeout(limit);
        if !tag.is_empty() {
            options = options.with_tag(tag);
        }
        ctx.schedule_activity_with_options("slow", "", options)
            .await
    };
    World::start(
        activities().register("slow", slow).build(),
        orchestrations().register("o", calls).build(),
    )
    .await
}

#[tokio::test]
async fn an_activity_that_no_worker_takes_is_given_up_after_its_start_timeout() {
    let world = limited(Duration::from_millis(40), Duration::ZERO).await;
    let text = failure(&world.run("starves", "o", "nobody").await);
    assert_eq!(text, "timeout: no worker took activity 'slow' within 40ms");
    until("it left the queue", async || {
        world.client.get_queue_depths().await.unwrap().worker_queue == 0
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn an_activity_that_was_taken_in_time_may_take_longer_than_its_start_timeout() {
    // Long enough for a worker on a busy machine.
    let limit = Duration::from_secs(2);
    let world = limited(limit, limit + Duration::from_millis(200)).await;
    assert_eq!(output(&world.run("taken", "o", "").await), "done");
    world.stop().await;
}

#[tokio::test]
async fn the_memory_store_also_knows_whether_a_worker_took_an_activity() {
    let store: Arc<dyn Provider> = Arc::new(duroxide::providers::memory::MemoryProvider::new());
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let options = ActivityOptions::new()
                    .with_tag("nobody")
                    .with_start_timeout(Duration::from_millis(20));
                ctx.schedule_activity_with_options("slow", "", options)
                    .await
            })
            .build(),
        quick(),
    )
    .await;
    let text = failure(&world.run("i", "o", "").await);
    assert_eq!(text, "timeout: no worker took activity 'slow' within 20ms");
    world.stop().await;
}

#[tokio::test]
async fn a_runtime_that_can_get_no_activity_does_not_ask_for_any() {
    let store = faulty::over(in_memory().await);
    let echo = |_: OrchestrationContext, input: String| async move { Ok(input) };
    let registry = || orchestrations().register("o", echo).build();
    for options in [
        only(TagFilter::none()),
        RuntimeOptions {
            worker_concurrency: 0,
            ..quick()
        },
    ] {
        let world = World::on(store.clone(), activities().build(), registry(), options).await;
        world.run("i", "o", "").await;
        world.stop().await;
    }
    assert_eq!(
        store.layer().calls("claim_work") + store.layer().calls("fetch_work_item"),
        0
    );
}

/// Says where it runs and waits for a permit.
fn held(notes: &Notes, permits: &Arc<Semaphore>) -> ActivityRegistry {
    let (notes, permits) = (notes.clone(), permits.clone());
    activities()
        .register("held", move |ctx: ActivityContext, input: String| {
            let (notes, permits) = (notes.clone(), permits.clone());
            async move {
                notes.add(format!("{input} runs"));
                notes.add(ctx.worker_id());
                let permit = permits.acquire().await;
                drop(permit);
                Ok(ctx.worker_id().to_owned())
            }
        })
        .register("free", |_: ActivityContext, input| async move { Ok(input) })
        .build()
}

fn on_sessions() -> OrchestrationRegistry {
    orchestrations()
        .register(
            "on session",
            |ctx: OrchestrationContext, session: String| async move {
                let id = ctx.instance_id();
                ctx.schedule_activity_on_session("held", id, session).await
            },
        )
        .register("free", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_activity("free", "").await
        })
        .build()
}

#[tokio::test]
async fn a_session_stays_with_the_worker_that_took_it() {
    let store = in_memory().await;
    let (notes, open) = (Notes::default(), Arc::new(Semaphore::new(100)));
    let mut worlds = Vec::new();
    for _ in 0..2 {
        worlds.push(World::on(store.clone(), held(&notes, &open), on_sessions(), quick()).await);
    }
    let mut workers = std::collections::HashSet::new();
    for n in 0..10 {
        let status = worlds[0].run(&format!("i{n}"), "on session", "s").await;
        workers.insert(output(&status).to_owned());
    }
    assert_eq!(workers.len(), 1, "{workers:?}");
    for world in worlds {
        world.stop().await;
    }
}

#[tokio::test]
async fn without_a_node_id_the_activities_of_a_session_run_one_after_the_other() {
    let (notes, closed) = (Notes::default(), Arc::new(Semaphore::new(0)));
    let world = World::start(held(&notes, &closed), on_sessions()).await;
    for id in ["one", "two"] {
        world.begin(id, "on session", "s").await;
    }
    until("one of them runs", async || notes.all().len() == 2).await;
    // Work without a session is not held up by the one that waits for its turn.
    assert_eq!(output(&world.run("free", "free", "").await), "");
    assert_eq!(notes.all().len(), 2, "{:?}", notes.all());
    closed.add_permits(1);
    let one = world.outcome("one").await;
    let two = world.outcome("two").await;
    assert_eq!(output(&one), output(&two), "the same worker");
    world.stop().await;
}

#[tokio::test]
async fn activities_that_wait_for_their_session_leave_room_for_others() {
    let (notes, closed) = (Notes::default(), Arc::new(Semaphore::new(0)));
    let options = RuntimeOptions {
        worker_concurrency: 2,
        ..quick()
    };
    let world = World::with_options(held(&notes, &closed), on_sessions(), options).await;
    for n in 0..6 {
        world.begin(format!("i{n}"), "on session", "s").await;
    }
    until("one of them runs", async || !notes.all().is_empty()).await;
    for n in 0..5 {
        assert_eq!(
            output(&world.run(&format!("free{n}"), "free", "").await),
            ""
        );
    }
    closed.add_permits(1);
    for n in 0..6 {
        world.outcome(&format!("i{n}")).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn with_a_node_id_all_slots_serve_a_session_and_a_restart_keeps_it() {
    let store = in_memory().await;
    let (notes, closed) = (Notes::default(), Arc::new(Semaphore::new(0)));
    let node = || RuntimeOptions {
        worker_node_id: Some("node-7".to_owned()),
        ..quick()
    };
    let world = World::on(store.clone(), held(&notes, &closed), on_sessions(), node()).await;
    for id in ["one", "two"] {
        world.begin(id, "on session", "s").await;
    }
    notes.wait_for("one runs").await;
    notes.wait_for("two runs").await;
    closed.add_permits(1);
    for id in ["one", "two"] {
        let status = world.outcome(id).await;
        assert!(output(&status).ends_with("-node-7"), "{status:?}");
    }
    world.stop().await;

    // The lease of the session still has 30 s to go; only the same node may serve it.
    let again = World::on(store, held(&notes, &closed), on_sessions(), node()).await;
    let status = again.run("three", "on session", "s").await;
    assert!(output(&status).ends_with("-node-7"), "{status:?}");
    again.stop().await;
}

#[tokio::test]
async fn no_more_sessions_are_busy_at_once_than_allowed() {
    let (notes, closed) = (Notes::default(), Arc::new(Semaphore::new(0)));
    let options = RuntimeOptions {
        max_sessions_per_runtime: 2,
        ..quick()
    };
    let world = World::with_options(held(&notes, &closed), on_sessions(), options).await;
    for id in ["a", "b", "c", "d"] {
        world.begin(id, "on session", id).await;
    }
    let running = || notes.all().iter().filter(|n| n.ends_with("runs")).count();
    until("two run", async || running() == 2).await;
    assert_eq!(output(&world.run("free", "free", "").await), "");
    assert_eq!(running(), 2);
    closed.add_permits(1);
    for id in ["a", "b", "c", "d"] {
        world.outcome(id).await;
    }
    assert_eq!(running(), 4);
    world.stop().await;
}

#[tokio::test]
async fn a_late_tag_fails_the_orchestration_and_nothing_else() {
    let world = World::start(
        activities()
            .register("free", |_, input| async move { Ok(input) })
            .build(),
        orchestrations()
            .register("late", |ctx: OrchestrationContext, _| async move {
                let work = ctx.schedule_activity("free", "");
                ctx.schedule_timer(Duration::from_millis(1)).await;
                work.with_tag("gpu").await
            })
            .register("timer", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_timer(Duration::ZERO).with_tag("gpu").await;
                Ok(String::new())
            })
            .register("o", |_: OrchestrationContext, input: String| async move {
                Ok(input)
            })
            .build(),
    )
    .await;
    let text = failure(&world.run("i", "late", "").await);
    assert!(
        text.contains("with_tag() was called after the activity was recorded"),
        "{text}"
    );
    let text = failure(&world.run("j", "timer", "").await);
    assert!(
        text.contains("with_tag() can only be called on activity futures"),
        "{text}"
    );
    assert_eq!(output(&world.run("k", "o", "alive").await), "alive");
    world.stop().await;
}

#[tokio::test]
async fn two_runtimes_never_share_a_worker_name() {
    let mut names = std::collections::HashSet::new();
    for _ in 0..3 {
        let open = Arc::new(Semaphore::new(1));
        let world = World::start(held(&Notes::default(), &open), on_sessions()).await;
        let status = world.run("i", "on session", "s").await;
        let name = output(&status).to_owned();
        let id = name.rsplit('-').next().unwrap();
        assert!(id.len() >= 16, "{name} has too little chance in it");
        names.insert(id.to_owned());
        world.stop().await;
    }
    assert_eq!(names.len(), 3);
}
