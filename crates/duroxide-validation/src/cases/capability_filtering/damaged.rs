//! Histories that do not decode.

use super::{ready, versions};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, kinds};

/// An instance pinned to 1.0.0 with a message waiting and a damaged history.
async fn damaged<F: ProviderFactory + ?Sized>(factory: &F) -> Bench<'_, F> {
    let bench = Bench::open(factory).await;
    ready(&bench, "damaged", "1.0.0").await;
    factory.corrupt_instance_history("damaged").await;
    bench
}

fn tells_of_damage(turn: &Turn) {
    assert!(turn.item.history_error.is_some(), "the damage is reported");
    assert!(
        turn.item.history.is_empty(),
        "and no part of the history is shown"
    );
    assert_eq!(turn.item.messages.len(), 1, "the messages are there");
}

/// A filtered-out instance stays filtered out; otherwise it is claimed and the damage reported.
pub async fn test_fetch_corrupted_history_filtered_vs_unfiltered<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = damaged(factory).await;
    assert!(
        bench
            .claim_matching(&versions("2.0.0", "2.9.9"))
            .await
            .is_none()
    );
    let turn = bench.turn_of("damaged").await;
    tells_of_damage(&turn);
    bench
        .idle("the damaged instance is leased like any other")
        .await;
}

/// A fetch that finds damage counts as an attempt.
pub async fn test_fetch_deserialization_error_increments_attempt_count<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    let bench = damaged(factory).await;
    for _ in 0..2 {
        let turn = bench.turn_of("damaged").await;
        tells_of_damage(&turn);
        bench.abandon(&turn, None).await;
    }
    assert!(factory.get_max_attempt_count("damaged").await >= 2);
}

/// Attempts on a damaged history go on counting, so that the poison limit is reached.
pub async fn test_fetch_deserialization_error_eventually_reaches_poison<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    let bench = damaged(factory).await;
    for attempt in 1..=5 {
        let turn = bench.turn_of("damaged").await;
        tells_of_damage(&turn);
        assert_eq!(turn.attempt, attempt);
        bench.abandon(&turn, None).await;
    }
    assert!(factory.get_max_attempt_count("damaged").await >= 5);
}

/// The filter is applied before the history is looked at.
pub async fn test_fetch_filter_applied_before_history_deserialization<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    ready(&bench, "future", "99.0.0").await;
    factory.corrupt_instance_history("future").await;
    assert!(
        bench
            .claim_matching(&versions("0.0.0", "1.9.9"))
            .await
            .is_none()
    );
    assert_eq!(
        bench.turn_of("future").await.attempt,
        1,
        "it was not claimed before"
    );
}

/// A failure can be committed on top of a damaged history.
pub async fn test_ack_appends_event_to_corrupted_history<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = damaged(factory).await;
    let turn = bench.turn_of("damaged").await;
    let text = "history deserialization failed";
    let end = Commit::to(1)
        .event(99_999, kinds::failed(text))
        .status("Failed", Some(text));
    bench.commit(&turn, end).await;

    bench.idle("its message was consumed").await;
    let info = bench
        .admin()
        .get_instance_info("damaged")
        .await
        .expect("details");
    assert_eq!(info.status, "Failed");
    let output = info.output.expect("the reason");
    assert!(output.contains("deserialization failed"), "{output}");
}
