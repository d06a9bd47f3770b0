//! Rows that do not decode are dead-lettered; everything else goes on.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// The instance's other messages are delivered.
pub async fn an_undecodable_message_does_not_block_its_instance<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("hit").await;
    bench.send(items::signal("hit", "broken")).await;
    factory.corrupt_orchestrator_messages("hit").await;
    bench.send(items::signal("hit", "fine")).await;

    let turn = bench.turn_of("hit").await;
    assert_eq!(turn.item.messages, [items::signal("hit", "fine")]);
    bench.commit(&turn, Commit::to(1)).await;
    bench.idle("the broken one does not come back").await;
}

/// Other instances are claimed.
pub async fn an_undecodable_message_does_not_block_other_instances<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("hit").await;
    bench.send(items::signal("hit", "broken")).await;
    factory.corrupt_orchestrator_messages("hit").await;
    bench.start("fresh").await;
    let claims = [bench.claim().await, bench.claim().await];
    let fresh = claims
        .into_iter()
        .flatten()
        .any(|t| t.item.instance == "fresh");
    assert!(fresh, "the fresh instance is claimed");
}

/// A start that does not decode is dead-lettered too, and the id can be started again.
pub async fn an_undecodable_start_does_not_block_its_id<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("hit").await;
    factory.corrupt_orchestrator_messages("hit").await;
    bench.idle("it does not decode").await;
    bench.start("hit").await;
    let turn = bench.turn_of("hit").await;
    assert_eq!(turn.item.messages, [items::start("hit")]);
}

/// The message is kept as a dead letter with its text and the reason.
pub async fn an_undecodable_message_becomes_a_dead_letter<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("hit").await;
    bench.send(items::signal("hit", "broken")).await;
    factory.corrupt_orchestrator_messages("hit").await;
    bench.idle("it does not decode").await;

    let letters = bench
        .admin()
        .list_dead_letters(10)
        .await
        .expect("a listing");
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].queue, "orchestrator");
    assert_eq!(letters[0].instance_id.as_deref(), Some("hit"));
    assert!(!letters[0].payload.is_empty(), "the text is kept");
    assert!(!letters[0].reason.is_empty(), "the reason is told");
}

/// The activities behind it are handed out, and it is not tried again.
pub async fn an_undecodable_activity_does_not_block_the_queue<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("hit", 1)).await;
    factory.corrupt_worker_items("hit").await;
    bench.schedule(items::activity("fine", 2)).await;

    let work = bench.work().await;
    assert_eq!(work.item, items::activity("fine", 2));
    bench.finish_silently(&work).await;
    bench.outlive(bench.lock).await;
    bench.no_work("the broken one does not come back").await;
}

/// The activity is kept as a dead letter with its text and the reason.
pub async fn an_undecodable_activity_becomes_a_dead_letter<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("hit", 1)).await;
    factory.corrupt_worker_items("hit").await;
    bench.no_work("it does not decode").await;

    let letters = bench
        .admin()
        .list_dead_letters(10)
        .await
        .expect("a listing");
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].queue, "worker");
    assert!(!letters[0].payload.is_empty(), "the text is kept");
    assert!(!letters[0].reason.is_empty(), "the reason is told");
}

/// The result of an activity that does not decode fails the activity, so that its instance does not wait for ever.
pub async fn an_undecodable_result_fails_the_waiting_activity<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    for through_fetch in [true, false] {
        let bench = Bench::open(factory).await;
        let first = Commit::first()
            .and(kinds::activity_scheduled("A"))
            .work(items::activity("hit", 2));
        bench.create_with("hit", first).await;
        let work = bench.work().await;
        bench.finish(&work).await;
        factory.corrupt_orchestrator_messages("hit").await;
        is_told_of_failure(&bench, through_fetch, "ActivityFailed").await;
    }
}

/// The result of a child that does not decode fails the child, so that its parent does not wait for ever.
pub async fn an_undecodable_result_fails_the_waiting_child<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    for through_fetch in [true, false] {
        let bench = Bench::open(factory).await;
        let first = Commit::first().and(kinds::activity_scheduled("A"));
        let first = first.message(items::child_start("child", "ChildOrch", "hit"));
        bench.create_with("hit", first).await;
        let ended = Commit::first()
            .child_of("hit")
            .completed("ok")
            .message(items::child_done("hit", 2));
        bench.advance("child", ended).await;
        factory.corrupt_orchestrator_messages("hit").await;
        is_told_of_failure(&bench, through_fetch, "SubOrchFailed").await;
    }
}

/// The start of a child that does not decode fails the child, so that its parent does not wait for ever.
pub async fn an_undecodable_start_of_a_child_fails_the_waiting_parent<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    for through_fetch in [true, false] {
        let bench = Bench::open(factory).await;
        let first = Commit::first().and(kinds::activity_scheduled("A"));
        let first = first.message(items::child_start("child", "ChildOrch", "hit"));
        bench.create_with("hit", first).await;
        factory.corrupt_orchestrator_messages("child").await;
        is_told_of_failure(&bench, through_fetch, "SubOrchFailed").await;
    }
}

/// An activity that does not decode fails, so that its instance does not wait for ever.
pub async fn an_undecodable_activity_fails<F: ProviderFactory + ?Sized>(factory: &F) {
    for through_fetch in [true, false] {
        let bench = Bench::open(factory).await;
        let first = Commit::first()
            .and(kinds::activity_scheduled("A"))
            .work(items::activity("hit", 2));
        bench.create_with("hit", first).await;
        factory.corrupt_worker_items("hit").await;
        if through_fetch {
            bench.no_work("it does not decode").await
        } else {
            assert!(bench.claim_work(bench.ask_work(1)).await.is_empty())
        }
        is_told_of_failure(&bench, through_fetch, "ActivityFailed").await;
    }
}

/// `hit` learns that what it scheduled as event 2 failed, and the store keeps the row.
async fn is_told_of_failure<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    through_fetch: bool,
    kind: &str,
) {
    let messages = if through_fetch {
        bench.turn_of("hit").await.item.messages
    } else {
        bench.claimed("hit").await.item.messages
    };
    assert_eq!(items::kinds_of(&messages), [kind]);
    assert_eq!(items::id_of(&messages[0]), 2);
    let letters = bench.admin().list_dead_letters(10).await;
    assert_eq!(letters.expect("a listing").len(), 1);
}

/// A damaged history costs its instance no message.
pub async fn a_damaged_history_keeps_its_messages<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("hit").await;
    bench.send(items::signal("hit", "a")).await;
    bench.send(items::queue_message("hit", "b")).await;
    factory.corrupt_instance_history("hit").await;
    for attempt in 1..=3 {
        let turn = bench.turn_of("hit").await;
        assert_eq!(turn.attempt, attempt);
        let expected = [items::signal("hit", "a"), items::queue_message("hit", "b")];
        assert_eq!(turn.item.messages, expected);
        bench.abandon(&turn, None).await;
    }
}

/// A damaged history is its own instance's trouble.
pub async fn a_damaged_history_does_not_block_other_instances<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("hit").await;
    bench.send(items::signal("hit", "a")).await;
    factory.corrupt_instance_history("hit").await;
    bench.start("fresh").await;
    let claims = [bench.turn().await, bench.turn().await];
    let fresh = claims.iter().find(|t| t.item.instance == "fresh");
    assert_eq!(fresh.expect("it is claimed").item.history_error, None);
}
