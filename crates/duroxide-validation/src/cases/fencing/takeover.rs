//! A holder that slept through its lease meets the one that took over.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, Work, items, kinds};

/// The old and the new holder of `contested`, which exists and has one message.
async fn instance_taken_over<F: ProviderFactory + ?Sized>(
    factory: &F,
) -> (Bench<'_, F>, Turn, Turn) {
    let bench = Bench::open(factory).await;
    bench.create("contested").await;
    bench.send(items::signal("contested", "go")).await;
    let old = bench.turn_of("contested").await;
    bench.outlive(bench.lock).await;
    let new = bench.turn_of("contested").await;
    (bench, old, new)
}

async fn activity_taken_over<F: ProviderFactory + ?Sized>(
    factory: &F,
) -> (Bench<'_, F>, Work, Work) {
    let bench = Bench::open(factory).await;
    bench.create("contested").await;
    bench.schedule(items::activity("contested", 2)).await;
    let old = bench.work().await;
    bench.outlive(bench.lock).await;
    let new = bench.work().await;
    (bench, old, new)
}

/// The old holder cannot commit, the new one can, and there is one commit.
pub async fn a_taken_over_turn_cannot_commit<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, old, new) = instance_taken_over(factory).await;
    let commit = |result| {
        Commit::to(1)
            .event(2, kinds::activity_scheduled(result))
            .work(items::activity("contested", 2))
    };
    let error = bench.try_commit(&old, commit("old")).await;
    assert!(!error.expect_err("it was taken over").is_retryable());
    bench.commit(&new, commit("new")).await;

    let history = bench.read("contested").await;
    assert_eq!(history.len(), 2);
    assert_eq!(history[1].kind, kinds::activity_scheduled("new"));
    bench.work().await;
    bench.no_work("one commit schedules one activity").await;
    bench.idle("the message was consumed once").await;
}

/// The old holder cannot commit after the new one did either.
pub async fn a_taken_over_turn_cannot_commit_later<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, old, new) = instance_taken_over(factory).await;
    bench
        .commit(&new, Commit::to(1).event(2, kinds::completed("new")))
        .await;
    let late = Commit::to(1).event(3, kinds::completed("old"));
    assert!(bench.try_commit(&old, late).await.is_err());
    assert_eq!(bench.read("contested").await.len(), 2);
}

/// The old holder cannot renew; the new lease is not moved by the attempt.
pub async fn a_taken_over_turn_cannot_be_renewed<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, old, _new) = instance_taken_over(factory).await;
    let renewal = bench
        .store
        .renew_orchestration_item_lock(&old.token, bench.lock * 4);
    assert!(renewal.await.is_err());
    bench.outlive(bench.lock).await;
    bench.turn_of("contested").await;
}

/// The old holder cannot give away what the new one holds.
pub async fn a_taken_over_turn_cannot_be_abandoned<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, old, new) = instance_taken_over(factory).await;
    let answer = bench.try_abandon(&old, Some(bench.lock * 4), true).await;
    assert!(answer.is_err(), "it was taken over");
    bench.idle("the new lease holds").await;
    bench.outlive(bench.lock).await;
    let third = bench.turn_of("contested").await;
    assert_eq!((new.attempt, third.attempt), (2, 3), "none is forgiven");
    bench.commit(&third, Commit::to(1)).await;
    bench.idle("the message was consumed").await;
}

/// The old holder cannot ack; its result is dropped, the new holder's is delivered.
pub async fn a_taken_over_activity_cannot_be_acked<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, old, new) = activity_taken_over(factory).await;
    let done = items::activity_done("contested", 2);
    let error = bench.try_finish(&old, Some(done.clone())).await;
    assert!(!error.expect_err("it was taken over").is_retryable());
    bench.idle("no result was delivered").await;
    bench.finish(&new).await;
    let turn = bench.turn_of("contested").await;
    assert_eq!(turn.item.messages, [done], "one result");
}

/// The old holder can neither renew nor give back.
pub async fn a_taken_over_activity_cannot_be_renewed_or_given_back<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let (bench, old, new) = activity_taken_over(factory).await;
    assert!(bench.renew_work(&old, bench.lock).await.is_err());
    let back = bench.store.abandon_work_item(&old.token, None, true).await;
    assert!(back.is_err(), "it was taken over");
    bench.no_work("the new lease holds").await;
    bench.outlive(bench.lock).await;
    let third = bench.work().await;
    assert_eq!((new.attempt, third.attempt), (2, 3), "none is forgiven");
    bench.finish(&third).await;
}

/// A renewal keeps an instance leased when the first lease would be over, counted from the renewal.
pub async fn a_renewed_turn_stays_leased<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("renewed").await;
    let turn = bench.turn_of("renewed").await;
    for _ in 0..3 {
        bench.pass(bench.lock.mul_f64(0.6)).await;
        let renewal = bench
            .store
            .renew_orchestration_item_lock(&turn.token, bench.lock);
        renewal.await.expect("the lease holds");
    }
    bench.idle("the lease was renewed").await;
    bench.commit(&turn, Commit::first()).await;
}

/// A renewal lasts as long as it asks for, longer or shorter than the first lease.
pub async fn a_renewal_has_the_length_it_asks_for<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("renewed").await;
    bench.schedule(items::activity("renewed", 2)).await;
    let turn = bench.turn_of("renewed").await;
    let work = bench.work().await;
    let renew = async |length| {
        let renewal = bench
            .store
            .renew_orchestration_item_lock(&turn.token, length);
        renewal.await.expect("the lease holds");
        let renewal = bench.renew_work(&work, length).await;
        renewal.expect("the lease holds");
    };
    renew(bench.lock * 3).await;
    bench.pass(bench.lock * 2).await;
    bench.idle("the lease was made three times as long").await;
    bench
        .no_work("the lease was made three times as long")
        .await;
    renew(bench.brief()).await;
    bench.outlive(bench.brief()).await;
    bench.turn_of("renewed").await;
    bench.work().await;
}

/// A renewal extends from now, not from the end of the lease.
pub async fn a_renewal_counts_from_now<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("renewed").await;
    bench.schedule(items::activity("renewed", 2)).await;
    let turn = bench.turn_of("renewed").await;
    let work = bench.work().await;
    for _ in 0..4 {
        let renewal = bench
            .store
            .renew_orchestration_item_lock(&turn.token, bench.lock);
        renewal.await.expect("the lease holds");
        bench
            .renew_work(&work, bench.lock)
            .await
            .expect("the lease holds");
    }
    bench.outlive(bench.lock).await;
    bench.turn_of("renewed").await;
    assert_eq!(bench.work().await.attempt, 2);
}

/// A renewal by an unknown token is an error.
pub async fn an_unknown_turn_cannot_be_renewed<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let renewal = bench
        .store
        .renew_orchestration_item_lock("made-up", bench.lock);
    assert!(!renewal.await.expect_err("unknown token").is_retryable());
}

/// A turn's token means nothing to the worker queue, nor an activity's to the instance.
pub async fn tokens_are_good_for_their_own_queue_only<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("mixed").await;
    bench.schedule(items::activity("mixed", 2)).await;
    let turn = bench.turn_of("mixed").await;
    let work = bench.work().await;

    assert!(bench.store.ack_work_item(&turn.token, None).await.is_err());
    assert!(
        bench
            .store
            .renew_work_item_lock(&turn.token, bench.lock)
            .await
            .is_err()
    );
    let swapped = Turn {
        token: work.token.clone(),
        ..turn.clone()
    };
    assert!(bench.try_commit(&swapped, Commit::first()).await.is_err());
    bench.commit(&turn, Commit::first()).await;
    bench.finish(&work).await;
}

/// Every call under a lost lease says that the lease is lost, so that no caller takes it for a failure of the store.
pub async fn a_lost_lease_is_told_as_such<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, old, _new) = instance_taken_over(factory).await;
    let store = &bench.store;
    let turn = [
        bench.try_commit(&old, Commit::to(1)).await,
        store
            .renew_orchestration_item_lock(&old.token, bench.lock)
            .await,
        store
            .abandon_orchestration_item(&old.token, None, false)
            .await,
    ];
    let (bench, old, _new) = activity_taken_over(factory).await;
    let store = &bench.store;
    let work = [
        bench.try_finish(&old, None).await,
        store.renew_work_item_lock(&old.token, bench.lock).await,
        store.abandon_work_item(&old.token, None, false).await,
    ];
    for answer in turn.into_iter().chain(work) {
        let error = answer.expect_err("it was taken over");
        assert!(error.is_lease_lost(), "not told as a lost lease: {error}");
    }
}
