//! Messages for instances that do not exist: never in the way, kept while a start may still come, then consumed.

use duroxide_core::WorkItem;
use duroxide_core::provider::CLAIM_MESSAGES_MAX;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Rounds, items};

/// The orphan is queued first; a start behind it is claimed by the very next fetch.
async fn is_not_in_the_way<F: ProviderFactory + ?Sized>(factory: &F, orphan: WorkItem) {
    let bench = Bench::open(factory).await;
    bench.send(orphan).await;
    bench.start("fresh").await;
    bench.advance("fresh", Commit::first()).await;
    bench.send(items::signal("fresh", "go")).await;
    bench.turn_of("fresh").await;
}

/// A cancel request for an unknown instance is not in the way.
pub async fn an_orphan_cancel_does_not_block_other_instances<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    is_not_in_the_way(factory, items::cancel("nobody")).await;
}

/// A signal for an unknown instance is not in the way.
pub async fn an_orphan_signal_does_not_block_other_instances<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    is_not_in_the_way(factory, items::signal("nobody", "hello")).await;
}

/// An activity's result for an unknown instance is not in the way.
pub async fn an_orphan_activity_result_does_not_block_other_instances<
    F: ProviderFactory + ?Sized,
>(
    factory: &F,
) {
    is_not_in_the_way(factory, items::activity_done("nobody", 1)).await;
    is_not_in_the_way(factory, items::activity_failed("nobody", 1)).await;
}

/// A timer for an unknown instance is not in the way.
pub async fn an_orphan_timer_does_not_block_other_instances<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    is_not_in_the_way(factory, items::timer("nobody", 1, 1)).await;
}

/// A child's result for an unknown instance is not in the way.
pub async fn an_orphan_child_result_does_not_block_other_instances<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    is_not_in_the_way(factory, items::child_done("nobody", 1)).await;
    is_not_in_the_way(factory, items::child_failed("nobody", 1)).await;
}

/// Many orphans of many instances are not in the way either.
pub async fn a_hundred_orphans_do_not_block_a_start<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..100 {
        bench
            .send(items::signal(&format!("nobody-{n}"), "hello"))
            .await;
    }
    bench.start("fresh").await;
    bench.turn_of("fresh").await;
}

/// A message that overtook its start is delivered together with it.
pub async fn an_early_message_waits_for_its_start<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.send(items::signal("early", "hello")).await;
    bench.idle("there is no such instance yet").await;
    bench.start("early").await;
    let turn = bench.turn_of("early").await;
    assert_eq!(
        items::kinds_of(&turn.item.messages),
        ["ExternalRaised", "StartOrchestration"]
    );
}

/// More early messages than one claim takes come with the turns after the start, in order, as soon as it is there.
pub async fn a_crowd_of_early_messages_follows_its_start<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let count = CLAIM_MESSAGES_MAX + CLAIM_MESSAGES_MAX / 2;
    let names: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    for name in &names {
        bench.send(items::signal("early", name)).await;
    }
    bench.idle("there is no such instance yet").await;
    bench.start("early").await;
    let mut seen = Vec::new();
    let mut next = Commit::first();
    let mut rounds = Rounds::default();
    while let Some(turn) = bench.claim().await {
        rounds.next();
        for message in &turn.item.messages {
            if let WorkItem::ExternalRaised { name, .. } = message {
                seen.push(name.clone());
            }
        }
        bench
            .commit(&turn, std::mem::replace(&mut next, Commit::to(1)))
            .await;
    }
    assert!(seen == names, "{} of {count} came", seen.len());
}

/// Looking at an orphan leaves no lease behind: the start is claimed at once, as its first attempt.
pub async fn an_orphan_leaves_no_lease_behind<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.send(items::cancel("early")).await;
    for _ in 0..3 {
        bench.idle("there is no such instance yet").await;
    }
    bench.start("early").await;
    let turn = bench.turn_of("early").await;
    assert_eq!(turn.item.messages.len(), 2);
    bench.commit(&turn, Commit::first()).await;
}

/// Queue messages in company of another kind are kept until the start comes.
pub async fn a_mixed_orphan_batch_is_kept<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.send(items::queue_message("mixed", "a")).await;
    bench.send(items::signal("mixed", "hello")).await;
    bench.idle("there is no such instance yet").await;
    bench.start("mixed").await;
    let turn = bench.turn_of("mixed").await;
    assert!(
        items::kinds_of(&turn.item.messages).contains(&"ExternalRaised"),
        "the signal waited for its start"
    );
}

/// A start and a queue message that came before it are delivered together.
pub async fn a_queue_message_next_to_its_start_is_delivered<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.send(items::queue_message("pair", "a")).await;
    bench.start("pair").await;
    let turn = bench.turn_of("pair").await;
    assert_eq!(
        items::kinds_of(&turn.item.messages),
        ["QueueMessage", "StartOrchestration"]
    );
}

/// A queue message that overtook its start waits for it like any other, through either door.
pub async fn an_early_queue_message_waits_for_its_start<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["fetched", "claimed"] {
        bench.send(items::queue_message(instance, "a")).await;
    }
    bench.idle("there is no such instance yet").await;
    assert!(bench.claim_turns(bench.ask()).await.is_empty());
    bench.start("fetched").await;
    let turn = bench.turn_of("fetched").await;
    let expected = [
        items::queue_message("fetched", "a"),
        items::start("fetched"),
    ];
    assert_eq!(turn.item.messages, expected);
    bench.start("claimed").await;
    let turn = bench.claimed("claimed").await;
    let expected = [
        items::queue_message("claimed", "a"),
        items::start("claimed"),
    ];
    assert_eq!(turn.item.messages, expected);
}

/// What came before a start that is itself delayed waits for it, longer than the grace period.
pub async fn an_early_message_waits_for_a_delayed_start<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let grace = factory
        .unknown_instance_grace()
        .expect("the case requires it");
    let delay = grace + bench.lock;
    bench.send(items::signal("slow", "hello")).await;
    bench.send(items::queue_message("slow", "a")).await;
    bench.send_after(items::start("slow"), Some(delay)).await;
    bench.idle("the start is not due").await;
    bench.outlive(grace).await;
    bench.idle("the start is still not due").await;
    assert!(bench.claim_turns(bench.ask()).await.is_empty());
    bench.outlive(bench.lock).await;
    let turn = bench.turn_of("slow").await;
    assert_eq!(
        items::kinds_of(&turn.item.messages),
        ["ExternalRaised", "QueueMessage", "StartOrchestration"]
    );
}

/// A start that arrives while a claim looks at an early message is claimed at once.
pub async fn a_start_does_not_rest_behind_an_early_signal<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for round in 0..20 {
        let instance = format!("race-{round}");
        bench.send(items::signal(&instance, "hello")).await;
        let (found, ()) = futures::join!(bench.claim(), bench.start(&instance));
        let turn = match found {
            Some(turn) => turn,
            None => bench.turn_of(&instance).await,
        };
        assert_eq!(turn.item.instance, instance);
        assert_eq!(turn.item.messages.len(), 2, "round {round}");
    }
}

/// An orphan is consumed once the store's grace period is over, so that it does not stay for ever.
pub async fn an_orphan_is_consumed_after_the_grace_period<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.send(items::signal("nobody", "hello")).await;
    bench.idle("there is no such instance").await;
    let grace = factory
        .unknown_instance_grace()
        .expect("the case requires it");
    bench.outlive(grace).await;
    bench.idle("there is still no such instance").await;
    let depths = bench.admin().get_queue_depths().await.expect("depths");
    assert_eq!(depths.orchestrator_queue, 0, "the orphan was consumed");

    bench.start("nobody").await;
    let turn = bench.turn_of("nobody").await;
    assert_eq!(items::kinds_of(&turn.item.messages), ["StartOrchestration"]);
}

/// What reaches a deleted instance later is an orphan like any other.
pub async fn leftovers_of_a_deleted_instance_do_not_block<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("deleted").await;
    bench
        .admin()
        .delete_instance("deleted", true)
        .await
        .expect("forced");
    bench.send(items::activity_done("deleted", 2)).await;
    bench.start("fresh").await;
    bench.turn_of("fresh").await;
}
