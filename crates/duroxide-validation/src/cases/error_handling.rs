//! What goes wrong is said, and said in time.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// A commit with an unknown token names the lock token as the reason.
pub async fn test_invalid_lock_token_on_ack<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("known").await;
    let mut turn = bench.turn_of("known").await;
    turn.token = "made-up".into();

    let error = bench
        .try_commit(&turn, Commit::first())
        .await
        .expect_err("an unknown token cannot commit");
    assert!(
        error.message.contains("Invalid lock token") || error.message.contains("lock_token"),
        "the message names the token: {error}"
    );
    assert!(!error.is_retryable(), "trying again cannot help: {error}");
}

/// An event id that exists is rejected, and the event that was there stays.
pub async fn test_duplicate_event_id_rejection<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("twice").await;
    let before = bench.read("twice").await;

    bench.send(items::signal("twice", "go")).await;
    let turn = bench.turn_of("twice").await;
    let clash = Commit::to(1).event(1, kinds::completed("overwritten"));
    let error = bench
        .try_commit(&turn, clash)
        .await
        .expect_err("event 1 exists");
    assert!(
        !error.is_retryable(),
        "a duplicate stays a duplicate: {error}"
    );
    assert_eq!(bench.read("twice").await, before);
}

/// An unknown instance has no events, which is no error.
pub async fn test_missing_instance_metadata<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert_eq!(bench.read("nobody").await, Vec::new());
    assert_eq!(bench.read_execution("nobody", 1).await, Vec::new());
}

/// Text that looks like markup, quotes or broken JSON comes back as it went in, and an empty store fetches nothing.
pub async fn test_corrupted_serialization_data<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.idle("a fresh store is empty").await;

    let text = "{\"unterminated\": [1, 2, \\ \u{7} '; DROP TABLE history; --";
    let commit = Commit::first().and(kinds::activity_completed(text));
    bench.create_with("odd", commit).await;
    bench.send(items::queue_message("odd", text)).await;

    let turn = bench.turn_of("odd").await;
    assert_eq!(turn.item.history_error, None);
    assert_eq!(turn.item.history[1].kind, kinds::activity_completed(text));
    assert_eq!(turn.item.messages, [items::queue_message("odd", text)]);
}

/// A commit after its lease ran out fails, even if no other node took over.
pub async fn test_lock_expiration_during_ack<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("late").await;
    let turn = bench.turn_of("late").await;

    bench.outlive(bench.lock).await;
    assert!(bench.try_commit(&turn, Commit::first()).await.is_err());
    assert_eq!(bench.read("late").await, Vec::new(), "nothing of it stays");
}

/// Reading a damaged history is an error, never a shorter history.
pub async fn test_read_corrupted_history_returns_error<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("damaged").await;
    factory.corrupt_instance_history("damaged").await;

    let error = bench
        .store
        .read("damaged")
        .await
        .expect_err("it does not decode");
    assert!(!error.is_retryable(), "it will never decode: {error}");
}

/// Reading one damaged execution is an error, never a shorter history.
pub async fn test_read_with_execution_corrupted_history_returns_error<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("damaged").await;
    factory.corrupt_instance_history("damaged").await;

    let answer = bench.store.read_with_execution("damaged", 1).await;
    let error = answer.expect_err("it does not decode");
    assert!(!error.is_retryable(), "it will never decode: {error}");
}
