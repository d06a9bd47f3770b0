//! Any call may be dropped at any await: leases run out by themselves, commits are whole or absent.
//!
//! Dropping a call ends the wait for its answer, not always the work: a store with a thread or a server of its own may
//! still do it. So no case looks before the dropped call has come to its end, however slow the machine is.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use duroxide_core::provider::TagFilter;
use futures::poll;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, Work, items, kinds};

/// After how many polls the calls are dropped.
const POLLS: [usize; 6] = [0, 1, 2, 3, 5, 9];

/// How often a short lease may run out before it counts as lasting. Once is for a call that was over when it was
/// dropped, and once for one that the store did only after that; the third is for stores that do calls out of order.
const LAPSES: usize = 3;

/// How long a dropped call may go on inside the store.
const GIVEN_BACK_MAX: Duration = Duration::from_secs(20);

/// Polls a call this often, letting others run in between, and drops it; its answer if it was quicker.
async fn dropped_after<T>(polls: usize, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    for _ in 0..polls {
        if let std::task::Poll::Ready(answer) = poll!(call.as_mut()) {
            return Some(answer);
        }
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    None
}

/// Claims this instance as soon as no short lease of a dropped call is in the way.
async fn turn_after_lapse<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> Turn {
    for _ in 0..LAPSES {
        bench.outlive(bench.brief()).await;
        if let Some(turn) = bench.claim().await {
            assert_eq!(turn.item.instance, id, "the claimed instance");
            return turn;
        }
    }
    panic!("a dropped call keeps `{id}` for longer than its lease");
}

/// Claims an activity as soon as no short lease of a dropped call is in the way.
async fn work_after_lapse<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Work {
    for _ in 0..LAPSES {
        bench.outlive(bench.brief()).await;
        if let Some(work) = bench.find_work().await {
            return work;
        }
    }
    panic!("a dropped call keeps the activity for longer than its lease");
}

/// Whether a dropped commit of this instance's first turn took place. Its lease is over, so either the events show that
/// it did, or the message is claimed again, and with that its token is void and it cannot happen any more.
async fn committed<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> bool {
    let began = Instant::now();
    while began.elapsed() < GIVEN_BACK_MAX {
        if let Some(turn) = bench.claim().await {
            assert_eq!(turn.item.instance, id, "the claimed instance");
            return false;
        }
        if !bench.read(id).await.is_empty() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("neither the message of `{id}` nor its events can be found");
}

/// A lease taken just before the drop ends with its time.
pub async fn a_dropped_fetch_leaves_no_lasting_lease<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("dropped").await;
    for polls in POLLS {
        let fetch = bench
            .store
            .fetch_orchestration_item(bench.brief(), Duration::ZERO, None);
        let _ = dropped_after(polls, fetch).await;
        let turn = turn_after_lapse(&bench, "dropped").await;
        bench.abandon(&turn, None).await;
    }
}

/// A lease on an activity taken just before the drop ends with its time.
pub async fn a_dropped_work_fetch_leaves_no_lasting_lease<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("dropped", 1)).await;
    let tags = TagFilter::DefaultOnly;
    for polls in POLLS {
        let fetch = bench
            .store
            .fetch_work_item(bench.brief(), Duration::ZERO, None, &tags);
        let _ = dropped_after(polls, fetch).await;
        let work = work_after_lapse(&bench).await;
        bench.give_back(&work, None, false).await;
    }
}

/// A dropped commit happened entirely or not at all.
pub async fn a_dropped_commit_is_whole_or_absent<F: ProviderFactory + ?Sized>(factory: &F) {
    for polls in POLLS {
        let bench = Bench::open(factory).await;
        bench.start("dropped").await;
        let turn = bench.turn_of("dropped").await;
        let commit = Commit::first()
            .and(kinds::kv_set("k", "v"))
            .work(items::activity("dropped", 2));
        let _ = dropped_after(polls, bench.try_commit(&turn, commit)).await;
        bench.outlive(bench.lock).await;

        let whole = committed(&bench, "dropped").await;
        let events = bench.read("dropped").await.len();
        assert_eq!(events, if whole { 2 } else { 0 }, "all events or none");
        bench
            .idle("its message is consumed or under the new lease")
            .await;
        let key = bench
            .store
            .get_kv_value("dropped", "k")
            .await
            .expect("readable");
        assert_eq!(key.is_some(), whole, "the key comes with the events");
        assert_eq!(
            bench.find_work().await.is_some(),
            whole,
            "so does the activity"
        );
    }
}

/// A dropped ack removed the activity and sent its result, or neither.
pub async fn a_dropped_ack_is_whole_or_absent<F: ProviderFactory + ?Sized>(factory: &F) {
    for polls in POLLS {
        let bench = Bench::open(factory).await;
        bench.create("dropped").await;
        bench.schedule(items::activity("dropped", 2)).await;
        let work = bench.work().await;
        let done = items::activity_done("dropped", 2);
        let _ = dropped_after(polls, bench.try_finish(&work, Some(done))).await;
        bench.outlive(bench.lock).await;
        if acknowledged(&bench).await {
            let left = bench.find_work().await;
            assert!(left.is_none(), "its activity went with it: {left:?}");
        } else {
            bench.idle("its result did not come without it").await;
        }
    }
}

/// Whether a dropped ack of the only activity took place. Its lease is over, so either the result is there, or the
/// activity is claimed again, and with that its token is void and it cannot happen any more.
async fn acknowledged<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> bool {
    let began = Instant::now();
    while began.elapsed() < GIVEN_BACK_MAX {
        if bench.find_work().await.is_some() {
            return false;
        }
        if bench.claim().await.is_some() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("neither the activity nor its result can be found");
}

/// A long poll that was dropped takes nothing that comes later.
pub async fn a_dropped_long_poll_takes_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    // Longer than the case: what a dropped call takes stays away.
    let lock = Duration::from_secs(600);
    let poll = Duration::from_secs(30);
    let tags = TagFilter::DefaultOnly;
    for polls in POLLS {
        let waiting = bench.store.fetch_orchestration_item(lock, poll, None);
        dropped_after(polls, waiting).await;
        let working = bench.store.fetch_work_item(lock, poll, None, &tags);
        dropped_after(polls, working).await;
    }
    bench.idle("nothing was sent yet").await;
    assert!(bench.find_work().await.is_none(), "nor scheduled");
    bench.start("next").await;
    bench.schedule(items::activity("next", 1)).await;
    bench.turn_of("next").await;
    bench.work().await;
}

/// The store works on after calls of every kind were dropped.
pub async fn dropped_calls_do_not_wear_the_store_out<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("tired").await;
    for round in 0..40 {
        let polls = round % 3;
        let _ = dropped_after(polls, bench.store.read("tired")).await;
        let _ = dropped_after(polls, bench.store.get_kv_all_values("tired")).await;
        let signal = items::signal("tired", "again");
        let _ = dropped_after(polls, bench.store.enqueue_for_orchestrator(signal, None)).await;
        let fetch = bench
            .store
            .fetch_orchestration_item(bench.brief(), Duration::ZERO, None);
        let _ = dropped_after(polls, fetch).await;
    }
    bench.send(items::signal("tired", "last")).await;
    let turn = turn_after_lapse(&bench, "tired").await;
    assert!(turn.item.messages.contains(&items::signal("tired", "last")));
    bench.commit(&turn, Commit::to(1)).await;
}
