//! More replies than an instance keeps: none is lost in silence.

use std::sync::Arc;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{Provider, ProviderError};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::{App, AskError, Request};
use tokio::sync::Semaphore;

const SECOND: Duration = Duration::from_secs(1);
const FLOOD: u64 = 1_500;

/// A request that an earlier execution could have handed on.
fn request(n: u64) -> Request<(), u64> {
    let text = serde_json::json!({ "name": "up", "ask": n.to_string(), "value": null });
    serde_json::from_value(text).unwrap()
}

/// Takes a request, answers it when it is told to, and then many others, all in one turn or a hundred in each.
#[duroxide::orchestration]
async fn flooding(ctx: OrchestrationContext, at_once: bool) -> Result<(), String> {
    let first = ctx.requests::<(), u64>("up").next().await;
    ctx.dequeue_event("go").await;
    ctx.reply(first, &0);
    for n in 1..=FLOOD {
        ctx.reply(request(n), &n);
        if !at_once && n % 100 == 0 {
            ctx.sleep(SECOND / 100).await;
        }
    }
    ctx.set_custom_status("flooded");
    ctx.dequeue_event("stop").await;
    Ok(())
}

/// Lets reads of key-values through while it is open.
struct Gate(Semaphore);

impl Layer for Gate {
    async fn get_kv_value(
        &self,
        next: &dyn Provider,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        let _open = self.0.acquire().await;
        next.get_kv_value(instance, key).await
    }
}

/// The flood, and a client that asked before it and did not look while the gate was closed.
async fn flood(at_once: bool) -> (App, Result<u64, AskError>) {
    let store = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let code = Handlers::new().register(flooding);
    let app = Duroxide::on(store.clone())
        .handlers(code)
        .start()
        .await
        .unwrap();
    app.client().start(flooding, at_once).id("f").await.unwrap();
    let gated = Arc::new(Layered::around(store, Gate(Semaphore::new(1))));
    let late = duroxide::Client::new(gated.clone());
    let ask = late.ask("f", "up", &()).id("first").timeout(1000 * SECOND);
    let ask = tokio::spawn(ask.into_future());
    tokio::time::sleep(SECOND).await;
    let closed = gated.layer().0.acquire().await.unwrap();
    app.client().enqueue_event("f", "go", "").await.unwrap();
    let mut status = None;
    while status.as_deref() != Some("flooded") {
        tokio::time::sleep(SECOND / 10).await;
        let found = app.client().get_orchestration_status("f").await.unwrap();
        if let duroxide::OrchestrationStatus::Running { custom_status, .. } = found {
            status = custom_status;
        }
    }
    drop(closed);
    (app, ask.await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn replies_of_one_turn_are_seen_however_many() {
    let (app, first) = flood(true).await;
    assert_eq!(first.unwrap(), 0);
    for n in [1, 400, FLOOD] {
        let ask = app.client().ask::<_, u64>("f", "up", &());
        let reply = ask.id(n.to_string()).timeout(SECOND).await;
        assert_eq!(reply.unwrap(), n);
    }
    app.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_missed_its_reply_in_a_flood_is_told() {
    let (app, first) = flood(false).await;
    let error = first.unwrap_err();
    assert!(matches!(error, AskError::Forgotten), "{error}");
    assert_eq!(error.code(), "D0163");
    let ask = app.client().ask::<_, u64>("f", "up", &());
    let reply = ask.id((FLOOD - 999).to_string()).timeout(SECOND).await;
    assert_eq!(reply.unwrap(), FLOOD - 999, "the last thousand are there");
    app.shutdown().await;
}
