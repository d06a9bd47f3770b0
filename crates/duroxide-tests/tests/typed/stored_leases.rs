//! A turn may be handed out before its claim is committed. It acts on the world, or asks the store, only under a lease
//! that the store says it has stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use duroxide::App;
use duroxide::prelude::*;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{Provider, ProviderError};
use duroxide::runtime::observability::{Layer, Layered};

/// Leases that the store has stored, and how often the effect ran; each test has an orchestration of its own.
static STORED: AtomicU32 = AtomicU32::new(0);
static ACTED: AtomicU32 = AtomicU32::new(0);

/// Says how many leases were stored when its effect ran.
#[duroxide::orchestration]
async fn acts(ctx: OrchestrationContext) -> Result<u32, String> {
    let stored = ctx.run("act", || async {
        ACTED.fetch_add(1, Ordering::SeqCst);
        Ok::<u32, String>(STORED.load(Ordering::SeqCst))
    });
    stored.await.map_err(|error| error.to_string())
}

/// Asks the host for what needs no store.
#[duroxide::orchestration]
async fn draws(ctx: OrchestrationContext) -> Result<SystemTime, String> {
    ctx.new_guid().await?;
    ctx.utc_now().await
}

#[duroxide::orchestration]
async fn reads(ctx: OrchestrationContext) -> Result<Option<String>, String> {
    ctx.get_kv_value_from_instance("prices", "apple").await
}

/// A store that loses the first leases that it is asked to store.
#[derive(Default)]
struct Loses {
    left: AtomicU32,
    asked: Arc<AtomicU32>,
}

impl Layer for Loses {
    async fn store_lease(
        &self,
        next: &dyn Provider,
        lock_token: &str,
    ) -> Result<(), ProviderError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let fewer = |left: u32| left.checked_sub(1);
        let lost = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        if lost.is_ok() {
            return Err(ProviderError::lease_lost("store_lease", "rolled back"));
        }
        STORED.fetch_add(1, Ordering::SeqCst);
        next.store_lease(lock_token).await
    }
}

async fn app(store: Loses) -> App {
    let memory = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let code = Handlers::new()
        .register(acts)
        .register(draws)
        .register(reads);
    Duroxide::on(Arc::new(Layered::around(memory, store)))
        .handlers(code)
        .start()
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_effect_runs_only_once_the_lease_of_its_turn_is_stored() {
    let app = app(Loses {
        left: AtomicU32::new(1),
        ..Loses::default()
    })
    .await;
    let handle = app.client().start(acts, ()).id("a").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 1);
    assert_eq!(
        ACTED.load(Ordering::SeqCst),
        1,
        "not in the turn that was lost"
    );
    app.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_has_its_lease_stored_before_it_asks_the_store_and_not_for_an_id_or_the_time() {
    let store = Loses::default();
    let asked = Arc::clone(&store.asked);
    let app = app(store).await;
    let client = app.client();
    client
        .start(draws, ())
        .id("d")
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    client
        .start(reads, ())
        .id("r")
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    app.shutdown().await;
}
