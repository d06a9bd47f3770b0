//! Messages that their claimer dead-lettered.

use duroxide_core::provider::{DeadLetter, ProviderError, Requeue};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, items};

async fn letters<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, limit: u32) -> Vec<DeadLetter> {
    let listed = bench.admin().list_dead_letters(limit).await;
    listed.expect("a listing")
}

/// `poisoned` with these signals claimed.
async fn claimed<'a, F: ProviderFactory + ?Sized>(
    factory: &'a F,
    signals: &[&str],
) -> (Bench<'a, F>, Turn) {
    let bench = Bench::open(factory).await;
    bench.create("poisoned").await;
    for name in signals {
        bench.send(items::signal("poisoned", name)).await;
    }
    let turn = bench.turn_of("poisoned").await;
    (bench, turn)
}

async fn dead_letter<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, turn: &Turn, at: &[usize]) {
    let answer = bench
        .store
        .dead_letter_messages(&turn.token, at, "tried too often")
        .await;
    assert_eq!(answer, Ok(true));
}

/// The message is listed with queue, instance, text, reason and time.
pub async fn a_dead_lettered_message_is_listed<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["fine", "poison"]).await;
    let before = bench.now_ms();
    dead_letter(&bench, &turn, &[1]).await;
    let listed = letters(&bench, 10).await;
    assert_eq!(listed.len(), 1);
    let letter = &listed[0];
    assert_eq!(letter.queue, "orchestrator");
    assert_eq!(letter.instance_id.as_deref(), Some("poisoned"));
    assert!(letter.payload.contains("poison"), "{}", letter.payload);
    assert!(
        letter.reason.contains("tried too often"),
        "{}",
        letter.reason
    );
    assert!((before..=bench.now_ms()).contains(&letter.dead_lettered_at_ms));
}

/// The rest of the batch stays claimed, is committed, and the message does not come back.
pub async fn the_rest_of_the_batch_stays_claimed<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["a", "poison", "b"]).await;
    dead_letter(&bench, &turn, &[1]).await;
    bench.idle("the instance is still leased").await;
    bench.abandon(&turn, None).await;
    let again = bench.turn_of("poisoned").await;
    let expected = [
        items::signal("poisoned", "a"),
        items::signal("poisoned", "b"),
    ];
    assert_eq!(again.item.messages, expected);
    bench.commit(&again, Commit::to(1)).await;
    bench.idle("nothing is left").await;
    assert_eq!(letters(&bench, 10).await.len(), 1);
}

/// Positions are those of the claimed batch, also after some were dead-lettered.
pub async fn positions_are_those_of_the_claimed_batch<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["a", "b", "c"]).await;
    dead_letter(&bench, &turn, &[0, 2]).await;
    bench.abandon(&turn, None).await;
    let again = bench.turn_of("poisoned").await;
    assert_eq!(again.item.messages, [items::signal("poisoned", "b")]);
}

/// A position that no message has, or that is named twice, dead-letters nothing else.
pub async fn wrong_positions_touch_nothing_else<F: ProviderFactory + ?Sized>(factory: &F) {
    for positions in [&[7][..], &[0, 0]] {
        let (bench, turn) = claimed(factory, &["a", "b"]).await;
        let answer = bench
            .store
            .dead_letter_messages(&turn.token, positions, "wrong")
            .await;
        if let Err(error) = answer {
            assert!(!error.is_retryable(), "it will never be right: {error}");
        }
        let listed = letters(&bench, 10).await;
        assert!(
            listed
                .iter()
                .all(|letter| positions[0] == 0 && letter.payload.contains("\"a\"")),
            "{positions:?} dead-lettered {listed:?}"
        );
        assert!(listed.len() <= 1, "{positions:?}: once");
        bench.abandon(&turn, None).await;
        let rest = bench.turn_of("poisoned").await.item.messages;
        assert_eq!(rest.len() + listed.len(), 2, "nothing vanishes");
        assert!(rest.contains(&items::signal("poisoned", "b")));
    }
}

/// Who lost the lease dead-letters nothing.
pub async fn a_lost_lease_dead_letters_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["a"]).await;
    bench.outlive(bench.lock).await;
    let late = bench
        .store
        .dead_letter_messages(&turn.token, &[0], "late")
        .await;
    let late = late.expect_err("the lease is over");
    assert!(late.is_lease_lost(), "{late}");
    let forged = bench
        .store
        .dead_letter_messages("made-up", &[0], "forged")
        .await;
    let forged = forged.expect_err("the token is unknown");
    assert!(forged.is_lease_lost(), "{forged}");
    assert!(letters(&bench, 10).await.is_empty());
    assert_eq!(bench.turn_of("poisoned").await.item.messages.len(), 1);
}

/// A dead letter is forgotten once.
pub async fn a_dead_letter_is_forgotten_once<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["a"]).await;
    dead_letter(&bench, &turn, &[0]).await;
    let id = letters(&bench, 1).await[0].id;
    assert_eq!(bench.admin().delete_dead_letter(id).await, Ok(true));
    assert_eq!(bench.admin().delete_dead_letter(id).await, Ok(false));
    assert!(letters(&bench, 10).await.is_empty());
}

/// Dead letters are listed oldest first, up to the limit.
pub async fn dead_letters_are_listed_oldest_first<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["first", "second", "third"]).await;
    for position in [0, 1, 2] {
        dead_letter(&bench, &turn, &[position]).await;
    }
    let two = letters(&bench, 2).await;
    assert_eq!(two.len(), 2);
    assert!(two[0].payload.contains("first"), "{}", two[0].payload);
    assert!(two[1].payload.contains("second"), "{}", two[1].payload);
    assert_eq!(letters(&bench, 10).await.len(), 3);
}

/// An activity is dead-lettered under its lease, listed, and does not come back.
pub async fn a_dead_lettered_activity_is_listed<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("poisoned").await;
    for id in [2, 3] {
        bench.schedule(items::activity("poisoned", id)).await;
    }
    let work = bench.work().await;
    let moved = bench
        .store
        .dead_letter_work_item(&work.token, "no use")
        .await;
    assert_eq!(moved, Ok(true));
    assert!(bench.try_finish(&work, None).await.is_err(), "it is gone");
    assert_eq!(bench.work().await.id(), 3, "the next one is not touched");
    bench.outlive(bench.lock).await;
    assert_eq!(bench.work().await.id(), 3, "only the other one comes back");
    let listed = letters(&bench, 10).await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].queue, "worker");
    assert_eq!(listed[0].instance_id.as_deref(), Some("poisoned"));
    assert!(listed[0].reason.contains("no use"), "{}", listed[0].reason);
    assert!(!listed[0].payload.is_empty());
}

/// Who lost the lease of an activity does not dead-letter it.
pub async fn a_lost_activity_is_not_dead_lettered<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("poisoned").await;
    bench.schedule(items::activity("poisoned", 2)).await;
    let old = bench.work().await;
    bench.outlive(bench.lock).await;
    for token in [old.token.as_str(), "made-up"] {
        let late = bench.store.dead_letter_work_item(token, "late").await;
        assert!(late.expect_err("the lease is over").is_lease_lost());
    }
    assert_eq!(letters(&bench, 10).await, []);
    assert_eq!(bench.work().await.id(), 2, "it is still there");
}

/// A dead letter is found by its number, those of an instance newest first, and all are counted.
pub async fn dead_letters_are_found_by_number_and_by_instance<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let (bench, turn) = claimed(factory, &["first", "second", "third"]).await;
    for position in [0, 1, 2] {
        dead_letter(&bench, &turn, &[position]).await;
    }
    let admin = bench.admin();
    let listed = letters(&bench, 10).await;
    for letter in &listed {
        assert_eq!(
            admin.get_dead_letter(letter.id).await,
            Ok(Some(letter.clone()))
        );
    }
    assert_eq!(admin.get_dead_letter(u64::MAX).await, Ok(None));
    assert_eq!(admin.count_dead_letters().await, Ok(3));
    let newest = admin.list_dead_letters_of("poisoned", 2).await;
    let expected = vec![listed[2].clone(), listed[1].clone()];
    assert_eq!(newest, Ok(expected));
    assert_eq!(admin.list_dead_letters_of("poison", 2).await, Ok(vec![]));
}

/// A dead letter goes back into its queue once, as a message that can be claimed, and is forgotten.
pub async fn a_requeued_dead_letter_is_delivered_once<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, turn) = claimed(factory, &["a"]).await;
    dead_letter(&bench, &turn, &[0]).await;
    bench.abandon(&turn, None).await;
    bench.idle("the message is a letter").await;
    let id = letters(&bench, 1).await[0].id;
    let admin = bench.admin();
    assert_eq!(admin.requeue_dead_letter(id).await, Ok(Some(Requeue::Done)));
    let again = admin.requeue_dead_letter(id).await;
    assert_eq!(again, Ok(Some(Requeue::NoSuchDeadLetter)));
    assert_eq!(letters(&bench, 10).await, []);
    let turn = bench.turn_of("poisoned").await;
    assert_eq!(turn.item.messages, [items::signal("poisoned", "a")]);
}

fn is_refused(answer: &Result<Option<Requeue>, ProviderError>) -> bool {
    matches!(answer, Ok(Some(Requeue::Refused { .. })))
}

async fn born_again<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str) {
    let deleted = bench.admin().delete_instance(instance, true).await;
    deleted.expect("an instance can be deleted by force");
    bench.create(instance).await;
}

/// A dead letter for an instance that was deleted does not reach another one that has its id; it stays.
pub async fn a_dead_letter_for_an_earlier_life_stays_one<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("poisoned").await;
    bench.send(items::signal("poisoned", "a")).await;
    bench.send(items::activity_done("poisoned", 2)).await;
    let turn = bench.turn_of("poisoned").await;
    dead_letter(&bench, &turn, &[0, 1]).await;
    bench.abandon(&turn, None).await;
    born_again(&bench, "poisoned").await;
    let listed = letters(&bench, 10).await;
    assert_eq!(listed.len(), 2);
    for letter in &listed {
        let answer = bench.admin().requeue_dead_letter(letter.id).await;
        assert!(is_refused(&answer), "{answer:?}");
    }
    bench.idle("nothing was delivered").await;
    assert_eq!(letters(&bench, 10).await, listed);
}
