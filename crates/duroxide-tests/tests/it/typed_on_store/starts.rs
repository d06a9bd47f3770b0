//! What a start says beside its input.

use duroxide::prelude::*;
use duroxide::providers::InstanceQuery;
use duroxide::{ResultError, TraceContext};

use super::{AGES, SOON, world};

#[duroxide::orchestration]
async fn order(ctx: OrchestrationContext, number: u64) -> Result<String, String> {
    let memo: Option<String> = ctx.memo()?;
    let trace = ctx.trace_context().map(|trace| trace.traceparent());
    ctx.set_label("seen", number.to_string());
    Ok(format!(
        "{number} {memo:?} {:?} {}",
        ctx.labels().get("customer"),
        trace.is_some_and(|header| header.contains("4bf92f3577b34da6a3ce929d0e0e4736"))
    ))
}

#[duroxide::orchestration]
async fn forever(ctx: OrchestrationContext) -> Result<(), String> {
    ctx.sleep(AGES).await;
    Ok(())
}

#[tokio::test]
async fn labels_memo_delay_and_trace_come_with_the_start() {
    let world = world(Handlers::new().register(order)).await;
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let started = world
        .client
        .start(order, 7)
        .id("o-7")
        .label("customer", "acme")
        .memo("by phone")
        .delay(SOON)
        .trace_context(TraceContext::parse(header, None).unwrap())
        .await
        .unwrap();
    let told = started.result().await.unwrap();
    assert_eq!(told, r#"7 Some("by phone") Some("acme") true"#);
    for (key, value) in [("customer", "acme"), ("seen", "7")] {
        let query = InstanceQuery::new().with_label(key, value);
        let page = world.client.query_instances(&query).await.unwrap();
        assert_eq!(page.items.len(), 1, "{key}");
    }
    let memo = started.memo::<String>().await.unwrap();
    assert_eq!(memo.as_deref(), Some("by phone"));
    world.stop().await;
}

#[tokio::test]
async fn of_many_starts_that_must_be_the_first_one_is_accepted() {
    let world = world(Handlers::new().register(order).register(forever)).await;
    let client = &world.client;
    let starts = (0..8).map(|n| {
        let start = client.start(order, n).id("o").if_exists(IfExists::Fail);
        tokio::spawn(start.into_future())
    });
    let mut accepted = 0;
    for start in starts.collect::<Vec<_>>() {
        accepted += u32::from(start.await.unwrap().is_ok());
    }
    assert_eq!(accepted, 1);
    client.handle(order, "o").result().await.unwrap();
    let replaced = client.start(order, 77).id("o");
    let replaced = replaced.if_exists(IfExists::ReplaceFinished).await.unwrap();
    assert!(replaced.result().await.unwrap().starts_with("77 "));
    let running = client.start(forever, ()).id("f").await.unwrap();
    let again = client.start(forever, ()).id("f");
    let again = again.if_exists(IfExists::ReplaceFinished).await;
    assert!(matches!(again, Err(ClientError::InvalidInput { .. })));
    running.terminate("enough").await.unwrap();
    assert_eq!(running.result().await.unwrap_err().code(), "D0912");
    world.stop().await;
}

#[tokio::test]
async fn an_instance_whose_time_is_up_has_failed() {
    let world = world(Handlers::new().register(forever)).await;
    let limited = world.client.start(forever, ()).timeout(SOON).await.unwrap();
    let error = limited.result().await.unwrap_err();
    assert!(
        matches!(
            error,
            ResultError::Orchestration(OrchestrationError::TimedOut { .. })
        ),
        "{error:?}"
    );
    world.stop().await;
}
