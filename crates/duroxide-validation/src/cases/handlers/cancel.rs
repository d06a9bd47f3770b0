//! A request to cancel ends an instance though no node has its code.

use duroxide_core::provider::TurnClaim;

use super::{node, passed_over};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

const OTHER: &[(&str, &str)] = &[("OtherOrch", "1.0.0")];

/// A request to cancel that is old enough opens the instance to any node, with all its messages.
pub async fn an_old_cancel_request_needs_no_handler<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("stuck").await;
    bench.send(items::signal("stuck", "go")).await;
    bench.send(items::cancel("stuck")).await;
    let claim = TurnClaim {
        handlers: node(OTHER),
        cancel_without_code_after: bench.lock,
        ..bench.ask()
    };
    let early = bench.claim_turns(claim.clone()).await;
    assert!(early.is_empty(), "a node with the code may still come");
    bench.outlive(bench.lock).await;
    passed_over(&bench, OTHER).await;
    let claimed = bench.claim_turns(claim.clone()).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].attempt_count, 1);
    let expected = [items::signal("stuck", "go"), items::cancel("stuck")];
    assert_eq!(claimed[0].item.messages, expected);
    let again = bench.claim_turns(claim).await;
    assert!(again.is_empty(), "it is leased");
}

/// A start that no node has code for can be cancelled too.
pub async fn a_start_without_code_can_be_cancelled<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("unborn").await;
    bench.send(items::cancel("unborn")).await;
    bench.outlive(bench.brief()).await;
    let claim = TurnClaim {
        handlers: node(OTHER),
        cancel_without_code_after: bench.brief(),
        ..bench.ask()
    };
    let claimed = bench.claim_turns(claim).await;
    assert_eq!(claimed.len(), 1);
    let expected = [items::start("unborn"), items::cancel("unborn")];
    assert_eq!(claimed[0].item.messages, expected);
}

/// A request that was dealt with opens nothing any more.
pub async fn a_cancel_request_that_was_taken_opens_nothing<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("stuck").await;
    bench.send(items::cancel("stuck")).await;
    bench.advance("stuck", Commit::to(1)).await;
    bench.outlive(bench.brief()).await;
    bench.send(items::signal("stuck", "go")).await;
    let claim = TurnClaim {
        handlers: node(OTHER),
        cancel_without_code_after: bench.brief(),
        ..bench.ask()
    };
    let claimed = bench.claim_turns(claim).await;
    assert!(claimed.is_empty(), "{claimed:?}");
}

/// A request to terminate needs no code, so the store does not wait for a node that has the code. An older request to
/// cancel does not change that.
pub async fn a_request_to_terminate_needs_no_handler_and_no_wait<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("stuck").await;
    bench.send(items::cancel("stuck")).await;
    let claim = TurnClaim {
        handlers: node(OTHER),
        cancel_without_code_after: bench.lock * 100,
        max: 9,
        ..bench.ask()
    };
    let early = bench.claim_turns(claim.clone()).await;
    assert!(early.is_empty(), "a node with the code may still come");
    bench.send(items::terminate("stuck")).await;
    bench.start("unborn").await;
    bench.send(items::terminate("unborn")).await;
    let mut claimed = bench.claim_turns(claim.clone()).await;
    claimed.sort_by(|one, other| one.item.instance.cmp(&other.item.instance));
    let messages: Vec<_> = claimed.iter().map(|turn| &turn.item.messages[..]).collect();
    let stuck = [items::cancel("stuck"), items::terminate("stuck")];
    let unborn = [items::start("unborn"), items::terminate("unborn")];
    assert_eq!(messages, [&stuck[..], &unborn[..]]);
    let again = bench.claim_turns(claim).await;
    assert!(again.is_empty(), "they are leased");
}

/// A request to terminate comes with a claim that older messages fill, an older request to cancel among them.
pub async fn a_request_to_terminate_comes_with_a_full_claim<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("busy").await;
    for name in ["1", "2", "3"] {
        bench.send(items::signal("busy", name)).await;
    }
    bench.send(items::cancel("busy")).await;
    bench.send(items::terminate("busy")).await;
    let claim = TurnClaim {
        messages_max: 2,
        handlers: node(OTHER),
        cancel_without_code_after: bench.lock * 100,
        max: 9,
        ..bench.ask()
    };
    let claimed = bench.claim_turns(claim).await;
    let [turn] = &claimed[..] else {
        panic!("one turn: {claimed:?}");
    };
    assert!(turn.item.messages.contains(&items::terminate("busy")));
}
