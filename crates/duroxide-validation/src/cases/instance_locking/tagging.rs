//! A commit consumes exactly the messages its claim was given.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

/// Completions that arrive during a lease wait for its end, then come together with the start, in order.
pub async fn test_completions_arriving_during_lock_blocked<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("busy").await;
    bench.turn_of("busy").await;
    for id in 1..=3 {
        bench.send(items::activity_done("busy", id)).await;
        bench.idle("a leased instance hands out nothing").await;
    }

    bench.outlive(bench.lock).await;
    let turn = bench.turn_of("busy").await;
    assert_eq!(turn.item.messages.len(), 4);
    assert!(turn.item.messages[0].is_start());
    let ids: Vec<u64> = turn.item.messages[1..].iter().map(items::id_of).collect();
    assert_eq!(ids, [1, 2, 3]);
}

/// A commit removes the two messages it was given; the third, which came later, is next.
pub async fn test_message_tagging_during_lock<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("tagged").await;
    bench.send(items::activity_done("tagged", 1)).await;
    let turn = bench.turn_of("tagged").await;
    assert_eq!(turn.item.messages.len(), 2);
    bench.send(items::activity_done("tagged", 2)).await;
    bench.commit(&turn, Commit::first()).await;

    let next = bench.turn_of("tagged").await;
    assert_eq!(next.item.messages, [items::activity_done("tagged", 2)]);
}

/// Messages that arrive during a lease survive its commit and come in order.
pub async fn test_ack_only_affects_locked_messages<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("fair").await;
    let turn = bench.turn_of("fair").await;
    bench.send(items::activity_done("fair", 2)).await;
    bench.send(items::activity_done("fair", 3)).await;
    bench.commit(&turn, Commit::first()).await;

    let next = bench.turn_of("fair").await;
    let ids: Vec<u64> = next.item.messages.iter().map(items::id_of).collect();
    assert_eq!(ids, [2, 3]);
    bench.commit(&next, Commit::to(1)).await;
    bench.idle("everything was consumed once").await;
}
