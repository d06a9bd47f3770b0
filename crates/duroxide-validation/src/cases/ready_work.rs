//! Ready work by handler: what an operator needs to see that a node with certain code is missing.

use duroxide_core::WorkItem;
use duroxide_core::provider::{HandlerKind, ReadyWork};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, VERSION, items};

async fn ready<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, limit: u32) -> Vec<ReadyWork> {
    let listed = bench.admin().list_ready_work(limit).await;
    listed.expect("a listing").expect("the store can tell")
}

async fn counts<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
) -> Vec<(HandlerKind, String, Option<String>, u64)> {
    let ready = ready(bench, 100).await.into_iter();
    let mut counts: Vec<_> = ready
        .map(|work| (work.kind, work.name, work.version, work.count))
        .collect();
    counts.sort();
    counts
}

fn orchestration(
    name: &str,
    version: Option<&str>,
    count: u64,
) -> (HandlerKind, String, Option<String>, u64) {
    let version = version.map(Into::into);
    (HandlerKind::Orchestration, name.into(), version, count)
}

fn activity(name: &str, count: u64) -> (HandlerKind, String, Option<String>, u64) {
    (HandlerKind::Activity, name.into(), None, count)
}

/// Instances by the handler they need, each once; activities by their name.
pub async fn ready_work_is_listed_by_handler<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert_eq!(counts(&bench).await, []);
    bench.create("running").await;
    assert_eq!(counts(&bench).await, [], "nothing waits");
    for name in ["a", "b", "c"] {
        bench.send(items::signal("running", name)).await;
    }
    for n in 0..2 {
        let id = format!("new-{n}");
        bench.send(items::start_of(&id, "Other", None)).await;
    }
    for id in 1..=3 {
        bench.schedule(items::activity("running", id)).await;
    }
    let expected = [
        orchestration("Other", None, 2),
        orchestration(NAME, Some(VERSION), 1),
        activity("TestActivity", 3),
    ];
    assert_eq!(counts(&bench).await, expected);
}

/// What a node has claimed, and what is not due, is not ready.
pub async fn claimed_and_delayed_work_is_not_ready<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("taken").await;
    bench.schedule(items::activity("taken", 1)).await;
    let turn = bench.turn_of("taken").await;
    let work = bench.work().await;
    bench
        .send_after(items::start("later"), Some(bench.lock * 4))
        .await;
    assert_eq!(counts(&bench).await, []);
    bench.abandon(&turn, None).await;
    bench.give_back(&work, None, false).await;
    let expected = [
        orchestration(NAME, Some(VERSION), 1),
        activity("TestActivity", 1),
    ];
    assert_eq!(counts(&bench).await, expected, "given back");
    bench
        .advance("taken", Commit::first().completed("ok"))
        .await;
    let work = bench.work().await;
    bench.finish(&work).await;
    let left = counts(&bench).await;
    let ended = |one: &(HandlerKind, String, Option<String>, u64)| one.0 == HandlerKind::Activity;
    assert!(!left.iter().any(ended), "done: {left:?}");
}

/// Who waits longest comes first, and the limit is kept.
pub async fn the_longest_wait_is_listed_first<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let began = bench.now_ms();
    for name in ["First", "Second"] {
        bench.send(items::start_of(name, name, Some("1.0.0"))).await;
        bench.pass(bench.brief()).await;
    }
    let mut third = items::activity("i", 1);
    if let WorkItem::ActivityExecute { name, .. } = &mut third {
        *name = "Third".into();
    }
    bench.schedule(third).await;
    let all = ready(&bench, 100).await;
    let names: Vec<_> = all.iter().map(|work| work.name.as_str()).collect();
    assert_eq!(names, ["First", "Second", "Third"]);
    assert!(all[0].ready_since_ms >= began, "since it was sent");
    assert!(all[0].ready_since_ms < all[1].ready_since_ms);
    assert!(all[2].ready_since_ms <= bench.now_ms());
    let two = ready(&bench, 2).await;
    assert_eq!(two, all[..2]);
}
