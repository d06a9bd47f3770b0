//! Paused instances: messages are kept, nothing is handed out.

use std::time::Duration;

use duroxide_core::EventKind;
use duroxide_core::provider::{InstanceQuery, OrchestrationHandlers, Pausing, TurnClaim};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, VERSION, items};

async fn pause<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> Pausing {
    let told = bench.admin().pause_instance(id).await;
    told.expect("an answer").expect("the store can pause")
}

async fn resume<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> Pausing {
    let told = bench.admin().resume_instance(id).await;
    told.expect("an answer").expect("the store can resume")
}

async fn paused_since<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> Option<u64> {
    let told = bench.admin().paused_since(id).await;
    told.expect("an answer")
}

/// `still`, created and paused.
async fn paused<F: ProviderFactory + ?Sized>(factory: &F) -> Bench<'_, F> {
    let bench = Bench::open(factory).await;
    bench.create("still").await;
    assert_eq!(pause(&bench, "still").await, Pausing::Done);
    bench
}

/// The store hands out nothing of it to any caller, and hands out other instances. After it is resumed its messages
/// come at once, in their order, and the wait counted as no attempt.
pub async fn messages_of_a_paused_instance_wait<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = paused(factory).await;
    for name in ["a", "b"] {
        bench.send(items::signal("still", name)).await;
        bench.idle("it is paused").await;
    }
    let claim = TurnClaim {
        handlers: Some(OrchestrationHandlers::default().with(NAME, VERSION).into()),
        ..TurnClaim::one(bench.lock, Duration::ZERO, None)
    };
    let claimed = bench.store.claim_turns(claim).await.expect("a claim");
    assert!(claimed.is_empty(), "a node with its code gets nothing");
    bench.create("other").await;
    assert_eq!(resume(&bench, "still").await, Pausing::Done);
    let turn = bench.turn_of("still").await;
    let expected = ["a", "b"].map(|name| items::signal("still", name));
    assert_eq!(turn.item.messages, expected);
    assert_eq!(turn.attempt, 1, "the wait is no attempt");
    bench.commit(&turn, Commit::to(1)).await;
    bench.idle("everything was delivered").await;
}

/// A timer that becomes due during the pause waits too.
pub async fn a_timer_of_a_paused_instance_waits<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = paused(factory).await;
    bench
        .send_after(items::signal("still", "later"), Some(bench.brief()))
        .await;
    bench.outlive(bench.brief()).await;
    bench.idle("it is paused").await;
    resume(&bench, "still").await;
    assert_eq!(bench.turn_of("still").await.item.messages.len(), 1);
}

/// Queued activities are not begun; one that runs finishes, and its result is kept.
pub async fn activities_of_a_paused_instance_wait<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("still").await;
    for id in [2, 3] {
        bench.schedule(items::activity("still", id)).await;
    }
    let runs = bench.work().await;
    assert_eq!(pause(&bench, "still").await, Pausing::Done);
    bench.no_work("the other one is not begun").await;
    bench.finish(&runs).await;
    bench.idle("the result waits").await;
    bench.create("other").await;
    bench.schedule(items::activity("other", 9)).await;
    assert_eq!(bench.work().await.id(), 9, "another instance goes on");
    resume(&bench, "still").await;
    let begun = bench.work().await;
    assert_eq!(begun.id(), 3);
    assert_eq!(begun.attempt, 1, "the wait is no attempt");
    assert_eq!(bench.turn_of("still").await.item.messages.len(), 1);
}

/// An activity that comes back to the queue, because its worker gave it back or died, is not begun again.
pub async fn an_activity_that_comes_back_waits<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("still").await;
    for id in [2, 3] {
        bench.schedule(items::activity("still", id)).await;
    }
    let given_back = bench.work().await;
    let lost = bench.work().await;
    pause(&bench, "still").await;
    bench.give_back(&given_back, None, false).await;
    bench.no_work("it was given back").await;
    bench.outlive(bench.lock).await;
    bench.no_work("its worker died").await;
    assert!(bench.try_finish(&lost, None).await.is_err(), "too late");
    resume(&bench, "still").await;
    let mut ids = [bench.work().await.id(), bench.work().await.id()];
    ids.sort_unstable();
    assert_eq!(ids, [2, 3]);
}

/// A turn that was claimed before commits; what it sends waits, the next execution included.
pub async fn a_turn_in_flight_commits_and_the_rest_waits<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("still").await;
    bench.send(items::signal("still", "go")).await;
    let turn = bench.turn_of("still").await;
    pause(&bench, "still").await;
    let commit = Commit::to(1)
        .event(7, EventKind::ExternalSubscribed { name: "x".into() })
        .work(items::activity("still", 7));
    bench.commit(&turn, commit).await;
    bench.no_work("its new activity waits").await;
    assert!(paused_since(&bench, "still").await.is_some(), "it stays");
    resume(&bench, "still").await;
    assert_eq!(bench.work().await.id(), 7);

    bench.send(items::signal("still", "again")).await;
    let turn = bench.turn_of("still").await;
    pause(&bench, "still").await;
    let next = Commit::to(1).status("ContinuedAsNew", None);
    bench
        .commit(&turn, next.message(items::next_execution("still")))
        .await;
    bench.idle("the next execution waits").await;
    assert!(paused_since(&bench, "still").await.is_some(), "it stays");
    resume(&bench, "still").await;
    let turn = bench.turn_of("still").await;
    assert_eq!(turn.item.messages, [items::next_execution("still")]);
}

/// A request to terminate is handed out at once, and the pause ends with the instance.
pub async fn a_paused_instance_can_be_terminated<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = paused(factory).await;
    bench.send(items::signal("still", "waits")).await;
    bench.idle("it is paused").await;
    bench.send(items::terminate("still")).await;
    let turn = bench.turn_of("still").await;
    assert!(turn.item.messages.contains(&items::terminate("still")));
    bench
        .commit(&turn, Commit::to(1).status("Failed", Some("terminated")))
        .await;
    assert_eq!(paused_since(&bench, "still").await, None);
    assert_eq!(pause(&bench, "still").await, Pausing::Ended);
    assert_eq!(resume(&bench, "still").await, Pausing::Ended);
}

/// A request to cancel waits, however old it is.
pub async fn a_request_to_cancel_waits_for_the_end_of_a_pause<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = paused(factory).await;
    bench.send(items::cancel("still")).await;
    bench.outlive(bench.lock).await;
    for handler in [NAME, "another"] {
        let claim = TurnClaim {
            handlers: Some(
                OrchestrationHandlers::default()
                    .with(handler, VERSION)
                    .into(),
            ),
            cancel_without_code_after: bench.brief(),
            ..TurnClaim::one(bench.lock, Duration::ZERO, None)
        };
        let claimed = bench.store.claim_turns(claim).await.expect("a claim");
        assert!(claimed.is_empty(), "it is paused: {claimed:?}");
    }
    bench.idle("it is paused").await;
    resume(&bench, "still").await;
    let turn = bench.turn_of("still").await;
    assert_eq!(turn.item.messages, [items::cancel("still")]);
}

/// A paused instance can be deleted, and another life of its id is not paused.
pub async fn another_life_is_not_paused<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = paused(factory).await;
    bench.send(items::signal("still", "waits")).await;
    bench.schedule(items::activity("still", 5)).await;
    bench.idle("it is paused").await;
    bench.no_work("it is paused").await;
    let deleted = bench.admin().delete_instance("still", true).await;
    assert_eq!(deleted.expect("a deletion").instances_deleted, 1);
    assert_eq!(paused_since(&bench, "still").await, None);
    bench.create("still").await;
    bench.schedule(items::activity("still", 6)).await;
    assert_eq!(bench.work().await.id(), 6);
    assert_eq!(resume(&bench, "still").await, Pausing::Unchanged);
}

/// The store reports a request that was in vain or repeated, and changes nothing.
pub async fn pausing_tells_what_became_of_it<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert_eq!(pause(&bench, "nobody").await, Pausing::NoSuchInstance);
    assert_eq!(resume(&bench, "nobody").await, Pausing::NoSuchInstance);
    bench.create("still").await;
    assert_eq!(resume(&bench, "still").await, Pausing::Unchanged);
    let before = bench.now_ms();
    assert_eq!(pause(&bench, "still").await, Pausing::Done);
    let since = paused_since(&bench, "still").await.expect("it is paused");
    assert!((before..=bench.now_ms()).contains(&since), "{since}");
    bench.pass(bench.brief()).await;
    assert_eq!(pause(&bench, "still").await, Pausing::Unchanged);
    assert_eq!(paused_since(&bench, "still").await, Some(since));
    assert_eq!(resume(&bench, "still").await, Pausing::Done);
    assert_eq!(paused_since(&bench, "still").await, None);
}

/// A query tells which instances are paused, and finds them.
pub async fn a_query_finds_paused_instances<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = paused(factory).await;
    bench.create("moving").await;
    let since = paused_since(&bench, "still").await;
    for (wanted, id, at) in [(true, "still", since), (false, "moving", None)] {
        let query = InstanceQuery::new().with_paused(wanted);
        let page = bench.admin().query_instances(&query).await.expect("a page");
        let found: Vec<_> = page.items.iter().map(|one| &one.instance_id[..]).collect();
        assert_eq!(found, [id]);
        assert_eq!(page.items[0].paused_at_ms, at);
    }
}

/// A pause outlives the process.
pub async fn a_pause_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = paused(factory).await;
    bench.send(items::signal("still", "waits")).await;
    bench.schedule(items::activity("still", 5)).await;
    let since = paused_since(&bench, "still").await;
    let bench = bench.reopen().await;
    assert_eq!(paused_since(&bench, "still").await, since);
    bench.idle("it is paused").await;
    bench.no_work("it is paused").await;
    resume(&bench, "still").await;
    assert_eq!(bench.turn_of("still").await.item.messages.len(), 1);
    assert_eq!(bench.work().await.id(), 5);
}
