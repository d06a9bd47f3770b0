//! A waiting fetch is woken by whatever makes work visible, and a waiting client by every commit.
//!
//! Waiting is real here, also for stores whose clock can be moved: a wake-up is about elapsed time.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide_core::WorkItem;
use duroxide_core::provider::TagFilter;
use futures::future::join_all;
use tokio::task::JoinHandle;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds, session};

const ROUNDS: u64 = 5;

type Woken<T> = JoinHandle<(T, Instant)>;

fn wait_for_turn<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Woken<String> {
    let (store, lock, poll) = (Arc::clone(&bench.store), bench.lock, bench.for_long());
    tokio::spawn(async move {
        let found = store.fetch_orchestration_item(lock, poll, None).await;
        let (item, _, _) = found
            .expect("a fetch does not fail")
            .expect("woken with an instance");
        (item.instance, Instant::now())
    })
}

fn wait_for_work<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    owner: Option<&str>,
    tags: TagFilter,
) -> Woken<u64> {
    let (store, lock, poll) = (Arc::clone(&bench.store), bench.lock, bench.for_long());
    let owner = owner.map(|owner| session(owner, lock));
    tokio::spawn(async move {
        let found = store
            .fetch_work_item(lock, poll, owner.as_ref(), &tags)
            .await;
        let (item, _, _) = found
            .expect("a fetch does not fail")
            .expect("woken with an activity");
        (items::id_of(&item), Instant::now())
    })
}

/// Lets the waiters settle, does something, and tells what the waiter got and how long after it.
async fn woken_after<T, F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    waiter: Woken<T>,
    cause: impl Future<Output = ()>,
) -> (T, Duration) {
    bench.settle().await;
    cause.await;
    let began = Instant::now();
    let (found, at) = waiter.await.expect("the waiter is served");
    (found, at.saturating_duration_since(began))
}

async fn woken_by<T, F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    waiter: Woken<T>,
    cause: impl Future<Output = ()>,
) -> T {
    let (found, late) = woken_after(bench, waiter, cause).await;
    assert!(late < bench.prompt(), "woken only after {late:?}");
    found
}

fn best_is_prompt<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, late: &[Duration]) {
    let best = late.iter().min().expect("there were rounds");
    assert!(
        *best < bench.at_once(),
        "woken after {late:?}: polled, not woken"
    );
}

/// An enqueued message wakes a waiting dispatcher, within milliseconds.
pub async fn a_message_wakes_a_waiting_dispatcher<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let mut late = Vec::new();
    for round in 0..ROUNDS {
        let instance = format!("woken-{round}");
        let waiter = wait_for_turn(&bench);
        let (found, after) = woken_after(&bench, waiter, bench.start(&instance)).await;
        assert_eq!(found, instance);
        late.push(after);
    }
    best_is_prompt(&bench, &late);
}

/// A commit that sends a message wakes a waiting dispatcher.
pub async fn a_commit_wakes_a_waiting_dispatcher<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("sender").await;
    let turn = bench.turn_of("sender").await;
    let waiter = wait_for_turn(&bench);
    let commit = Commit::first().message(items::start("woken"));
    assert_eq!(
        woken_by(&bench, waiter, bench.commit(&turn, commit)).await,
        "woken"
    );
}

/// A commit that leaves messages behind wakes a waiting dispatcher for the same instance.
pub async fn the_end_of_a_lease_wakes_a_waiting_dispatcher<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("again").await;
    let turn = bench.turn_of("again").await;
    bench.send(items::signal("again", "more")).await;
    let waiter = wait_for_turn(&bench);
    let commit = bench.commit(&turn, Commit::first());
    assert_eq!(woken_by(&bench, waiter, commit).await, "again");
}

/// An instance given back wakes a waiting dispatcher.
pub async fn an_abandon_wakes_a_waiting_dispatcher<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("back").await;
    let turn = bench.turn_of("back").await;
    let waiter = wait_for_turn(&bench);
    assert_eq!(
        woken_by(&bench, waiter, bench.abandon(&turn, None)).await,
        "back"
    );
}

/// A worker's result wakes a waiting dispatcher.
pub async fn a_result_wakes_a_waiting_dispatcher<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().work(items::activity("owner", 2));
    bench.create_with("owner", first).await;
    let work = bench.work().await;
    let waiter = wait_for_turn(&bench);
    assert_eq!(woken_by(&bench, waiter, bench.finish(&work)).await, "owner");
}

/// A message becomes visible while a dispatcher waits: it is delivered when it is due.
pub async fn a_due_message_wakes_a_waiting_dispatcher<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("timed").await;
    let delay = bench.at_once() * 7;
    bench
        .send_after(items::signal("timed", "due"), Some(delay))
        .await;
    let began = Instant::now();
    let waiter = wait_for_turn(&bench);
    tokio::time::sleep(delay / 2).await;
    bench.pass(delay / 2).await;
    let (instance, at) = waiter.await.expect("the waiter is served");
    assert_eq!(instance, "timed");
    let waited = at.saturating_duration_since(began);
    assert!(
        waited < delay + bench.prompt(),
        "served only after {waited:?}"
    );
}

/// A lease runs out while a dispatcher waits: it gets the instance.
pub async fn an_expiring_lease_wakes_a_waiting_dispatcher<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("left").await;
    let lease = bench.at_once() * 7;
    bench.claim_for(lease).await.expect("it is ready");
    let began = Instant::now();
    let waiter = wait_for_turn(&bench);
    tokio::time::sleep(lease / 2).await;
    bench.pass(lease / 2).await;
    let (instance, at) = waiter.await.expect("the waiter is served");
    assert_eq!(instance, "left");
    let waited = at.saturating_duration_since(began);
    assert!(
        waited < lease + bench.prompt(),
        "served only after {waited:?}"
    );
}

/// An enqueued activity wakes a waiting worker, within milliseconds.
pub async fn an_activity_wakes_a_waiting_worker<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let mut late = Vec::new();
    for round in 1..=ROUNDS {
        let waiter = wait_for_work(&bench, None, TagFilter::DefaultOnly);
        let cause = bench.schedule(items::activity("woken", round));
        let (found, after) = woken_after(&bench, waiter, cause).await;
        assert_eq!(found, round);
        late.push(after);
    }
    best_is_prompt(&bench, &late);
}

/// A commit that schedules an activity wakes a waiting worker.
pub async fn a_commit_wakes_a_waiting_worker<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("owner").await;
    let turn = bench.turn_of("owner").await;
    let waiter = wait_for_work(&bench, None, TagFilter::DefaultOnly);
    let commit = Commit::first().work(items::activity("owner", 2));
    assert_eq!(
        woken_by(&bench, waiter, bench.commit(&turn, commit)).await,
        2
    );
}

/// An activity given back wakes a waiting worker.
pub async fn an_abandon_wakes_a_waiting_worker<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("back", 7)).await;
    let work = bench.work().await;
    let waiter = wait_for_work(&bench, None, TagFilter::DefaultOnly);
    assert_eq!(
        woken_by(&bench, waiter, bench.give_back(&work, None, false)).await,
        7
    );
}

/// A wake-up is not swallowed by a worker that cannot take the activity.
pub async fn a_worker_with_another_tag_swallows_no_wake_up<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let others: Vec<_> = (0..3)
        .map(|_| wait_for_work(&bench, None, TagFilter::tags(["cpu"])))
        .collect();
    bench.settle().await;
    let waiter = wait_for_work(&bench, None, TagFilter::tags(["gpu"]));
    let cause = bench.schedule(items::tagged_activity("woken", 7, "gpu"));
    assert_eq!(woken_by(&bench, waiter, cause).await, 7);
    for other in others {
        other.abort();
    }
}

/// A wake-up is not swallowed by a worker that does not own the session.
pub async fn a_worker_without_the_session_swallows_no_wake_up<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench
        .schedule(items::session_activity("seated", 1, "s"))
        .await;
    bench.work_as("anna").await;
    let others: Vec<_> = (0..3)
        .map(|_| wait_for_work(&bench, Some("bert"), TagFilter::DefaultOnly))
        .collect();
    bench.settle().await;
    let waiter = wait_for_work(&bench, Some("anna"), TagFilter::DefaultOnly);
    let cause = bench.schedule(items::session_activity("seated", 2, "s"));
    assert_eq!(woken_by(&bench, waiter, cause).await, 2);
    for other in others {
        other.abort();
    }
}

/// As many waiting workers as activities in one commit: everybody is woken.
pub async fn a_burst_wakes_everybody<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("owner").await;
    let turn = bench.turn_of("owner").await;
    let waiters: Vec<_> = (0..4)
        .map(|_| wait_for_work(&bench, None, TagFilter::DefaultOnly))
        .collect();
    bench.settle().await;
    let commit = (2..6).fold(Commit::first(), |commit, id| {
        commit.work(items::activity("owner", id))
    });
    bench.commit(&turn, commit).await;
    let began = Instant::now();
    let mut served = Vec::new();
    for answer in join_all(waiters).await {
        let (id, at) = answer.expect("the waiter is served");
        assert!(
            at.saturating_duration_since(began) < bench.prompt(),
            "activity {id}"
        );
        served.push(id);
    }
    served.sort_unstable();
    assert_eq!(served, [2, 3, 4, 5]);
}

/// Work that comes through another handle is noticed within a second.
pub async fn another_process_is_noticed<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let other = factory.second_handle().await;
    let waiter = wait_for_turn(&bench);
    bench.settle().await;
    let began = Instant::now();
    let sent = other
        .enqueue_for_orchestrator(items::start("far"), None)
        .await;
    sent.expect("a message can be enqueued");
    let (instance, at) = waiter.await.expect("the waiter is served");
    assert_eq!(instance, "far");
    let late = at.saturating_duration_since(began);
    assert!(late < bench.prompt() * 2, "noticed only after {late:?}");
}

async fn watch_sees<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, message: WorkItem) {
    bench.send(message).await;
    let turn = bench.turn_of("watched").await;
    let mut watch = bench
        .store
        .watch_instance("watched")
        .expect("the case requires it");
    let seen = tokio::spawn(async move { watch.changed().await });
    bench.settle().await;
    bench.commit(&turn, Commit::to(1)).await;
    let seen = tokio::time::timeout(bench.prompt(), seen).await;
    seen.expect("woken by the commit").expect("no panic");
}

/// A client that waits for an instance is woken by its commits.
pub async fn a_commit_wakes_a_watching_client<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("watched").await;
    watch_sees(&bench, items::signal("watched", "one")).await;
    watch_sees(&bench, items::signal("watched", "two")).await;
}

/// A commit between taking the watch and waiting on it is not missed.
pub async fn a_watch_misses_no_commit<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("watched").await;
    let mut watch = bench
        .store
        .watch_instance("watched")
        .expect("the case requires it");
    bench.nudge("watched", Commit::to(1)).await;
    let seen = tokio::time::timeout(bench.prompt(), watch.changed()).await;
    seen.expect("the commit was after the watch was taken");
}

/// An instance can be watched before it exists.
pub async fn a_watch_may_come_before_its_instance<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let mut watch = bench
        .store
        .watch_instance("unborn")
        .expect("the case requires it");
    bench.create("unborn").await;
    let seen = tokio::time::timeout(bench.prompt(), watch.changed()).await;
    seen.expect("the first commit is a change");
}

/// A watch that tells how an instance ended tells what a reader finds.
pub async fn the_end_told_by_a_watch_is_the_one_that_is_read<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("watched").await;
    let mut watch = bench
        .store
        .watch_instance("watched")
        .expect("the case requires it");
    bench.nudge("watched", ended()).await;
    let told = tokio::time::timeout(bench.prompt(), watch.ended()).await;
    let told = told.expect("the end is told");
    let read = bench.store.read_outcome("watched").await;
    let read = read.expect("the outcome can be read");
    // `None` means "look for yourself", which is always allowed.
    assert!(
        told.is_none() || told == read,
        "told {told:?}, read {read:?}"
    );
}

/// A watch calls an instance running only if its end is still to come, also when a second start follows its end.
pub async fn an_ended_instance_is_never_called_running<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let is_running = || {
        let watch = bench.store.watch_instance("ended");
        watch.expect("the case requires it").is_running()
    };
    bench.create("ended").await;
    bench.nudge("ended", ended()).await;
    assert!(!is_running());
    bench.send(items::start("ended")).await;
    assert!(!is_running(), "the second start begins nothing");
}

/// Nor does it call an instance running that was deleted.
pub async fn a_deleted_instance_is_never_called_running<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("deleted").await;
    let deleted = bench.admin().delete_instance("deleted", true).await;
    deleted.expect("it is deleted by force");
    let watch = bench.store.watch_instance("deleted");
    assert!(!watch.expect("the case requires it").is_running());
}

fn ended() -> Commit {
    Commit::to(1)
        .event(2, kinds::completed("done"))
        .status("Completed", Some("done"))
}
