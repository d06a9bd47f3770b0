//! Waiting nodes are woken for what they can run, and only that is handed to them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide_core::WorkItem;
use duroxide_core::provider::{TurnClaim, WorkClaim};
use tokio::task::JoinHandle;

use super::activities::code;
use super::node;
use crate::ProviderFactory;
use crate::fixture::{Bench, NAME, VERSION, items};

/// How long a claim may wait: far longer than any wake-up takes.
const POLL: Duration = Duration::from_secs(8);
/// How late a wake-up may be on a loaded machine.
const PROMPT: Duration = Duration::from_secs(2);
/// Long enough for a waiting claim to settle.
const SETTLED: Duration = Duration::from_millis(60);

type Woken = JoinHandle<(String, Instant)>;

fn wait_as<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    handlers: &[(&str, &str)],
    cancel_without_code_after: Duration,
) -> Woken {
    let store = Arc::clone(&bench.store);
    let claim = TurnClaim {
        handlers: node(handlers),
        cancel_without_code_after,
        ..TurnClaim::new(1, bench.lock, POLL)
    };
    tokio::spawn(async move {
        let claimed = store.claim_turns(claim).await;
        let turn = claimed.expect("a claim does not fail").pop();
        let turn = turn.expect("woken with an instance");
        (turn.item.instance, Instant::now())
    })
}

async fn settle() {
    tokio::time::sleep(SETTLED).await;
}

async fn is_served(waiter: Woken, since: Instant, wanted: &str) {
    let (found, at) = waiter.await.expect("the waiter is served");
    assert_eq!(found, wanted);
    let late = at.saturating_duration_since(since);
    assert!(late < PROMPT, "woken only after {late:?}");
}

/// A node that waits is not served with what it cannot run, and is woken by what it can.
pub async fn a_waiting_node_is_woken_for_what_it_can_run<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let own = wait_as(&bench, &[(NAME, VERSION)], POLL);
    let other = wait_as(&bench, &[("OtherOrch", "1.0.0")], POLL);
    settle().await;
    bench
        .send(items::start_of("foreign", "Foreign", None))
        .await;
    settle().await;
    let since = Instant::now();
    bench.start("mine").await;
    is_served(own, since, "mine").await;
    let since = Instant::now();
    bench
        .send(items::start_of("theirs", "OtherOrch", None))
        .await;
    is_served(other, since, "theirs").await;
}

/// A node that waits is woken when a request to cancel is old enough.
pub async fn an_aging_cancel_request_wakes_a_waiting_node<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("stuck").await;
    let waiter = wait_as(&bench, &[], SETTLED * 4);
    settle().await;
    let since = Instant::now();
    bench.send(items::cancel("stuck")).await;
    is_served(waiter, since, "stuck").await;
    assert!(since.elapsed() >= SETTLED * 3, "not before its time");
}

/// A worker that waits is woken for an activity that it has code for.
pub async fn a_waiting_worker_is_woken_for_its_activities<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let store = Arc::clone(&bench.store);
    let claim = WorkClaim {
        activities: code(&["Mine"]),
        ..WorkClaim::new(1, bench.lock, POLL)
    };
    let waiter = tokio::spawn(async move {
        let claimed = store.claim_work(claim).await;
        claimed.expect("a claim does not fail").pop()
    });
    settle().await;
    bench.schedule(items::activity("i", 1)).await;
    settle().await;
    let mut mine = items::activity("i", 2);
    if let WorkItem::ActivityExecute { name, .. } = &mut mine {
        *name = "Mine".into();
    }
    let since = Instant::now();
    bench.schedule(mine).await;
    let work = waiter.await.expect("the waiter is served");
    assert_eq!(work.map(|work| items::id_of(&work.item)), Some(2));
    assert!(since.elapsed() < PROMPT, "woken late");
}
