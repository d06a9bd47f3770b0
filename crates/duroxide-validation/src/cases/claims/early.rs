//! The rules of [`HandOut::BeforeCommit`]. A store may hand a turn out early or wait for the commit; either way the
//! turn is leased from the hand-out on, and what it asks is answered as of its claim.

use std::time::Duration;

use duroxide_core::provider::{HandOut, Provider, TurnClaim};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, items, kinds};

/// How often a step is repeated whose failure depends on the order of two threads.
const ROUNDS: usize = 25;
/// How often a store that does not wait for work is asked for it.
const TRIES: usize = 5_000;

async fn take(store: &dyn Provider, lease: Duration, wait: Duration) -> Option<Turn> {
    let claim = TurnClaim {
        hand_out: HandOut::BeforeCommit,
        ..TurnClaim::new(1, lease, wait)
    };
    let claimed = store.claim_turns(claim).await;
    let turn = claimed.expect("a claim does not fail").pop()?;
    Some(Turn {
        item: turn.item,
        token: turn.lock_token,
        attempt: turn.attempt_count,
    })
}

/// The turn that another request makes meanwhile. A store need not wait as long as it may.
async fn take_when_made(store: &dyn Provider, lease: Duration) -> Turn {
    for _ in 0..TRIES {
        match take(store, lease, lease).await {
            Some(turn) => return turn,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    panic!("the turn was made, and no claim gets it");
}

/// A turn is taken while the request that makes it is still on its way, committed, and read back.
pub async fn a_turn_handed_out_early_is_committed_like_any_other<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for round in 0..ROUNDS {
        let instance = format!("early-{round}");
        let steps = async {
            let turn = take_when_made(&*bench.store, bench.lock).await;
            assert_eq!(turn.item.instance, instance);
            bench.commit(&turn, Commit::first().completed("done")).await;
        };
        let ((), ()) = futures::join!(steps, bench.start(&instance));
        assert_eq!(bench.read(&instance).await.len(), 2);
        bench.idle("the turn consumed its message").await;
    }
}

/// No other claim gets a turn that was handed out early, and its lease runs out like any other.
pub async fn a_turn_handed_out_early_is_leased<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("leased").await;
    let lease = bench.brief();
    let turn = take(&*bench.store, lease, Duration::ZERO).await;
    let turn = turn.expect("it was started");
    bench.idle("it is taken").await;
    bench.outlive(lease).await;
    let again = bench.turn_of("leased").await;
    assert_eq!(again.attempt, 2, "both claims count");
    let late = bench.try_commit(&turn, Commit::first()).await;
    let late = late.expect_err("the lease has gone to another");
    assert!(late.is_lease_lost(), "{late}");
    bench.commit(&again, Commit::first()).await;
}

/// A turn that was handed out early and abandoned can be claimed again, with its attempt counted.
pub async fn a_turn_handed_out_early_can_be_abandoned<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for round in 0..ROUNDS {
        let instance = format!("back-{round}");
        let steps = async {
            let turn = take_when_made(&*bench.store, bench.lock).await;
            bench.abandon(&turn, None).await;
            bench.turn_of(&instance).await
        };
        let (again, ()) = futures::join!(steps, bench.start(&instance));
        assert_eq!(again.attempt, 2);
        bench
            .commit(&again, Commit::first().completed("done"))
            .await;
    }
}

/// Once the store says that the lease of an early turn is stored, its attempt is on record, no other claim gets it, and
/// it is committed like any other.
pub async fn a_turn_that_does_more_than_decide_has_its_claim_stored<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for round in 0..ROUNDS {
        let instance = format!("acts-{round}");
        let steps = async {
            let turn = take_when_made(&*bench.store, bench.lock).await;
            let stored = bench.store.store_lease(&turn.token).await;
            stored.expect("nothing came in between");
            // Before it acts: what ends the process now is counted.
            assert_eq!(factory.get_max_attempt_count(&instance).await, 1);
            bench.idle("its lease is stored").await;
            bench.commit(&turn, Commit::first().completed("done")).await;
        };
        let ((), ()) = futures::join!(steps, bench.start(&instance));
        assert_eq!(bench.read(&instance).await.len(), 2);
    }
}

/// A parent sets a key and starts a child in one turn; the child, handed out early, reads the key of its parent.
pub async fn what_a_turn_handed_out_early_asks_is_answered_as_of_its_claim<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for round in 0..ROUNDS {
        let (parent, child) = (format!("parent-{round}"), format!("child-{round}"));
        bench.start(&parent).await;
        let turn = bench.turn_of(&parent).await;
        let decides = Commit::first()
            .and(kinds::kv_set("k", "v"))
            .message(items::start(&child));
        let asks = async {
            let turn = take_when_made(&*bench.store, bench.lock).await;
            let value = bench.store.get_kv_value(&parent, "k").await;
            assert_eq!(
                value.expect("a read does not fail").as_deref(),
                Some("v"),
                "the turn that set it came before the turn that asks"
            );
            bench.commit(&turn, Commit::first().completed("done")).await;
        };
        futures::join!(asks, bench.commit(&turn, decides));
    }
}
