//! As many claimers as there is work.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{Provider, TagFilter};
use futures::future::join_all;

use crate::ProviderFactory;
use crate::fixture::{Bench, contended, items};

/// A work fetch as one of many concurrent callers; busy answers are tried again.
async fn contended_work(store: &dyn Provider, lease: Duration) -> Option<u64> {
    loop {
        let tags = TagFilter::DefaultOnly;
        match store
            .fetch_work_item(lease, Duration::ZERO, None, &tags)
            .await
        {
            Ok(found) => return found.map(|(item, _, _)| items::id_of(&item)),
            Err(error) if error.is_retryable() => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(error) => panic!("a fetch under contention failed for good: {error}"),
        }
    }
}

/// Sixteen claimers and sixteen ready instances make sixteen claims in one round: losing a race is not "no work".
pub async fn as_many_claimers_as_instances_are_all_served<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for n in 0..16 {
        bench.start(&format!("ready-{n}")).await;
    }
    let claims = (0..16).map(|_| {
        let (store, lock) = (Arc::clone(&bench.store), bench.lock);
        tokio::spawn(async move { contended(&*store, lock).await })
    });
    let claimed: HashSet<String> = join_all(claims)
        .await
        .into_iter()
        .filter_map(|answer| answer.expect("a claimer does not panic"))
        .map(|turn| turn.item.instance)
        .collect();
    assert_eq!(claimed.len(), 16);
}

/// Sixteen workers and sixteen ready activities make sixteen claims in one round.
pub async fn as_many_workers_as_activities_are_all_served<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for id in 1..=16 {
        bench.schedule(items::activity("ready", id)).await;
    }
    let claims = (0..16).map(|_| {
        let (store, lock) = (Arc::clone(&bench.store), bench.lock);
        tokio::spawn(async move { contended_work(&*store, lock).await })
    });
    let claimed: HashSet<u64> = join_all(claims)
        .await
        .into_iter()
        .filter_map(|answer| answer.expect("a worker does not panic"))
        .collect();
    assert_eq!(claimed.len(), 16);
}

/// Forty callers at once, half on each queue, are all answered and nothing is handed out twice.
pub async fn forty_callers_on_both_queues_do_not_disturb_each_other<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for n in 1..=20 {
        bench.start(&format!("ready-{n}")).await;
        bench.schedule(items::activity("ready", n)).await;
    }
    let calls = (0..40).map(|n| {
        let (store, lock) = (Arc::clone(&bench.store), bench.lock);
        tokio::spawn(async move {
            if n % 2 == 0 {
                contended(&*store, lock)
                    .await
                    .map(|turn| turn.item.instance)
            } else {
                contended_work(&*store, lock).await.map(|id| id.to_string())
            }
        })
    });
    let answers: Vec<String> = join_all(calls)
        .await
        .into_iter()
        .filter_map(|answer| answer.expect("a caller does not panic"))
        .collect();
    let distinct: HashSet<&String> = answers.iter().collect();
    assert_eq!(answers.len(), 40, "everybody is served");
    assert_eq!(distinct.len(), 40, "nobody is served what another has");
}

/// Many callers write to one instance at once; every message arrives once.
pub async fn messages_from_many_senders_all_arrive<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("inbox").await;
    let sends = (1..=40).map(|id| {
        let store = Arc::clone(&bench.store);
        tokio::spawn(async move {
            let message = items::activity_done("inbox", id);
            while let Err(error) = store.enqueue_for_orchestrator(message.clone(), None).await {
                assert!(error.is_retryable(), "{error}");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
    });
    for sent in join_all(sends).await {
        sent.expect("a sender does not panic");
    }
    let turn = bench.turn_of("inbox").await;
    let mut ids: Vec<u64> = turn.item.messages.iter().map(items::id_of).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=40).collect::<Vec<_>>());
}
