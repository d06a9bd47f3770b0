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
        ..TurnClaim::new(1, bench.lock, bench.for_long())
    };
    tokio::spawn(async move {
        let claimed = store.claim_turns(claim).await;
        let turn = claimed.expect("a claim does not fail").pop();
        let turn = turn.expect("woken with an instance");
        (turn.item.instance, Instant::now())
    })
}

async fn is_served<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    waiter: Woken,
    since: Instant,
    wanted: &str,
) {
    let (found, at) = waiter.await.expect("the waiter is served");
    assert_eq!(found, wanted);
    let late = at.saturating_duration_since(since);
    assert!(late < bench.prompt() * 4, "woken only after {late:?}");
}

/// A node that waits is not served with what it cannot run, and is woken by what it can.
pub async fn a_waiting_node_is_woken_for_what_it_can_run<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let own = wait_as(&bench, &[(NAME, VERSION)], bench.for_long());
    let other = wait_as(&bench, &[("OtherOrch", "1.0.0")], bench.for_long());
    bench.settle().await;
    bench
        .send(items::start_of("foreign", "Foreign", None))
        .await;
    bench.settle().await;
    let since = Instant::now();
    bench.start("mine").await;
    is_served(&bench, own, since, "mine").await;
    let since = Instant::now();
    bench
        .send(items::start_of("theirs", "OtherOrch", None))
        .await;
    is_served(&bench, other, since, "theirs").await;
}

/// A node that waits is woken when a request to cancel is old enough.
pub async fn an_aging_cancel_request_wakes_a_waiting_node<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("stuck").await;
    let age = bench.at_once() * 8;
    let waiter = wait_as(&bench, &[], age);
    bench.settle().await;
    let since = Instant::now();
    bench.send(items::cancel("stuck")).await;
    is_served(&bench, waiter, since, "stuck").await;
    assert!(since.elapsed() >= age * 3 / 4, "not before its time");
}

/// A worker that waits is woken for an activity that it has code for.
pub async fn a_waiting_worker_is_woken_for_its_activities<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let store = Arc::clone(&bench.store);
    let claim = WorkClaim {
        activities: code(&["Mine"]),
        ..WorkClaim::new(1, bench.lock, bench.for_long())
    };
    let waiter = tokio::spawn(async move {
        let claimed = store.claim_work(claim).await;
        claimed.expect("a claim does not fail").pop()
    });
    bench.settle().await;
    bench.schedule(items::activity("i", 1)).await;
    bench.settle().await;
    let mut mine = items::activity("i", 2);
    if let WorkItem::ActivityExecute { name, .. } = &mut mine {
        *name = "Mine".into();
    }
    let since = Instant::now();
    bench.schedule(mine).await;
    let work = waiter.await.expect("the waiter is served");
    assert_eq!(work.map(|work| items::id_of(&work.item)), Some(2));
    assert!(since.elapsed() < bench.prompt() * 4, "woken late");
}
