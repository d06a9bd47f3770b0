//! Acknowledged means kept: the store is closed and opened again, as by the next process, and everything is still
//! there.

use std::time::Duration;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Messages that were acknowledged are there after the store was opened again, in their order, each due when it was.
pub async fn messages_outlive_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("kept").await;
    for name in ["first", "second"] {
        bench.send(items::signal("kept", name)).await;
    }
    let hour = Duration::from_secs(3_600);
    bench.send_after(items::start("later"), Some(hour)).await;
    let bench = bench.reopen().await;
    let turn = bench.turn_of("kept").await;
    assert_eq!(
        turn.item.messages,
        [
            items::start("kept"),
            items::signal("kept", "first"),
            items::signal("kept", "second"),
        ]
    );
    assert_eq!(turn.attempt, 1, "opening a store is no attempt");
    bench.idle("the other message is due in an hour").await;
}

/// A committed turn is there after the store was opened again: events, key-values, status, activities, messages.
pub async fn a_committed_turn_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("kept").await;
    let turn = bench.turn_of("kept").await;
    let commit = Commit::first()
        .event(2, kinds::kv_set("color", "green"))
        .event(3, kinds::custom_status(Some("busy")))
        .event(4, kinds::activity_scheduled("A"))
        .work(items::activity("kept", 4))
        .message(items::start("other"));
    bench.commit(&turn, commit).await;
    let before = bench.read("kept").await;
    assert_eq!(before.len(), 4);

    let bench = bench.reopen().await;
    assert_eq!(bench.read("kept").await, before);
    let color = bench.store.get_kv_value("kept", "color").await;
    assert_eq!(color.expect("readable").as_deref(), Some("green"));
    let outcome = bench.store.read_outcome("kept").await.expect("readable");
    let status = outcome.expect("it exists").custom_status;
    assert_eq!(status.as_deref(), Some("busy"));
    assert_eq!(bench.work().await.id(), 4);
    bench.turn_of("other").await;
    bench.idle("the messages of the turn are consumed").await;
}

/// An activity that was acknowledged is not handed out again, and its completion is there.
pub async fn a_completed_activity_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("kept").await;
    bench.schedule(items::activity("kept", 2)).await;
    let work = bench.work().await;
    bench.finish(&work).await;
    let bench = bench.reopen().await;
    bench.no_work("it was acknowledged").await;
    let turn = bench.turn_of("kept").await;
    assert_eq!(items::kinds_of(&turn.item.messages), ["ActivityCompleted"]);
}

/// A lease holds beyond the process that opened the store, and what was tried counts.
pub async fn leases_and_attempts_outlive_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("kept").await;
    bench.schedule(items::activity("kept", 1)).await;
    let turn = bench.turn_of("kept").await;
    let work = bench.work().await;
    let bench = bench.reopen().await;
    bench.idle("the lease of the turn holds").await;
    bench.no_work("the lease of the activity holds").await;
    bench.outlive(bench.lock).await;
    let again = bench.turn_of("kept").await;
    assert_eq!((turn.attempt, again.attempt), (1, 2));
    let again = bench.work().await;
    assert_eq!((work.attempt, again.attempt), (1, 2));
}

/// The holder of a lease commits with it after the store was opened again; the lease is the store's, not the process's.
pub async fn a_token_is_good_after_reopening<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("kept").await;
    let turn = bench.turn_of("kept").await;
    let bench = bench.reopen().await;
    bench.commit(&turn, Commit::first()).await;
    assert_eq!(bench.read("kept").await.len(), 1);
    assert!(
        bench.try_commit(&turn, Commit::first()).await.is_err(),
        "one token commits once"
    );
}

/// What was deleted stays away.
pub async fn a_deletion_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["gone", "kept"] {
        bench
            .create_with(instance, Commit::first().completed("done"))
            .await;
    }
    let deleted = bench.admin().delete_instance("gone", false).await;
    assert_eq!(deleted.expect("it has ended").instances_deleted, 1);
    let bench = bench.reopen().await;
    let listed = bench.admin().list_instances().await.expect("a listing");
    assert_eq!(listed, ["kept"]);
    assert!(bench.read("gone").await.is_empty());
}

/// A dead letter is there until somebody forgets it.
pub async fn a_dead_letter_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("kept").await;
    bench.send(items::signal("kept", "poison")).await;
    let turn = bench.turn_of("kept").await;
    let answer = bench.store.dead_letter_messages(&turn.token, &[0], "bad");
    assert_eq!(answer.await, Ok(true));
    let bench = bench.reopen().await;
    let letters = bench.admin().list_dead_letters(10).await;
    assert_eq!(letters.expect("a listing").len(), 1);
}
