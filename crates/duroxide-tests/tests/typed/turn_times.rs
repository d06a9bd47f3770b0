//! The time that a turn may take: what hangs in it costs itself, and never the instance an attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{Provider, ProviderError};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::{App, RuntimeOptions};

const SECOND: Duration = Duration::from_secs(1);

/// Reads what another instance wrote.
#[duroxide::orchestration]
async fn reads(ctx: OrchestrationContext) -> Result<String, String> {
    let price = ctx.get_kv_value_from_instance("prices", "apple").await?;
    Ok(format!("{price:?}"))
}

/// Runs an effect that hangs, after such a read.
#[duroxide::orchestration]
async fn reads_and_hangs(ctx: OrchestrationContext) -> Result<String, String> {
    ctx.get_kv_value_from_instance("prices", "apple").await?;
    let hangs = ctx.run("hangs", std::future::pending::<Result<u32, String>>);
    match hangs.await {
        Err(ActivityError::TimedOut { which }) => Ok(which.to_string()),
        other => Err(format!("{other:?}")),
    }
}

/// A store that answers the first reads of key-values never, and the others late.
struct Slow {
    unanswered: AtomicU32,
    late_by: Duration,
}

impl Layer for Slow {
    async fn get_kv_value(
        &self,
        next: &dyn Provider,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        let fewer = |left: u32| left.checked_sub(1);
        let hangs = self
            .unanswered
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        if hangs.is_ok() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(self.late_by).await;
        next.get_kv_value(instance, key).await
    }
}

/// Each instance has one attempt.
async fn app(slow: Slow) -> App {
    let store = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let code = Handlers::new().register(reads).register(reads_and_hangs);
    let options = RuntimeOptions {
        max_attempts: 1,
        ..RuntimeOptions::default()
    };
    Duroxide::on(Arc::new(Layered::around(store, slow)))
        .handlers(code)
        .options(options)
        .start()
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_during_a_turn_is_away_and_the_turn_not_counted() {
    let app = app(Slow {
        unanswered: AtomicU32::new(3),
        late_by: Duration::ZERO,
    })
    .await;
    let began = tokio::time::Instant::now();
    let handle = app.client().start(reads, ()).id("r").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "None");
    assert!(began.elapsed() >= 180 * SECOND, "it hung three times");
    app.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_begins_late_in_its_turn_leaves_time_for_the_commit() {
    let app = app(Slow {
        unanswered: AtomicU32::new(0),
        late_by: 45 * SECOND,
    })
    .await;
    let began = tokio::time::Instant::now();
    let start = app.client().start(reads_and_hangs, ()).id("r");
    let handle = start.await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "start-to-close");
    assert!(began.elapsed() < 60 * SECOND, "within its first turn");
    app.shutdown().await;
}
