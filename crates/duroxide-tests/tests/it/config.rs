//! Registries and options: mistakes are reported, not swallowed and not panicked about later.

use std::time::Duration;

use duroxide::providers::WorkItem;
use duroxide::runtime::{BuildError, VersionPolicy};
use duroxide::{
    ActivityContext, ActivityRegistry, DuroxideRuntime, OrchestrationContext,
    OrchestrationRegistry, Runtime, RuntimeOptions, SemverRange, TagFilter,
};
use semver::Version;

use crate::support::{
    PATIENCE, World, activities, failure, in_memory, orchestrations, output, quick, until,
};

async fn echo(_ctx: OrchestrationContext, input: String) -> Result<String, String> {
    Ok(input)
}

async fn work(_ctx: ActivityContext, input: String) -> Result<String, String> {
    Ok(input)
}

/// The builder refuses these options and names the field.
async fn is_refused(field: &str, options: RuntimeOptions) {
    let built = DuroxideRuntime::builder()
        .with_provider(in_memory().await)
        .with_options(options)
        .build()
        .await;
    let error = built.map(|_| ()).unwrap_err();
    assert!(matches!(error, BuildError::Options(_)), "{error:?}");
    assert!(error.to_string().contains(field), "{error}");
}

/// Chooses one of the durations among the options.
type Choice = fn(&mut RuntimeOptions) -> &mut Duration;

#[tokio::test]
async fn the_builder_refuses_times_of_zero_that_something_waits_for() {
    let zero: [(&str, Choice); 4] = [
        ("session_cleanup_interval", |options| {
            &mut options.session_cleanup_interval
        }),
        ("worker_lock_timeout", |options| {
            &mut options.worker_lock_timeout
        }),
        ("orchestrator_lock_timeout", |options| {
            &mut options.orchestrator_lock_timeout
        }),
        ("session_lock_timeout", |options| {
            &mut options.session_lock_timeout
        }),
    ];
    for (field, of) in zero {
        let mut options = quick();
        *of(&mut options) = Duration::ZERO;
        is_refused(field, options).await;
    }
}

#[tokio::test]
async fn the_builder_refuses_work_without_a_single_attempt() {
    let options = RuntimeOptions {
        max_attempts: 0,
        ..quick()
    };
    is_refused("max_attempts", options).await;
}

#[tokio::test]
async fn the_builder_refuses_sessions_that_end_before_they_are_renewed() {
    let options = RuntimeOptions {
        session_idle_timeout: Duration::from_secs(1),
        ..quick()
    };
    is_refused("session_idle_timeout", options).await;
}

#[tokio::test]
async fn the_builder_refuses_a_filter_with_too_many_tags_or_none() {
    let too_many = TagFilter::Tags((0..6).map(|n| n.to_string()).collect());
    for worker_tag_filter in [too_many, TagFilter::DefaultAnd([].into())] {
        let options = RuntimeOptions {
            worker_tag_filter,
            ..quick()
        };
        is_refused("worker_tag_filter", options).await;
    }
}

#[tokio::test]
async fn the_builder_refuses_to_build_without_a_provider() {
    let built = DuroxideRuntime::builder().build().await;
    assert_eq!(built.map(|_| ()).unwrap_err(), BuildError::NoProvider);
}

#[tokio::test]
#[should_panic(
    expected = "session_idle_timeout (1s) must be greater than worker lock renewal interval (25s)"
)]
async fn the_published_constructor_panics_as_it_did() {
    let options = RuntimeOptions {
        session_idle_timeout: Duration::from_secs(1),
        ..RuntimeOptions::default()
    };
    World::with_options(activities().build(), orchestrations().build(), options).await;
}

#[tokio::test]
async fn the_documented_builder_starts_a_runtime() {
    let runtime = DuroxideRuntime::builder()
        .with_provider(in_memory().await)
        .with_activities(activities().build())
        .with_orchestrations(orchestrations().register("echo", echo).build())
        .with_options(quick())
        .build()
        .await
        .unwrap();
    let client = runtime.client();
    client
        .start_orchestration("i", "echo", "hello")
        .await
        .unwrap();
    assert_eq!(
        output(&client.wait_for_orchestration("i", PATIENCE).await.unwrap()),
        "hello"
    );
    runtime.shutdown(None).await;
}

#[tokio::test]
async fn a_runtime_on_a_private_store_has_a_way_to_it() {
    let registry = orchestrations().register("echo", echo).build();
    let runtime = Runtime::start(activities().build(), registry).await;
    let client = runtime.client();
    client
        .start_orchestration("i", "echo", "hello")
        .await
        .unwrap();
    assert_eq!(
        output(&client.wait_for_orchestration("i", PATIENCE).await.unwrap()),
        "hello"
    );
    assert_eq!(runtime.store().name(), "sqlite");
    runtime.shutdown(None).await;
}

#[test]
fn every_mistake_in_a_registry_is_reported_together_and_none_panics() {
    async fn typed(_ctx: OrchestrationContext, n: u32) -> Result<u32, String> {
        Ok(n)
    }
    let other = OrchestrationRegistry::builder().register("c", echo).build();
    let mistakes = OrchestrationRegistry::builder()
        .register("a", echo)
        .register("a", echo)
        .register_typed::<u32, u32, _, _>("a", typed)
        .register_versioned("b", "2.0.0", echo)
        .register_versioned("b", "1.0.0", echo)
        .register_versioned("b", "two", echo)
        .register("c", echo)
        .merge(other)
        .build_result()
        .map(|_| ())
        .unwrap_err();
    for expected in [
        "duplicate orchestration registration: a@1.0.0",
        "non-monotonic orchestration version for b: 1.0.0 is not later than existing latest 2.0.0",
        "invalid orchestration version for b",
        "duplicate orchestration in merge: c@1.0.0",
    ] {
        assert!(mistakes.contains(expected), "{mistakes}");
    }
    assert_eq!(
        mistakes
            .matches("duplicate orchestration registration: a@1.0.0")
            .count(),
        2
    );
    let activities = ActivityRegistry::builder()
        .register("a", work)
        .register("a", work)
        .build_result();
    assert_eq!(
        activities.map(|_| ()).unwrap_err(),
        "duplicate activity registration: a@1.0.0"
    );
}

#[test]
fn merging_registries_keeps_their_policies() {
    let one = OrchestrationRegistry::builder()
        .register("a", echo)
        .register_versioned("a", "2.0.0", echo)
        .set_policy("a", VersionPolicy::Exact(Version::new(1, 0, 0)))
        .build();
    let merged = OrchestrationRegistry::builder().merge(one).build();
    assert_eq!(merged.resolve_version("a"), Some(Version::new(1, 0, 0)));
}

#[tokio::test]
async fn executions_of_engines_outside_the_supported_range_wait_for_a_node_that_can_replay_them() {
    let store = in_memory().await;
    let registry = || {
        orchestrations()
            .register("waits", |ctx: OrchestrationContext, _| async move {
                Ok(ctx.schedule_wait("go").await)
            })
            .build()
    };
    let able = World::on(store.clone(), activities().build(), registry(), quick()).await;
    able.begin("i", "waits", "").await;
    able.waits_for("i", "go").await;
    able.stop().await;

    let old_only = RuntimeOptions {
        supported_replay_versions: Some(SemverRange::new(
            Version::new(0, 0, 0),
            Version::new(0, 1, 30),
        )),
        ..quick()
    };
    let unable = World::on(store.clone(), activities().build(), registry(), old_only).await;
    unable.raise("i", "go", "done").await;
    // Executions without a history can be begun by anybody.
    unable.begin("j", "waits", "").await;
    unable.waits_for("j", "go").await;
    assert_eq!(
        unable
            .client
            .get_queue_depths()
            .await
            .unwrap()
            .orchestrator_queue,
        1
    );
    unable.stop().await;

    let able = World::on(store, activities().build(), registry(), quick()).await;
    assert_eq!(output(&able.outcome("i").await), "done");
    able.stop().await;
}

#[tokio::test]
async fn a_blocked_instance_goes_on_with_code_that_fits() {
    let store = in_memory().await;
    let code = |first: &'static str| {
        orchestrations()
            .register("o", move |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity(first, "").await?;
                Ok(ctx.schedule_wait("go").await)
            })
            .build()
    };
    let work = || activities().register("a", work).register("b", work).build();
    let blocking = || RuntimeOptions {
        on_divergence: duroxide::OnDivergence::Block,
        max_attempts: 2,
        ..quick()
    };
    let right = World::on(store.clone(), work(), code("a"), blocking()).await;
    right.begin("i", "o", "").await;
    right.waits_for("i", "go").await;
    right.stop().await;
    let wrong = World::on(store.clone(), work(), code("b"), blocking()).await;
    wrong.raise("i", "go", "done").await;
    until("it is blocked", async || {
        !wrong.runtime.blocked_instances().is_empty()
    })
    .await;
    let blocked = wrong.runtime.blocked_instances();
    assert_eq!(
        (
            blocked[0].instance_id.as_str(),
            blocked[0].orchestration_name.as_str()
        ),
        ("i", "o")
    );
    assert!(
        blocked[0].report.contains("recorded"),
        "{}",
        blocked[0].report
    );
    // However often it is tried, it is neither failed nor poisoned.
    until("it was tried often", async || {
        wrong
            .runtime
            .blocked_instances()
            .first()
            .is_some_and(|b| b.attempts > 5)
    })
    .await;
    wrong.stop().await;
    let right = World::on(store, work(), code("a"), blocking()).await;
    assert_eq!(output(&right.outcome("i").await), "done");
    assert!(right.runtime.blocked_instances().is_empty());
    right.stop().await;
}

#[tokio::test]
async fn blocking_is_for_code_that_does_not_fit_and_for_nothing_else() {
    let store = in_memory().await;
    let options = RuntimeOptions {
        on_divergence: duroxide::OnDivergence::Block,
        ..quick()
    };
    let registry = orchestrations()
        .register("waits", |ctx: OrchestrationContext, _| async move {
            Ok(ctx.schedule_wait("go").await)
        })
        .register("parent", |ctx: OrchestrationContext, _| async move {
            let child = ctx.schedule_sub_orchestration_with_id("waits", "child", "");
            child.await
        })
        .build();
    let world = World::on(store.clone(), activities().build(), registry, options).await;
    for (id, name) in [("i", "waits"), ("p", "parent")] {
        world.begin(id, name, "").await;
    }
    world.waits_for("i", "go").await;
    world.waits_for("child", "go").await;

    // A completion of nobody is left out.
    let stray = WorkItem::ActivityCompleted {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 77,
        result: String::new(),
    };
    store.enqueue_for_orchestrator(stray, None).await.unwrap();
    world.raise("i", "go", "went on").await;
    assert_eq!(output(&world.outcome("i").await), "went on");

    // The divergence of a child ends its parent, whose own code fits.
    let diverged = WorkItem::SubOrchFailed {
        parent_instance: "p".to_owned(),
        parent_execution_id: 1,
        parent_id: 2,
        details: duroxide::ErrorDetails::Configuration {
            kind: duroxide::ConfigErrorKind::Nondeterminism,
            resource: String::new(),
            message: Some("the child's".to_owned()),
        },
    };
    store
        .enqueue_for_orchestrator(diverged, None)
        .await
        .unwrap();
    let failed = failure(&world.outcome("p").await);
    assert_eq!(failed, "nondeterministic: the child's");
    assert!(world.runtime.blocked_instances().is_empty());
    world.stop().await;
}

#[tokio::test]
async fn code_that_does_not_fit_fails_an_instance_by_default() {
    let store = in_memory().await;
    let code = |first: &'static str| {
        orchestrations()
            .register("o", move |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity(first, "").await?;
                Ok(ctx.schedule_wait("go").await)
            })
            .build()
    };
    let work = || activities().register("a", work).register("b", work).build();
    let right = World::on(store.clone(), work(), code("a"), quick()).await;
    right.begin("i", "o", "").await;
    right.waits_for("i", "go").await;
    right.stop().await;
    let wrong = World::on(store, work(), code("b"), quick()).await;
    wrong.raise("i", "go", "").await;
    let text = crate::support::failure(&wrong.outcome("i").await);
    assert!(text.starts_with("nondeterministic: "), "{text}");
    wrong.stop().await;
}

#[tokio::test]
async fn the_cache_of_suspended_orchestrations_is_bounded_and_changes_no_result() {
    let options = RuntimeOptions {
        sticky_instances_max: 2,
        ..quick()
    };
    let registry = orchestrations()
        .register("o", |ctx: OrchestrationContext, input: String| async move {
            for _ in 0..3 {
                ctx.schedule_activity("a", "").await?;
            }
            Ok(input)
        })
        .build();
    let world =
        World::with_options(activities().register("a", work).build(), registry, options).await;
    for n in 0..10 {
        world.begin(format!("i{n}"), "o", n.to_string()).await;
    }
    for n in 0..10 {
        assert_eq!(
            output(&world.outcome(&format!("i{n}")).await),
            n.to_string()
        );
    }
    let counted = world.stopped().await;
    assert!(
        counted.sticky_hits > 0 && counted.sticky_evictions > 0,
        "{counted:?}"
    );
}
