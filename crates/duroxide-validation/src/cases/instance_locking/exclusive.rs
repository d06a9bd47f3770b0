//! A lease excludes others from its instance, and from nothing else.

use std::collections::HashSet;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

/// A second fetch finds nothing until the lease is over, and then gets another token.
pub async fn test_exclusive_instance_lock<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("one").await;
    let first = bench.turn_of("one").await;
    bench.idle("the instance is leased").await;

    bench.outlive(bench.lock).await;
    let second = bench.turn_of("one").await;
    assert_ne!(first.token, second.token, "every claim has its own token");
}

/// Five claims have five tokens.
pub async fn test_lock_token_uniqueness<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..5 {
        bench.start(&format!("unique-{n}")).await;
    }
    let mut tokens = HashSet::new();
    for _ in 0..5 {
        let turn = bench.turn().await;
        assert!(!turn.token.is_empty());
        tokens.insert(turn.token);
    }
    assert_eq!(tokens.len(), 5);
}

/// An unknown token can neither commit nor abandon, and does not disturb the real holder.
pub async fn test_invalid_lock_token_rejection<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("real").await;
    let turn = bench.turn_of("real").await;
    let mut forged = turn.clone();
    forged.token = "forged".into();

    assert!(bench.try_commit(&forged, Commit::first()).await.is_err());
    assert!(bench.try_abandon(&forged, None, false).await.is_err());
    bench.idle("the real lease still holds").await;
    bench.commit(&turn, Commit::first()).await;
}

/// Instance B is claimed, committed and claimed again while A stays leased.
pub async fn test_cross_instance_lock_isolation<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("a").await;
    let a = bench.turn_of("a").await;

    bench.start("b").await;
    bench.advance("b", Commit::first()).await;
    bench.send(items::signal("b", "go")).await;
    bench.send(items::signal("a", "go")).await;
    let b = bench.turn_of("b").await;
    bench.commit(&b, Commit::to(1)).await;
    bench.idle("a is leased and b has nothing left").await;

    bench.commit(&a, Commit::first()).await;
    bench.turn_of("a").await;
}
