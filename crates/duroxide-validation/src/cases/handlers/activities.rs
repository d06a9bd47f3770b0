//! Activities: by their name.

use std::collections::BTreeSet;
use std::sync::Arc;

use duroxide_core::WorkItem;
use duroxide_core::provider::{ClaimedWork, TagFilter, WorkClaim};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, session};

fn named(instance: &str, id: u64, activity: &str) -> WorkItem {
    let mut item = items::activity(instance, id);
    if let WorkItem::ActivityExecute { name, .. } = &mut item {
        *name = activity.into();
    }
    item
}

pub(super) fn code(names: &[&str]) -> Option<Arc<BTreeSet<String>>> {
    let names = names.iter().map(|name| (*name).to_owned());
    Some(Arc::new(names.collect()))
}

async fn claim_as<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    max: usize,
    names: &[&str],
) -> Vec<ClaimedWork> {
    let claim = WorkClaim {
        activities: code(names),
        ..bench.ask_work(max)
    };
    bench.claim_work(claim).await
}

fn ids(works: &[ClaimedWork]) -> Vec<u64> {
    works.iter().map(|work| items::id_of(&work.item)).collect()
}

/// An activity waits for a node that has its code, and waiting is no attempt.
pub async fn an_activity_goes_to_a_node_with_its_code<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(named("i", 1, "Ship")).await;
    for _ in 0..3 {
        assert!(claim_as(&bench, 1, &["Charge"]).await.is_empty());
        assert!(claim_as(&bench, 1, &[]).await.is_empty());
    }
    let works = claim_as(&bench, 1, &["Charge", "Ship"]).await;
    assert_eq!(ids(&works), [1]);
    assert_eq!(works[0].attempt_count, 1, "to be passed over is no attempt");
}

/// Any number of activities that a node has no code for is in front, and it is handed what it can run, in order.
pub async fn activities_without_code_are_not_in_the_way<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let mut first = Commit::first();
    for id in 1..=300 {
        first = first.work(named("sender", id, &format!("Foreign{}", id % 7)));
    }
    for id in 301..=303 {
        first = first.work(named("sender", id, "Mine"));
    }
    bench.create_with("sender", first).await;
    let works = claim_as(&bench, 10, &["Mine"]).await;
    assert_eq!(ids(&works), [301, 302, 303]);
    let works = claim_as(&bench, 2, &["Foreign1", "Foreign2"]).await;
    assert_eq!(ids(&works), [1, 2], "in the order they were scheduled");
}

/// Name, tag and session are all asked for.
pub async fn a_name_replaces_neither_tag_nor_session<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::tagged_activity("i", 1, "gpu")).await;
    bench.schedule(items::session_activity("i", 2, "s")).await;
    assert!(claim_as(&bench, 5, &["TestActivity"]).await.is_empty());
    let gpu = WorkClaim {
        tag_filter: TagFilter::tags(["gpu"]),
        activities: code(&["TestActivity"]),
        ..bench.ask_work(5)
    };
    assert_eq!(ids(&bench.claim_work(gpu).await), [1]);
    let with_session = |names| WorkClaim {
        session: Some(session("owner", bench.lock)),
        activities: code(names),
        ..bench.ask_work(5)
    };
    let other = bench.claim_work(with_session(&["Other"])).await;
    assert!(other.is_empty());
    let own = bench.claim_work(with_session(&["TestActivity"])).await;
    assert_eq!(ids(&own), [2]);
}

/// Who names no activities is handed everything, through either door.
pub async fn a_worker_that_names_no_activities_is_handed_everything<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.schedule(named("i", 1, "Ship")).await;
    bench.schedule(named("i", 2, "Charge")).await;
    assert_eq!(bench.work().await.id(), 1);
    assert_eq!(ids(&bench.claim_work(bench.ask_work(1)).await), [2]);
}
