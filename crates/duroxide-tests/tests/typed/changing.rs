//! Changing code with running instances: what a store says about new code, and what a manifest notices.

use std::sync::Arc;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::runtime::registry::OrchestrationRegistry;
use duroxide::testing::{assert_manifest, manifest_changes, verify_store};

const DAY: Duration = Duration::from_secs(86_400);

mod before {
    use super::*;

    #[duroxide::orchestration(version = "1.0.0")]
    pub async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
        ctx.sleep(DAY).await;
        Ok(cents)
    }

    #[duroxide::orchestration]
    pub async fn tour(ctx: OrchestrationContext, stops: u32) -> Result<String, String> {
        let seen = ctx.get_kv_value("seen").unwrap_or_default();
        if seen.len() < 2 {
            ctx.set_kv_value("seen", format!("{seen}x"));
            return ctx.continue_with(tour, stops).await;
        }
        // Decided by what an earlier execution wrote.
        ctx.receive::<String>(seen).await.map_err(|e| e.to_string())
    }
}

mod after {
    use super::*;

    /// Another decision under the same version.
    #[duroxide::orchestration(version = "1.0.0")]
    pub async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
        ctx.receive::<u64>("surcharge")
            .await
            .map_err(|e| e.to_string())?;
        Ok(cents)
    }

    #[duroxide::orchestration(version = "2.0.0", name = "order")]
    pub async fn order_2(_ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
        Ok(cents)
    }

    /// The same code, laid out in another way.
    #[duroxide::orchestration(version = "1.0.0")]
    #[rustfmt::skip]
    pub async fn laid_out(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
        ctx . sleep(DAY)
            .await; // a day
        Ok( cents )
    }
}

fn registry(handlers: Handlers) -> OrchestrationRegistry {
    handlers.build().unwrap().1
}

fn old() -> Handlers {
    Handlers::new()
        .register(before::order)
        .register(before::tour)
}

/// A store with two orders and a tour that run, and an order that was cancelled.
async fn store_in_use() -> Arc<MemoryProvider> {
    let store = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let app = Duroxide::on(store.clone())
        .handlers(old())
        .start()
        .await
        .unwrap();
    for n in 0..3 {
        let start = app
            .client()
            .start(before::order, n)
            .id(format!("order-{n}"));
        start.await.unwrap();
    }
    app.client()
        .start(before::tour, 7)
        .id("tour")
        .await
        .unwrap();
    let waits = |id: &'static str, length| {
        let client = app.client();
        async move {
            while client
                .read_execution_history(id, length)
                .await
                .is_ok_and(|h| h.len() < 2)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    waits("order-2", 1).await;
    waits("tour", 3).await;
    app.client()
        .cancel_instance("order-2", "enough")
        .await
        .unwrap();
    app.client()
        .wait_for_orchestration("order-2", DAY)
        .await
        .unwrap();
    app.shutdown().await;
    store
}

#[tokio::test(start_paused = true)]
async fn a_store_is_safe_for_the_code_that_filled_it() {
    let store = store_in_use().await;
    let report = verify_store(store, &registry(old())).await.unwrap();
    assert!(report.is_safe(), "{report}");
    assert_eq!(
        (report.fitting, report.versions_needed("order")),
        (3, vec!["1.0.0"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_tells_which_instances_new_code_does_not_fit() {
    let store = store_in_use().await;
    let changed = Handlers::new()
        .register(after::order)
        .register(before::tour);
    let report = verify_store(store, &registry(changed)).await.unwrap();
    let mut ids: Vec<&str> = report.diverging.iter().map(|(id, _)| id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!((ids, report.fitting), (vec!["order-0", "order-1"], 1));
    let text = report.to_string();
    assert!(
        text.contains("TimerCreated") && text.contains("2 need order 1.0.0"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_tells_which_instances_have_no_code_any_more() {
    let store = store_in_use().await;
    let removed = Handlers::new().register(after::order_2);
    let report = verify_store(store, &registry(removed)).await.unwrap();
    assert!(!report.is_safe());
    assert_eq!((report.without_code.len(), report.fitting), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_tells_what_queued_starts_and_next_executions_need() {
    let store = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let client = duroxide::Client::new(store.clone());
    client.start(before::order, 1).id("queued").await.unwrap();
    let old = Handlers::new().register(before::order);
    let new = || Handlers::new().register(after::order_2);
    let report = verify_store(store.clone(), &registry(old)).await.unwrap();
    assert!(report.is_safe(), "{report}");
    assert_eq!(report.versions_needed("order"), ["1.0.0"]);
    let report = verify_store(store.clone(), &registry(new())).await.unwrap();
    let missing = ("order".to_owned(), Some("1.0.0".to_owned()));
    assert_eq!(report.queued_without_code, [missing]);
    assert!(!report.is_safe(), "{report}");

    // A node without the code of the next execution leaves the instance between the two.
    let store = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let node = Handlers::new().register(moving);
    let app = Duroxide::on(store.clone())
        .handlers(node)
        .start()
        .await
        .unwrap();
    app.client().start(moving, 1).id("moving").await.unwrap();
    let between = || async {
        let history = app.client().read_execution_history("moving", 1).await;
        history.is_ok_and(|history| history.len() > 1)
    };
    while !between().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    app.shutdown().await;
    let with = Handlers::new().register(moving).register(moved);
    let report = verify_store(store.clone(), &registry(with)).await.unwrap();
    assert!(report.is_safe(), "{report}");
    assert_eq!(report.versions_needed("moving"), ["2.0.0"]);
    let without = Handlers::new().register(moving);
    let report = verify_store(store, &registry(without)).await.unwrap();
    let missing = ("moving".to_owned(), "2.0.0".to_owned());
    assert_eq!(report.without_code, [("moving".to_owned(), missing)]);
    assert!(!report.is_safe(), "{report}");
}

/// Goes on in its next version.
#[duroxide::orchestration(version = "1.0.0")]
async fn moving(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
    let next = ctx.continue_as_new_versioned_typed("2.0.0", &cents);
    next.await.map(|_never| 0)
}

#[duroxide::orchestration(version = "2.0.0", name = "moving")]
async fn moved(_ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
    Ok(cents)
}

#[test]
fn a_manifest_notices_every_change() {
    let declared = Handlers::new()
        .register(before::order)
        .register(before::tour)
        .declared();
    let manifest: Vec<String> = declared.iter().map(ToString::to_string).collect();
    let manifest = manifest.join("\n");
    assert_eq!(manifest_changes(&manifest, &declared), Vec::<String>::new());
    let today = Handlers::new()
        .register(after::order)
        .register(after::order_2)
        .declared();
    let changes = manifest_changes(&manifest, &today);
    assert!(
        changes[0].starts_with("the code of orchestration order 1.0.0 has changed"),
        "{changes:?}"
    );
    assert!(changes[1].starts_with("orchestration order 2.0.0 is not in the file"));
    assert!(changes[2].starts_with("orchestration tour is gone"));
    let other_types = manifest.replace("u64 -> u64", "u32 -> u64");
    assert!(
        manifest_changes(&other_types, &declared)[0].contains("from u32 -> u64, String to u64")
    );
}

mod stored {
    use serde::{Deserialize, Serialize};

    pub(super) mod first {
        use super::*;

        #[derive(Serialize, Deserialize)]
        pub(in super::super) struct Order {
            item: String,
            cents: u64,
        }

        #[derive(Serialize, Deserialize)]
        pub(in super::super) enum Refusal {
            Busy,
            Declined { code: u32 },
        }

        #[duroxide::activity]
        pub(in super::super) async fn charge(order: Order) -> Result<u64, Refusal> {
            Ok(order.cents)
        }
    }

    /// The names of the types are the same.
    pub(super) mod later {
        use super::*;

        #[derive(Serialize, Deserialize)]
        pub(in super::super) struct Order {
            cents: u64,
            item: String,
            gift: bool,
        }

        #[derive(Serialize, Deserialize)]
        pub(in super::super) enum Refusal {
            Busy,
            Declined { code: String },
        }

        #[duroxide::activity]
        pub(in super::super) async fn charge(order: Order) -> Result<u64, Refusal> {
            Ok(order.cents)
        }
    }
}

#[test]
fn a_manifest_notices_a_field_that_is_added_and_one_that_holds_something_else() {
    let folder = std::env::temp_dir().join(format!("duroxide-shapes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("duroxide.manifest");
    let first = Handlers::new().register(stored::first::charge);
    std::fs::write(
        &file,
        "activity charge: Order -> u64, Refusal\n\
         type Order: { cents u64, item text }\n\
         type Refusal: one of Busy, Declined Refusal::Declined\n\
         type Refusal::Declined: { code u32 }\n",
    )
    .unwrap();
    assert_manifest(&file, &first);
    let manifest = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let later = Handlers::new().register(stored::later::charge).declared();
    let changes = manifest_changes(&manifest, &later);
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(
        changes[0].contains("{ cents u64, item text } to { cents u64, gift bool, item text }"),
        "{changes:?}"
    );
    assert!(changes[1].contains("{ code u32 } to { code text }"));
}

#[test]
fn layout_and_comments_are_no_change() {
    let one = Handlers::new().register(before::order).declared();
    let other = Handlers::new().register(after::laid_out).declared();
    assert_eq!(one[0].fingerprint, other[0].fingerprint);
    assert!(one[0].fingerprint.is_some());
}

#[test]
#[should_panic(expected = "write it with MANIFEST=write")]
fn a_manifest_that_is_not_there_says_how_to_write_it() {
    assert_manifest("/no/such/duroxide.manifest", &Handlers::new());
}

#[tokio::test(start_paused = true)]
async fn a_start_with_a_key_happens_once() {
    let store = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let app = Duroxide::on(store)
        .register(after::order_2)
        .start()
        .await
        .unwrap();
    let one = app
        .client()
        .start(after::order_2, 7)
        .dedup_key("click 1")
        .await
        .unwrap();
    let same = app
        .client()
        .start(after::order_2, 8)
        .dedup_key("click 1")
        .await
        .unwrap();
    assert_eq!((one.id(), same.id()), ("order:click 1", "order:click 1"));
    assert_eq!(same.result().await.unwrap(), 7);
    app.shutdown().await;
}
