//! Rows that do not decode are set aside; everything else goes on.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

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

/// A start that does not decode is set aside too, and the id can be started again.
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
