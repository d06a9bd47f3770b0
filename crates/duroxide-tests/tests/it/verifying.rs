//! A store against new code, on stores that keep what they are given.

use std::sync::Arc;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::runtime::registry::OrchestrationRegistry;
use duroxide::testing::verify_store;

use crate::support::{World, in_memory, quick, until};

const DAY: Duration = Duration::from_secs(86_400);

mod old {
    use super::*;

    #[duroxide::orchestration(version = "1.0.0")]
    pub(super) async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
        ctx.sleep(DAY).await;
        Ok(cents)
    }

    /// Decides by what an earlier execution wrote.
    #[duroxide::orchestration]
    pub(super) async fn tour(ctx: OrchestrationContext) -> Result<String, String> {
        let seen = ctx.get_kv_value("seen").unwrap_or_default();
        if seen.len() < 2 {
            ctx.set_kv_value("seen", format!("{seen}x"));
            return ctx.continue_with(tour, ()).await;
        }
        Ok(ctx.receive::<String>(seen).await?)
    }
}

mod new {
    use super::*;

    /// Another decision under the same version.
    #[duroxide::orchestration(version = "1.0.0")]
    pub(super) async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
        ctx.receive::<String>("surcharge").await?;
        Ok(cents)
    }

    #[duroxide::orchestration(version = "2.0.0", name = "order")]
    pub(super) async fn order_2(_ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
        Ok(cents)
    }
}

fn registry(code: Handlers) -> OrchestrationRegistry {
    code.build().unwrap().1
}

fn old_code() -> Handlers {
    Handlers::new().register(old::order).register(old::tour)
}

#[tokio::test]
async fn running_instances_are_replayed_against_new_code() {
    let store = in_memory().await;
    let (activities, orchestrations) = old_code().build().unwrap();
    let world = World::on(store.clone(), activities, orchestrations, quick()).await;
    let client = &world.client;
    for n in 0..3 {
        let start = client.start(old::order, n).id(format!("order-{n}"));
        start.await.unwrap();
    }
    client.start(old::tour, ()).id("tour").await.unwrap();
    for id in ["order-0", "order-1", "order-2"] {
        until(id, async || world.history(id).await.len() >= 2).await;
    }
    until("the tour waits", async || {
        let third = client.read_execution_history("tour", 3).await;
        third.is_ok_and(|history| history.len() >= 2)
    })
    .await;
    world.cancel("order-2", "enough").await;
    world.outcome("order-2").await;
    world.stop().await;

    let report = verify_store(store.clone(), &registry(old_code())).await;
    let report = report.unwrap();
    assert!(report.is_safe(), "{report}");
    let needed = (report.fitting, report.versions_needed("order"));
    assert_eq!(needed, (3, vec!["1.0.0"]), "{report}");

    let changed = Handlers::new().register(new::order).register(old::tour);
    let report = verify_store(store.clone(), &registry(changed)).await;
    let report = report.unwrap();
    let mut ids: Vec<&str> = report.diverging.iter().map(|(id, _)| id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!((ids, report.fitting), (vec!["order-0", "order-1"], 1));

    let removed = Handlers::new().register(new::order_2);
    let report = verify_store(store, &registry(removed)).await.unwrap();
    assert_eq!((report.without_code.len(), report.fitting), (3, 0));
    assert!(!report.is_safe(), "{report}");
}

#[tokio::test]
async fn starts_that_have_not_begun_are_seen_with_their_delay() {
    let stores: [Arc<dyn Provider>; 2] = [in_memory().await, Arc::new(MemoryProvider::new())];
    for store in stores {
        delayed_starts_are_seen(store).await;
    }
}

async fn delayed_starts_are_seen(store: Arc<dyn Provider>) {
    let client = duroxide::Client::new(store.clone());
    let orders = |id: &str| client.start(old::order, 1).id(id);
    orders("queued").await.unwrap();
    orders("delayed").delay(DAY).await.unwrap();
    let open = client.start(old::tour, ()).id("open").delay(DAY);
    open.await.unwrap();
    // A message alone starts nothing.
    let early = client.send("nobody", "in", "early").early();
    early.await.unwrap();

    let report = verify_store(store.clone(), &registry(old_code())).await;
    let report = report.unwrap();
    assert!(report.is_safe(), "{report}");
    assert_eq!(report.versions_needed("order"), ["1.0.0"]);
    let begun_with = |name: &str, version: Option<&str>| {
        let key = (name.to_owned(), version.map(str::to_owned));
        report.not_begun.get(&key).copied()
    };
    let counted = (begun_with("order", Some("1.0.0")), begun_with("tour", None));
    assert_eq!(counted, (Some(2), Some(1)), "{report}");

    let without = Handlers::new().register(new::order_2);
    let report = verify_store(store, &registry(without)).await.unwrap();
    assert!(!report.is_safe(), "{report}");
    let mut missing = report.queued_without_code;
    missing.sort();
    let order = ("order".to_owned(), Some("1.0.0".to_owned()));
    assert_eq!(missing, [order, ("tour".to_owned(), None)]);
}
