//! Claims that are given back for a while: nothing overtakes what was claimed.

use std::time::Duration;

use duroxide_core::provider::{CLAIM_MESSAGES_MAX, Pausing, ProviderError};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, items};

async fn try_rest<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    turn: &Turn,
    rest: Duration,
    uncounted: bool,
) -> Result<bool, ProviderError> {
    let rested = bench
        .store
        .rest_orchestration_item(&turn.token, rest, uncounted);
    rested.await
}

async fn rest<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, turn: &Turn, uncounted: bool) {
    let rested = try_rest(bench, turn, bench.lock, uncounted).await;
    assert!(rested.expect("a claimed turn can rest"), "the store can");
}

/// A running instance with these queue messages, claimed.
async fn claimed<'f, F: ProviderFactory + ?Sized>(
    factory: &'f F,
    messages: &[&str],
) -> (Bench<'f, F>, Turn) {
    let bench = Bench::open(factory).await;
    bench.create("actor").await;
    for data in messages {
        bench.send(items::queue_message("actor", data)).await;
    }
    let turn = bench.turn_of("actor").await;
    assert_eq!(turn.item.messages.len(), messages.len());
    (bench, turn)
}

/// Nothing of it is handed out meanwhile; others are. Then its messages come, and the wait was no attempt.
pub async fn an_instance_rests_for_as_long_as_asked<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["1", "2"]).await;
    rest(&bench, &turn, true).await;
    bench.idle("it rests").await;
    bench.create("other").await;
    bench.outlive(bench.lock).await;
    let again = bench.turn_of("actor").await;
    assert_eq!(again.item.messages, turn.item.messages);
    assert_eq!(again.attempt, 1, "it was given back uncounted");
    rest(&bench, &again, false).await;
    bench.outlive(bench.lock).await;
    assert_eq!(bench.turn_of("actor").await.attempt, 2, "counted");
}

/// A message that comes ends the rest, and stands behind what rested.
pub async fn nothing_overtakes_what_rests<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["1", "2"]).await;
    rest(&bench, &turn, true).await;
    bench.idle("it rests").await;
    bench.send(items::queue_message("actor", "3")).await;
    let again = bench.turn_of("actor").await;
    let expected = ["1", "2", "3"].map(|data| items::queue_message("actor", data));
    assert_eq!(again.item.messages, expected);
    bench.commit(&again, Commit::to(1)).await;
    bench.idle("everything was delivered").await;
}

/// A message that becomes due ends the rest too.
pub async fn a_due_message_ends_a_rest<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("actor").await;
    let later = items::signal("actor", "later");
    bench.send_after(later, Some(bench.brief())).await;
    bench.send(items::queue_message("actor", "1")).await;
    let turn = bench.turn_of("actor").await;
    assert_eq!(turn.item.messages.len(), 1);
    let rested = try_rest(&bench, &turn, Duration::MAX, true).await;
    assert!(rested.expect("a claimed turn can rest for ever"));
    bench.idle("it rests").await;
    bench.outlive(bench.brief()).await;
    assert_eq!(bench.turn_of("actor").await.item.messages.len(), 2);
}

/// What came during the claim comes at once, behind what was claimed.
pub async fn an_instance_does_not_rest_behind_an_arrival<F: ProviderFactory + ?Sized>(factory: &F) {
    for arrives in [
        items::queue_message("actor", "2"),
        items::activity_done("actor", 2),
        items::cancel("actor"),
    ] {
        let (bench, turn) = claimed(factory, &["1"]).await;
        bench.send(arrives.clone()).await;
        rest(&bench, &turn, true).await;
        let again = bench.turn_of("actor").await;
        let expected = [items::queue_message("actor", "1"), arrives];
        assert_eq!(again.item.messages, expected);
    }
}

/// What a full claim left was there before: the instance rests all the same. A request to cancel does not wait for
/// that.
pub async fn an_instance_rests_though_a_full_claim_left_some<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let mut first = Commit::first();
    for id in 1..=CLAIM_MESSAGES_MAX as u64 + 5 {
        first = first.message(items::activity_done("actor", id));
    }
    bench.create_with("actor", first).await;
    let turn = bench.turn_of("actor").await;
    assert!(turn.item.messages.len() < CLAIM_MESSAGES_MAX + 5, "full");
    rest(&bench, &turn, true).await;
    bench.idle("it rests").await;
    bench.outlive(bench.lock).await;
    let turn = bench.turn_of("actor").await;
    bench.send(items::cancel("actor")).await;
    rest(&bench, &turn, true).await;
    let again = bench.turn_of("actor").await;
    let kinds = items::kinds_of(&again.item.messages);
    assert!(kinds.contains(&"CancelInstance"), "it does not wait");
}

/// The old holder cannot put to rest what the new one holds.
pub async fn a_turn_that_was_taken_over_cannot_rest<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, old) = claimed(factory, &["1"]).await;
    bench.outlive(bench.lock).await;
    let new = bench.turn_of("actor").await;
    let refused = try_rest(&bench, &old, bench.lock * 4, true).await;
    assert!(refused.is_err(), "it was taken over");
    bench.commit(&new, Commit::to(1)).await;
    bench.idle("the message was consumed").await;
}

/// An instance that an operator resumes does not rest on: it is meant to run.
pub async fn resuming_ends_a_rest<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["1"]).await;
    let rested = try_rest(&bench, &turn, Duration::from_secs(3_600), true).await;
    assert!(rested.expect("a claimed turn can rest"), "the store can");
    let admin = bench.admin();
    let paused = admin.pause_instance("actor").await.expect("an answer");
    assert_eq!(paused, Some(Pausing::Done));
    let resumed = admin.resume_instance("actor").await.expect("an answer");
    assert_eq!(resumed, Some(Pausing::Done));
    let again = bench.turn_of("actor").await;
    assert_eq!(again.item.messages, turn.item.messages);
}
