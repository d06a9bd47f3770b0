//! Claiming with a history at hand: the store confirms it or loads the real one.

use std::sync::Arc;

use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, Incarnation, TurnClaim, TurnHistory,
};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// A dispatcher that believes to hold this much of every history.
struct Held(Option<CachedHistory>);

impl CachedHistories for Held {
    fn cached(&self, _instance: &str) -> Option<CachedHistory> {
        self.0
    }
}

/// `known` in its second execution, with two events there and a key from the first.
async fn prepared<F: ProviderFactory + ?Sized>(factory: &F) -> Bench<'_, F> {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("k", "v"))
        .continued("next");
    bench.create_with("known", first).await;
    let second = Commit::first_of(2).and(kinds::activity_scheduled("A"));
    bench.next_execution("known", second).await;
    bench
}

async fn claim_holding<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    held: Option<(u64, u64)>,
) -> ClaimedTurn {
    // A store that draws no lives confirms nothing, whatever is held.
    let incarnation = bench.incarnation_of("known").await;
    let incarnation = incarnation.unwrap_or(Incarnation::from_random(u64::MAX));
    let held = held.map(|(execution_id, last_event_id)| CachedHistory {
        incarnation,
        execution_id,
        last_event_id,
    });
    let claim = TurnClaim {
        cached: Some(Arc::new(Held(held))),
        ..bench.ask()
    };
    let mut claimed = bench.claim_turns(claim).await;
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

fn is_loaded(turn: &ClaimedTurn) {
    assert_eq!(turn.history, TurnHistory::Loaded);
    assert_eq!(turn.item.execution_id, 2);
    assert_eq!(turn.item.history.len(), 2);
    assert!(turn.item.kv_snapshot.contains_key("k"));
}

/// A history that is current is confirmed, and then not sent; or it is sent in full.
pub async fn a_current_history_is_confirmed_or_loaded<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = prepared(factory).await;
    let turn = claim_holding(&bench, Some((2, 2))).await;
    let expected = [items::signal("known", "which life")];
    assert_eq!(turn.item.messages, expected);
    assert_eq!(turn.item.execution_id, 2);
    match turn.history {
        TurnHistory::Loaded => is_loaded(&turn),
        TurnHistory::Unchanged(held) => {
            assert_eq!(Some(held.incarnation), turn.incarnation);
            assert_eq!((held.execution_id, held.last_event_id), (2, 2));
            assert!(turn.item.history.is_empty());
            assert!(turn.item.kv_snapshot.is_empty());
        }
    }
}

/// Event ids may jump: a history is current by its last id, not by its length.
pub async fn a_history_with_a_gap_is_known_by_its_last_event<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("k", "v"))
        .continued("next");
    bench.create_with("known", first).await;
    let second = Commit::first_of(2).event(5, kinds::activity_scheduled("A"));
    bench.next_execution("known", second).await;
    let turn = claim_holding(&bench, Some((2, 2))).await;
    is_loaded(&turn);
    bench
        .abandon(&crate::fixture::Turn::from(&turn), None)
        .await;
    let turn = claim_holding(&bench, Some((2, 5))).await;
    match turn.history {
        TurnHistory::Loaded => is_loaded(&turn),
        TurnHistory::Unchanged(held) => assert_eq!(held.last_event_id, 5),
    }
}

/// A history that moved on is loaded.
pub async fn an_outdated_history_is_loaded<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = prepared(factory).await;
    is_loaded(&claim_holding(&bench, Some((2, 1))).await);
}

/// A history from the future (a commit whose outcome was unknown) is loaded.
pub async fn a_history_ahead_of_the_store_is_loaded<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = prepared(factory).await;
    is_loaded(&claim_holding(&bench, Some((2, 3))).await);
}

/// A history of another execution is loaded, whatever its last event is.
pub async fn a_history_of_another_execution_is_loaded<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = prepared(factory).await;
    is_loaded(&claim_holding(&bench, Some((1, 2))).await);
}

/// Who holds nothing is sent everything.
pub async fn an_unknown_history_is_loaded<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = prepared(factory).await;
    is_loaded(&claim_holding(&bench, None).await);
}

/// An id that was deleted and started again is not confirmed from an old cache.
pub async fn a_history_of_a_deleted_instance_is_not_confirmed<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = prepared(factory).await;
    bench
        .admin()
        .delete_instance("known", true)
        .await
        .expect("forced");
    bench.start("known").await;
    let turn = claim_holding(&bench, Some((2, 2))).await;
    assert_eq!(turn.history, TurnHistory::Loaded);
    assert!(turn.item.history.is_empty());
    assert_eq!(turn.item.execution_id, 1);
}
