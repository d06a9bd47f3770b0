//! Many claimers at once: no work is handed out twice, and none is left out.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, claim_together, contended};

fn distinct(turns: &[Turn]) -> usize {
    let ids: HashSet<&str> = turns.iter().map(|t| t.item.instance.as_str()).collect();
    ids.len()
}

/// Ten instances and ten claimers, one shortly after the other, make ten claims.
pub async fn test_concurrent_instance_fetching<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..10 {
        bench.start(&format!("crowd-{n}")).await;
    }
    let claims = (0..10u64).map(|n| {
        let (store, lock) = (Arc::clone(&bench.store), bench.lock);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(n)).await;
            contended(&*store, lock).await
        })
    });
    let turns: Vec<Turn> = join_all(claims)
        .await
        .into_iter()
        .filter_map(|answer| answer.expect("a claimer does not panic"))
        .collect();
    assert_eq!(turns.len(), 10, "every claimer is served");
    assert_eq!(distinct(&turns), 10, "with an instance of its own");
}

/// Ten claimers of one instance have one winner.
pub async fn test_multi_threaded_lock_contention<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("wanted").await;
    let turns = claim_together(&bench, 10).await;
    assert_eq!(turns.len(), 1);
    bench.idle("the winner holds it").await;
}

/// Forty claimers on twenty instances never get one twice.
pub async fn test_multi_threaded_no_duplicate_processing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..20 {
        bench.start(&format!("shared-{n}")).await;
    }
    let mut turns = claim_together(&bench, 40).await;
    // A claimer that lost a race may have gone home empty; what is left is served now.
    while let Some(turn) = bench.claim().await {
        turns.push(turn);
        assert!(turns.len() <= 20, "an instance was claimed twice");
    }
    assert_eq!(turns.len(), 20, "every instance is claimed once");
    assert_eq!(distinct(&turns), 20);
}

/// A holder that never commits blocks the others until its lease is over, then one of them gets the instance.
pub async fn test_multi_threaded_lock_expiration_recovery<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("left").await;
    let lost = bench.turn_of("left").await;
    assert!(
        claim_together(&bench, 5).await.is_empty(),
        "the lease still holds"
    );

    bench.outlive(bench.lock).await;
    let turns = claim_together(&bench, 5).await;
    assert_eq!(turns.len(), 1);
    assert_ne!(turns[0].token, lost.token);
}

/// Again and again: five claimers who meet at one instance have one winner.
pub async fn no_meeting_of_claimers_has_two_winners<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for round in 0..30 {
        let instance = format!("met-{round}");
        bench.start(&instance).await;
        let turns = claim_together(&bench, 5).await;
        assert_eq!(turns.len(), 1, "round {round}");
        bench.commit(&turns[0], Commit::first()).await;
    }
}
