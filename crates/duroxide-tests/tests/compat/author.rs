//! What authors call, as they wrote it for the published crate.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use duroxide::{
    ActivityContext, Client, DurableFuture, Either2, Either3, OrchestrationContext, RetryPolicy,
    SystemStats,
};

type Text = Result<String, String>;

/// Every method of the context, with the published types. Never runs.
#[allow(dead_code, reason = "compiling it is the test")]
async fn calls_everything(ctx: OrchestrationContext, input: String) -> Text {
    let _: (String, u64, String, String) = (
        ctx.instance_id(),
        ctx.execution_id(),
        ctx.orchestration_name(),
        ctx.orchestration_version(),
    );
    let _: (bool, bool) = (ctx.is_replaying(), ctx.is_logging_enabled());
    let _: Option<SystemStats> = ctx.get_system_stats();
    ctx.trace("INFO", "x");
    ctx.trace_info("x");
    ctx.trace_warn(String::from("x"));
    ctx.trace_error("x");
    ctx.trace_debug(&input);

    let a: DurableFuture<Text> = ctx.schedule_activity("A", "in").with_tag("gpu");
    let b: DurableFuture<Result<u32, String>> = ctx.schedule_activity_typed::<u32, u32>("A", &1);
    let c: DurableFuture<Text> = ctx.schedule_activity_on_session("A", "in", "s");
    let d: DurableFuture<Result<u32, String>> =
        ctx.schedule_activity_on_session_typed("A", &1, "s");
    let mapped: DurableFuture<usize> = a.map(|result| result.map_or(0, |text| text.len()));
    let _ = (mapped.await, b.await?, c.await?, d.await?);
    let policy = RetryPolicy::new(3);
    let _: Text = ctx
        .schedule_activity_with_retry("A", "in", policy.clone())
        .await;
    let _: Result<u32, String> = ctx
        .schedule_activity_with_retry_typed("A", &1, policy.clone())
        .await;
    let _: Text = ctx
        .schedule_activity_with_retry_on_session("A", "in", policy.clone(), "s")
        .await;
    let _: Result<u32, String> = ctx
        .schedule_activity_with_retry_on_session_typed("A", &1, policy, "s")
        .await;

    let timer: DurableFuture<()> = ctx.schedule_timer(Duration::from_secs(1));
    timer.await;

    let wait: DurableFuture<String> = ctx.schedule_wait("e");
    let typed: DurableFuture<u32> = ctx.schedule_wait_typed("e");
    let queue: DurableFuture<String> = ctx.dequeue_event("q");
    let number: u32 = ctx.dequeue_event_typed("q").await;
    let _ = (wait.await, typed.await, queue.await, number);
    #[allow(deprecated, reason = "the older names must stay")]
    {
        let old: DurableFuture<String> = ctx.schedule_wait_persistent("q");
        old.await;
        let _: u32 = ctx.schedule_wait_persistent_typed("q").await;
    }

    let child: DurableFuture<Text> = ctx.schedule_sub_orchestration("C", "in");
    child.await?;
    ctx.schedule_sub_orchestration_with_id("C", "id", "in")
        .await?;
    ctx.schedule_sub_orchestration_versioned("C", Some("1.0.0".to_string()), "in")
        .await?;
    ctx.schedule_sub_orchestration_versioned_with_id("C", None, "id", "in")
        .await?;
    let _: u32 = ctx
        .schedule_sub_orchestration_typed::<u32, u32>("C", &1)
        .await?;
    let _: u32 = ctx
        .schedule_sub_orchestration_with_id_typed::<u32, u32>("C", "id", &1)
        .await?;
    ctx.schedule_orchestration("D", "id", "in");
    ctx.schedule_orchestration_typed("D", "id", &1);
    ctx.schedule_orchestration_versioned("D", Some("1.0.0".into()), "id", "in");
    ctx.schedule_orchestration_versioned_typed("D", None, "id", &1);

    let _: String = ctx.new_guid().await?;
    let _: SystemTime = ctx.utc_now().await?;
    let other: DurableFuture<Result<Option<String>, String>> =
        ctx.get_kv_value_from_instance("i", "k").with_tag("t");
    other.await?;
    let _: Option<u32> = ctx.get_kv_value_from_instance_typed("i", "k").await?;
    ctx.set_custom_status("s");
    ctx.reset_custom_status();
    let _: Option<String> = ctx.get_custom_status();
    ctx.set_kv_value("k", "v");
    ctx.set_kv_value_typed("k", &1);
    let _: Option<String> = ctx.get_kv_value("k");
    let _: Option<u32> = ctx.get_kv_value_typed("k")?;
    let _: HashMap<String, String> = ctx.get_kv_all_values();
    let _: Vec<String> = ctx.get_kv_all_keys();
    let _: usize = ctx.get_kv_length();
    ctx.clear_kv_value("k");
    ctx.clear_all_kv_values();
    let _: usize = ctx.prune_kv_values_updated_before(1);

    let many: Vec<Text> = ctx
        .join(
            (0..3)
                .map(|n| ctx.schedule_activity("A", n.to_string()))
                .collect(),
        )
        .await;
    let (_, _): (Text, ()) = ctx
        .join2(
            ctx.schedule_activity("A", ""),
            ctx.schedule_timer(Duration::ZERO),
        )
        .await;
    let (_, _, _) = ctx
        .join3(async { 1 }, async { 2 }, async { many.len() })
        .await;
    match ctx
        .select2(ctx.schedule_wait("e"), ctx.schedule_timer(Duration::ZERO))
        .await
    {
        Either2::First(text) => drop::<String>(text),
        Either2::Second(()) => {}
    }
    match ctx.select3(async { 1 }, async { 2 }, async { 3 }).await {
        Either3::First(n) | Either3::Second(n) | Either3::Third(n) => assert_ne!(n, 0),
    }
    if ctx.execution_id() == 1 {
        let _ = ctx.continue_as_new_typed(&1).await;
        let _ = ctx.continue_as_new_versioned("2.0.0", "in").await;
    }
    ctx.continue_as_new("in").await
}

/// Every method of an activity's context. Never runs.
#[allow(dead_code, reason = "compiling it is the test")]
async fn asks_everything(ctx: ActivityContext, _input: String) -> Text {
    let _: (&str, u64, &str, &str) = (
        ctx.instance_id(),
        ctx.execution_id(),
        ctx.orchestration_name(),
        ctx.orchestration_version(),
    );
    let _: (&str, &str, Option<&str>, Option<&str>) = (
        ctx.activity_name(),
        ctx.worker_id(),
        ctx.session_id(),
        ctx.tag(),
    );
    ctx.trace_info("x");
    ctx.trace_warn("x");
    ctx.trace_error("x");
    ctx.trace_debug("x");
    if ctx.is_cancelled() {
        ctx.cancelled().await;
    }
    let token: tokio_util::sync::CancellationToken = ctx.cancellation_token();
    let _: Client = ctx.clone().get_client();
    Ok(format!("{token:?} {ctx:?}"))
}

#[test]
fn author_code_is_send() {
    fn is_send<T: Send>(_: &T) {}
    let ctx =
        OrchestrationContext::new(Vec::new(), 1, "i".into(), "o".into(), "1.0.0".into(), None);
    is_send(&calls_everything(ctx, String::new()));
    let registry = duroxide::OrchestrationRegistry::builder()
        .register("all", calls_everything)
        .build();
    assert!(registry.has("all"));
    let activities = duroxide::runtime::registry::ActivityRegistry::builder()
        .register("all", asks_everything)
        .build();
    assert_eq!(activities.count(), 1);
}
