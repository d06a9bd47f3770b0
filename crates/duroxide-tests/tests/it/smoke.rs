//! The smallest flows.

use duroxide::{ActivityContext, ActivityRegistry, OrchestrationContext, OrchestrationRegistry};

use crate::support::{World, failure, output};

async fn greet(_ctx: ActivityContext, name: String) -> Result<String, String> {
    Ok(format!("Hello, {name}!"))
}

async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.schedule_activity("greet", name).await
}

#[tokio::test]
async fn an_orchestration_with_one_activity_completes() {
    let world = World::start(
        ActivityRegistry::builder().register("greet", greet).build(),
        OrchestrationRegistry::builder()
            .register("hello", hello)
            .build(),
    )
    .await;
    let status = world.run("i", "hello", "Rust").await;
    assert_eq!(output(&status), "Hello, Rust!");
    world.stop().await;
}

#[tokio::test]
async fn an_error_of_the_code_is_the_failure_of_the_orchestration() {
    let world = World::start(
        ActivityRegistry::default(),
        OrchestrationRegistry::builder()
            .register("no", |_: OrchestrationContext, _: String| async {
                Err("no".to_owned())
            })
            .build(),
    )
    .await;
    assert_eq!(failure(&world.run("i", "no", "").await), "no");
    world.stop().await;
}
