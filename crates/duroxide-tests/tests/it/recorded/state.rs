//! What an instance says about itself, and questions to the world.

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};

use super::{Case, Outcome, SECOND, case};

pub(super) const CASES: &[Case] = &[
    case("system_calls", ""),
    case("custom_status", ""),
    case("kv_set_get_and_clear", ""),
    case("kv_prune", ""),
    case("kv_of_another_instance", ""),
];

pub(super) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("system_calls", system_calls)
        .register("custom_status", custom_status)
        .register("kv_set_get_and_clear", set_get_and_clear)
        .register("kv_prune", prune)
        .register("kv_of_another_instance", of_another_instance)
        .register(
            "keeper",
            |ctx: OrchestrationContext, _: String| async move {
                ctx.set_kv_value_typed("kept", &[1, 2, 3]);
                Ok(String::new())
            },
        )
}

async fn system_calls(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.trace_info("nothing is recorded for this line");
    let guid = ctx.new_guid().await?;
    let before = ctx.utc_now().await?;
    ctx.schedule_timer(SECOND).await;
    let after = ctx.utc_now().await?;
    let passed = after.duration_since(before).map_err(|e| e.to_string())?;
    Ok(format!("{} {}", guid.len(), passed >= SECOND))
}

async fn custom_status(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.set_custom_status("begun");
    ctx.schedule_activity("echo", "").await?;
    ctx.set_custom_status("half way");
    ctx.set_custom_status("nearly there");
    ctx.schedule_activity("echo", "").await?;
    let last = ctx.get_custom_status();
    ctx.reset_custom_status();
    Ok(last.unwrap_or_default())
}

async fn set_get_and_clear(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.set_kv_value("a", "1");
    ctx.set_kv_value_typed("b", &2);
    ctx.set_kv_value("c", "3");
    ctx.schedule_activity("echo", "").await?;
    let b: Option<i64> = ctx.get_kv_value_typed("b")?;
    ctx.set_kv_value("a", format!("{:?}", ctx.get_kv_value("a")));
    ctx.clear_kv_value("c");
    ctx.schedule_activity("echo", "").await?;
    let keys = ctx.get_kv_all_keys().join(",");
    ctx.clear_all_kv_values();
    ctx.set_kv_value("last", "one");
    Ok(format!("{b:?} {keys} {}", ctx.get_kv_length()))
}

async fn prune(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.set_kv_value("old", "1");
    ctx.set_kv_value("older", "1");
    ctx.schedule_timer(SECOND * 60).await;
    ctx.set_kv_value("new", "1");
    let now = ctx.utc_now().await?;
    let since = now.duration_since(std::time::UNIX_EPOCH);
    let cutoff = since.map_err(|e| e.to_string())? - SECOND * 30;
    let cutoff_ms = u64::try_from(cutoff.as_millis()).map_err(|e| e.to_string())?;
    let pruned = ctx.prune_kv_values_updated_before(cutoff_ms);
    ctx.schedule_activity("echo", "").await?;
    Ok(format!("{pruned} {}", ctx.get_kv_all_keys().join(",")))
}

async fn of_another_instance(ctx: OrchestrationContext, _: String) -> Outcome {
    ctx.schedule_sub_orchestration_with_id("keeper", "the keeper", "")
        .await?;
    let kept: Option<Vec<i64>> = ctx
        .get_kv_value_from_instance_typed("the keeper", "kept")
        .await?;
    let missing = ctx.get_kv_value_from_instance("nobody", "kept").await?;
    Ok(format!("{kept:?} {missing:?}"))
}
