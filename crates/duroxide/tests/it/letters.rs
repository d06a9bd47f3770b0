//! Queue messages of an instance that rests: they come in their order.

use std::time::Duration;

use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, RuntimeOptions};

use crate::support::{World, activities, in_memory, orchestrations, output, quick, until};

#[tokio::test]
async fn later_queue_messages_do_not_overtake_those_of_a_blocked_instance() {
    let store = in_memory().await;
    let code = |first: &'static str| {
        orchestrations()
            .register("o", move |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity(first, "").await?;
                let one = ctx.dequeue_event("q").await;
                Ok(one + &ctx.dequeue_event("q").await)
            })
            .build()
    };
    let work = |_: ActivityContext, input: String| async move { Ok(input) };
    let work = || activities().register("a", work).register("b", work).build();
    let hour = Duration::from_secs(3600);
    let blocking = || RuntimeOptions {
        on_divergence: duroxide::OnDivergence::Block,
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: hour,
            max_delay: hour,
        },
        ..quick()
    };
    let right = World::on(store.clone(), work(), code("a"), blocking()).await;
    right.begin("i", "o", "").await;
    until("it waits", async || {
        let history = right.history("i").await;
        let waits = |kind: &EventKind| matches!(kind, EventKind::QueueSubscribed { .. });
        history.iter().any(|event| waits(&event.kind))
    })
    .await;
    right.stop().await;
    let wrong = World::on(store.clone(), work(), code("b"), blocking()).await;
    let client = duroxide::Client::new(store.clone());
    client.enqueue_event("i", "q", "1").await.unwrap();
    until("it is blocked", async || {
        !wrong.runtime.blocked_instances().is_empty()
    })
    .await;
    wrong.stop().await;
    let right = World::on(store, work(), code("a"), blocking()).await;
    client.enqueue_event("i", "q", "2").await.unwrap();
    assert_eq!(output(&right.outcome("i").await), "12");
    right.stop().await;
}
