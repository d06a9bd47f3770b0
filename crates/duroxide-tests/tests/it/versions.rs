//! Which version of a handler runs.

use duroxide::runtime::VersionPolicy;
use duroxide::{
    ErrorDetails, EventKind, OrchestrationContext, OrchestrationRegistryBuilder, PoisonMessageType,
};
use semver::Version;

use crate::support::{World, activities, details, in_memory, orchestrations, output, quick};

fn named(
    registry: OrchestrationRegistryBuilder,
    name: &'static str,
    version: &'static str,
) -> OrchestrationRegistryBuilder {
    registry.register_versioned(
        name,
        version,
        move |ctx: OrchestrationContext, _| async move {
            assert_eq!(ctx.orchestration_version(), version);
            Ok(version.to_owned())
        },
    )
}

#[tokio::test]
async fn the_latest_version_runs_unless_a_policy_or_the_start_says_otherwise() {
    let registry = named(named(orchestrations(), "o", "1.0.0"), "o", "2.0.0").build();
    let world = World::start(activities().build(), registry.clone()).await;
    assert_eq!(output(&world.run("latest", "o", "").await), "2.0.0");

    world
        .client
        .start_orchestration_versioned("exact", "o", "1.0.0", "")
        .await
        .unwrap();
    assert_eq!(output(&world.outcome("exact").await), "1.0.0");

    // Clones share their policies, also with the running runtime.
    registry.set_version_policy("o", VersionPolicy::Exact(Version::new(1, 0, 0)));
    assert_eq!(output(&world.run("policy", "o", "").await), "1.0.0");
    registry.set_version_policy("o", VersionPolicy::Latest);
    assert_eq!(output(&world.run("again", "o", "").await), "2.0.0");
    world.stop().await;
}

#[tokio::test]
async fn a_running_instance_keeps_its_version_when_a_newer_one_is_deployed() {
    async fn v1(ctx: OrchestrationContext, _: String) -> Result<String, String> {
        ctx.schedule_wait("go").await;
        ctx.schedule_activity("echo", "one").await
    }
    async fn v2(_ctx: OrchestrationContext, _: String) -> Result<String, String> {
        Ok("two".to_owned())
    }
    let store = in_memory().await;
    let echo = || {
        activities()
            .register("echo", |_ctx, input| async move { Ok(input) })
            .build()
    };
    let before = World::on(
        store.clone(),
        echo(),
        orchestrations().register("o", v1).build(),
        quick(),
    )
    .await;
    before.begin("old", "o", "").await;
    before.waits_for("old", "go").await;
    before.stop().await;

    // The next turn holds a completion only: nothing in it names the version.
    let after = World::on(
        store,
        echo(),
        orchestrations()
            .register("o", v1)
            .register_versioned("o", "2.0.0", v2)
            .build(),
        quick(),
    )
    .await;
    after.raise("old", "go", "").await;
    assert_eq!(output(&after.outcome("old").await), "one");
    assert_eq!(output(&after.run("new", "o", "").await), "two");
    after.stop().await;
}

#[tokio::test]
async fn continue_as_new_moves_to_the_latest_version_or_to_the_one_it_names() {
    let again = |version: &'static str| {
        move |ctx: OrchestrationContext, input: String| async move {
            match input.as_str() {
                "policy" => ctx.continue_as_new("end").await,
                "exact" => ctx.continue_as_new_versioned("1.1.0", "end").await,
                _ => Ok(format!("{version} {}", ctx.execution_id())),
            }
        }
    };
    let registry = orchestrations()
        .register("o", again("1.0.0"))
        .register_versioned("o", "1.1.0", again("1.1.0"))
        .register_versioned("o", "2.0.0", again("2.0.0"))
        .build();
    let world = World::start(activities().build(), registry).await;
    for (input, expected) in [("policy", "2.0.0 2"), ("exact", "1.1.0 2")] {
        world
            .client
            .start_orchestration_versioned(input, "o", "1.0.0", input)
            .await
            .unwrap();
        assert_eq!(output(&world.outcome(input).await), expected);
    }
    world.stop().await;
}

#[tokio::test]
async fn version_zero_is_pinned_like_any_other() {
    async fn zero(ctx: OrchestrationContext, _: String) -> Result<String, String> {
        ctx.schedule_wait("go").await;
        Ok("zero".to_owned())
    }
    let store = in_memory().await;
    let registry = orchestrations().register_versioned("o", "0.0.0", zero);
    let before = World::on(
        store.clone(),
        activities().build(),
        registry.build(),
        quick(),
    )
    .await;
    before.begin("i", "o", "").await;
    before.waits_for("i", "go").await;
    before.stop().await;

    let registry = orchestrations()
        .register_versioned("o", "0.0.0", zero)
        .register_versioned("o", "1.0.0", |_: OrchestrationContext, _| async {
            Ok("one".to_owned())
        });
    let after = World::on(store, activities().build(), registry.build(), quick()).await;
    after.raise("i", "go", "").await;
    assert_eq!(output(&after.outcome("i").await), "zero");
    after.stop().await;
}

#[tokio::test]
async fn a_version_that_nobody_registers_is_poisoned_after_its_attempts() {
    let options = duroxide::RuntimeOptions {
        max_attempts: 3,
        ..quick()
    };
    let registry = named(orchestrations(), "o", "1.0.0").build();
    let world = World::with_options(activities().build(), registry, options).await;
    for version in ["9.9.9", "not semver"] {
        world
            .client
            .start_orchestration_versioned(version, "o", version, "in")
            .await
            .unwrap();
        match details(world.outcome(version).await) {
            ErrorDetails::Poison {
                attempt_count,
                max_attempts,
                message_type,
                ..
            } => {
                assert_eq!((attempt_count, max_attempts), (4, 3));
                let expected = PoisonMessageType::Orchestration {
                    instance: version.to_owned(),
                    execution_id: 1,
                };
                assert_eq!(message_type, expected);
            }
            other => panic!("{other:?}"),
        }
        let history = world.history(version).await;
        match &history[0].kind {
            EventKind::OrchestrationStarted {
                name,
                version: recorded,
                input,
                ..
            } => {
                assert_eq!(
                    (name.as_str(), recorded.as_str(), input.as_str()),
                    ("o", version, "in")
                );
            }
            other => panic!("{other:?}"),
        }
    }
    world.stop().await;
}
