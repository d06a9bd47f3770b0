//! Following what an instance publishes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{InstanceWatch, Provider, ProviderError};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::testing::Harness;
use duroxide::{App, Changes};
use futures::StreamExt;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// Publishes how many stops are done, one a minute and two in each execution.
#[duroxide::orchestration]
async fn tour(ctx: OrchestrationContext, done: u64, stops: u64) -> Result<u64, String> {
    for done in done..done + 2 {
        ctx.publish(&done);
        if done == stops {
            return Ok(done);
        }
        ctx.sleep(MINUTE).await;
        // The same view again is no change.
        ctx.publish(&done);
    }
    ctx.continue_with(tour, (&(done + 2), &stops)).await
}

/// Publishes a text, then a number, a minute later each.
#[duroxide::orchestration]
async fn unsure(ctx: OrchestrationContext) -> Result<(), String> {
    ctx.publish("no number");
    ctx.sleep(MINUTE).await;
    ctx.publish(&7_u64);
    ctx.sleep(MINUTE).await;
    Ok(())
}

/// Says nothing for an hour.
#[duroxide::orchestration]
async fn quiet(ctx: OrchestrationContext) -> Result<(), String> {
    ctx.sleep(60 * MINUTE).await;
    Ok(())
}

/// Publishes and fails in the same turn.
#[duroxide::orchestration]
async fn failing(ctx: OrchestrationContext) -> Result<(), String> {
    ctx.publish(&1_u64);
    Err("it could not be done".to_owned())
}

fn code() -> Handlers {
    Handlers::new()
        .register(tour)
        .register(unsure)
        .register(quiet)
        .register(failing)
}

async fn harness() -> Harness {
    Harness::builder().handlers(code()).start().await
}

async fn all<T>(mut changes: Changes<T>) -> Vec<T> {
    let mut seen = Vec::new();
    while let Some(view) = changes.next().await {
        seen.push(view.unwrap());
    }
    assert!(changes.next().await.is_none(), "the end stays the end");
    seen
}

#[tokio::test(start_paused = true)]
async fn every_view_is_told_over_continue_as_new_until_the_end() {
    let harness = harness().await;
    let client = harness.client();
    // Followed before it exists, from its beginning, and as a stream.
    let early = tokio::spawn(all(client.changes::<u64>("tour")));
    let tour = client.start(tour, (0, 5)).id("tour").await.unwrap();
    let stream = tokio::spawn(
        tour.changes::<u64>()
            .map(Result::unwrap)
            .collect::<Vec<_>>(),
    );
    assert_eq!(all(tour.changes::<u64>()).await, [0, 1, 2, 3, 4, 5]);
    assert_eq!(early.await.unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(stream.await.unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(tour.result().await.unwrap(), 5);
    // Who comes too late sees the last view.
    assert_eq!(all(tour.changes::<u64>()).await, [5]);
    harness.assert_deterministic("tour").await;
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_view_is_told_whatever_crashes() {
    for commit in 1..=4 {
        let mut harness = harness().await;
        let tour = harness.client().start(tour, (0, 3)).id("tour");
        let tour = tour.await.unwrap();
        harness.crash_after_commit(commit);
        let seen = tokio::spawn(all(tour.changes::<u64>()));
        harness.wait("tour").await;
        assert_eq!(seen.await.unwrap(), [0, 1, 2, 3], "{commit}");
        harness.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_published_with_the_end_is_told_before_it() {
    let harness = harness().await;
    let client = harness.client();
    let failing = client.start(failing, ()).id("failing").await.unwrap();
    assert_eq!(all(failing.changes::<u64>()).await, [1]);
    let quiet = client.start(quiet, ()).id("quiet").await.unwrap();
    assert!(all(quiet.changes::<u64>()).await.is_empty());
    assert!(quiet.result().await.is_ok());
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_view_of_another_type_is_an_error_and_the_next_one_is_told() {
    let harness = harness().await;
    let unsure = harness.client().start(unsure, ()).id("u").await.unwrap();
    let mut changes = unsure.changes::<u64>();
    let strange = changes.next().await.unwrap().unwrap_err();
    assert!(
        matches!(strange, ClientError::InvalidInput { .. }),
        "{strange}"
    );
    assert_eq!(changes.next().await.unwrap().unwrap(), 7);
    assert!(changes.next().await.is_none());
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_is_dropped_loses_nothing() {
    let harness = harness().await;
    let tour = harness
        .client()
        .start(tour, (0, 3))
        .id("tour")
        .await
        .unwrap();
    let mut changes = tour.changes::<u64>();
    let mut seen = Vec::new();
    loop {
        // Given up seven times a minute.
        let look = tokio::time::timeout(Duration::from_secs(8), changes.next());
        match look.await {
            Ok(Some(view)) => seen.push(view.unwrap()),
            Ok(None) => break,
            Err(_elapsed) => {}
        }
    }
    assert_eq!(seen, [0, 1, 2, 3]);
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_deleted_is_over() {
    let harness = harness().await;
    let client = harness.client();
    let quiet = client.start(quiet, ()).id("quiet").await.unwrap();
    let seen = tokio::spawn(all(quiet.changes::<u64>()));
    tokio::time::sleep(MINUTE).await;
    client.delete_instance("quiet", true).await.unwrap();
    assert!(seen.await.unwrap().is_empty());
    harness.stop().await;
}

/// Counts looks at views, and lets some of them fail.
#[derive(Clone, Default)]
struct Looks {
    count: Arc<AtomicUsize>,
    cannot_wake: bool,
    /// From when on looks fail, and how.
    failing: Option<(Instant, Failing)>,
}

#[derive(Clone, Copy)]
enum Failing {
    ForAMinute,
    ForGood,
}

impl Looks {
    fn failure(&self, operation: &'static str) -> Option<ProviderError> {
        let (from, how) = self.failing?;
        let since = Instant::now().checked_duration_since(from)?;
        match how {
            Failing::ForAMinute if since >= MINUTE => None,
            Failing::ForAMinute => Some(ProviderError::retryable(operation, "away")),
            Failing::ForGood => Some(ProviderError::permanent(operation, "broken")),
        }
    }
}

impl Layer for Looks {
    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        if operation == "get_kv_value" {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        match self.failure(operation) {
            Some(failure) => Err(failure),
            None => call.await,
        }
    }

    fn watch_instance(
        &self,
        next: &dyn Provider,
        instance: &str,
    ) -> Option<Box<dyn InstanceWatch>> {
        if self.cannot_wake {
            None
        } else {
            next.watch_instance(instance)
        }
    }
}

/// A running program, and a client on its store that looks through this layer.
async fn through(looks: &Looks) -> (App, Client) {
    let store = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let app = Duroxide::on(store.clone()).handlers(code()).start().await;
    let client = Client::new(Arc::new(Layered::around(store, looks.clone())));
    (app.unwrap(), client)
}

#[tokio::test(start_paused = true)]
async fn a_silent_instance_is_seldom_looked_at() {
    // Once in five seconds, in case the store forgot to wake; once a second if it cannot wake.
    for (cannot_wake, looks_max) in [(false, 750), (true, 3_650)] {
        let looks = Looks {
            cannot_wake,
            ..Looks::default()
        };
        let (app, client) = through(&looks).await;
        app.client().start(quiet, ()).id("quiet").await.unwrap();
        assert!(all(client.changes::<u64>("quiet")).await.is_empty());
        let looks = looks.count.load(Ordering::Relaxed);
        assert!(looks < looks_max, "{looks}");
        app.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn views_are_told_by_a_store_that_cannot_wake() {
    let looks = Looks {
        cannot_wake: true,
        ..Looks::default()
    };
    let (app, client) = through(&looks).await;
    app.client().start(tour, (0, 5)).id("tour").await.unwrap();
    let seen = all(client.changes::<u64>("tour")).await;
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    app.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_outwaited_and_a_store_that_fails_for_good_ends_it() {
    let away = Looks {
        failing: Some((Instant::now() + MINUTE * 3 / 2, Failing::ForAMinute)),
        ..Looks::default()
    };
    let (app, client) = through(&away).await;
    app.client().start(tour, (0, 4)).id("tour").await.unwrap();
    // What was published meanwhile is told when the store is back.
    assert_eq!(all(client.changes::<u64>("tour")).await, [0, 1, 2, 3, 4]);
    app.shutdown().await;

    let broken = Looks {
        failing: Some((Instant::now() + MINUTE * 3 / 2, Failing::ForGood)),
        ..Looks::default()
    };
    let (app, client) = through(&broken).await;
    app.client().start(tour, (0, 4)).id("tour").await.unwrap();
    let mut changes = client.changes::<u64>("tour");
    assert_eq!(changes.next().await.unwrap().unwrap(), 0);
    assert_eq!(changes.next().await.unwrap().unwrap(), 1);
    assert!(changes.next().await.unwrap().is_err());
    assert!(changes.next().await.is_none(), "nobody asks for ever");
    app.shutdown().await;
}
