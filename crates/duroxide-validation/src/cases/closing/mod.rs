//! A store that is closed for the engine, its clients and its operators: nothing goes in or out by their doors, nothing
//! in it changes, and everything can be read.

mod compared;
mod unchanged;

pub use compared::*;
pub use unchanged::*;

use duroxide_core::provider::{Closing, ProviderError, Restoring};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

const REASON: &str = "moved to the other side, \"for good\"";

/// Closes the store, or opens it, whatever it was before.
async fn close<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, reason: Option<&str>) {
    let before = bench.admin().closed_because().await.expect("an answer");
    let closed = bench.admin().close_store(before.as_deref(), reason).await;
    assert_eq!(closed, Ok(Some(Closing::Done)), "the store can do that");
}

fn refused<T>(answer: Result<T, ProviderError>, what: &str) {
    let Err(error) = answer else {
        panic!("{what} is refused");
    };
    assert!(!error.is_retryable(), "{what}: {error}");
    assert!(!error.is_lease_lost(), "{what}: {error}");
    assert!(error.is_store_closed(), "{what}: {error}");
    assert!(error.message.contains(REASON), "{what}: {error}");
}

/// Messages, activities, claims, commits and results are refused for good, with the reason; reads go on. Opened again,
/// all goes on.
pub async fn a_closed_store_takes_and_gives_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("one", Commit::first().work(items::activity("one", 2)))
        .await;
    bench.send(items::signal("one", "go")).await;
    let turn = bench.turn_of("one").await;
    let work = bench.work().await;
    bench.start("two").await;
    bench.schedule(items::activity("one", 3)).await;
    assert_eq!(
        bench.admin().closed_because().await.expect("an answer"),
        None
    );
    close(&bench, Some("for a while")).await;
    close(&bench, Some(REASON)).await;
    let reason = bench.admin().closed_because().await.expect("an answer");
    assert_eq!(reason.as_deref(), Some(REASON));

    let store = &bench.store;
    let start = items::start("three");
    refused(store.enqueue_for_orchestrator(start, None).await, "a start");
    refused(
        store.enqueue_for_worker(items::activity("one", 4)).await,
        "an activity",
    );
    let now = std::time::Duration::ZERO;
    refused(
        store.fetch_orchestration_item(bench.lock, now, None).await,
        "a fetch",
    );
    refused(store.claim_turns(bench.ask()).await, "a claim of turns");
    refused(
        store.claim_work(bench.ask_work(1)).await,
        "a claim of activities",
    );
    refused(
        bench.try_commit(&turn, Commit::to(1).completed("1")).await,
        "a commit",
    );
    let done = Some(items::activity_done("one", 2));
    refused(bench.try_finish(&work, done).await, "a result");

    assert_eq!(bench.read("one").await.len(), 1, "reads go on");
    assert!(bench.read("three").await.is_empty());
    close(&bench, None).await;
    assert_eq!(
        bench.admin().closed_because().await.expect("an answer"),
        None
    );
    bench.commit(&turn, Commit::to(1)).await;
    bench.finish(&work).await;
    let mut ready = [bench.turn().await, bench.turn().await].map(|turn| turn.item.instance);
    ready.sort();
    assert_eq!(ready, ["one", "two"]);
    assert_eq!(bench.work().await.id(), 3);
}

/// No node gets a duty on a closed store: nothing is deleted there by itself.
pub async fn a_closed_store_gives_no_duty<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("kept").await;
    let minute = std::time::Duration::from_secs(60);
    close(&bench, Some(REASON)).await;
    refused(
        bench.admin().hold_duty("sweep", "me", minute).await,
        "a duty",
    );
    assert_eq!(bench.read("kept").await.len(), 1);
    close(&bench, None).await;
    let held = bench.admin().hold_duty("sweep", "me", minute).await;
    assert_eq!(held.expect("it is open"), Some(true));
}

/// Instances are taken from a closed store, and restored into one.
pub async fn a_closed_store_can_be_moved<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("goes", Commit::first().work(items::activity("goes", 2)))
        .await;
    bench.send(items::signal("goes", "go")).await;
    close(&bench, Some(REASON)).await;
    let taken = bench.admin().snapshot_instance("goes").await;
    let taken = taken.expect("an answer").expect("the store can do that");
    let other = Bench::open(factory).await;
    close(&other, Some(REASON)).await;
    let restored = other.admin().restore_instance(&taken, Some(REASON)).await;
    assert_eq!(restored.expect("an answer"), Some(Restoring::Done));
    let held = other.admin().held_ids(None, 9).await;
    let held = held.expect("an answer").expect("the store can tell");
    assert_eq!(held.ids, ["goes"]);
    refused(other.store.claim_turns(other.ask()).await, "a claim");
    close(&other, None).await;
    other.turn_of("goes").await;
    assert_eq!(other.work().await.id(), 2);
}

/// It is closed for every process, and for the next one.
pub async fn a_closed_store_stays_closed<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("one").await;
    close(&bench, Some(REASON)).await;
    let bench = bench.reopen().await;
    let reason = bench.admin().closed_because().await.expect("an answer");
    assert_eq!(reason.as_deref(), Some(REASON));
    let signal = items::signal("one", "go");
    refused(
        bench.store.enqueue_for_orchestrator(signal, None).await,
        "a message",
    );
    assert_eq!(bench.read("one").await.len(), 1);
}

/// Who has the store open already is refused as well.
pub async fn a_second_handle_finds_the_store_closed<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("one").await;
    let other = factory.second_handle().await;
    let signal = items::signal("one", "go");
    other
        .enqueue_for_orchestrator(signal.clone(), None)
        .await
        .expect("it is open");
    close(&bench, Some(REASON)).await;
    refused(
        other.enqueue_for_orchestrator(signal, None).await,
        "a message",
    );
    refused(other.claim_turns(bench.ask()).await, "a claim");
    close(&bench, None).await;
    let claimed = other.claim_turns(bench.ask()).await.expect("it is open");
    assert_eq!(claimed.len(), 1);
}
