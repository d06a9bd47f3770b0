//! What an activity says about its progress is kept for its next attempt, under its lease.

use duroxide_core::provider::{ProviderError, PruneOptions, ScheduledActivityIdentifier};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Work, items, kinds};

/// A claimed activity with this scheduling event.
async fn working<'a, F: ProviderFactory + ?Sized>(factory: &'a F) -> (Bench<'a, F>, Work) {
    let bench = Bench::open(factory).await;
    bench.create("busy").await;
    bench.schedule(items::activity("busy", 2)).await;
    let work = bench.work().await;
    (bench, work)
}

async fn say<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    work: &Work,
    call: u64,
    details: &str,
) -> Result<bool, ProviderError> {
    let store = &bench.store;
    store
        .heartbeat_work_item(&work.token, bench.lock, call, details)
        .await
}

async fn last<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, call: u64) -> Option<String> {
    let call = ScheduledActivityIdentifier {
        instance: "busy".to_owned(),
        execution_id: 1,
        activity_id: call,
    };
    let said = bench.store.last_heartbeat(&call).await;
    said.expect("the store can be asked")
}

/// The last details of a call outlast the attempt that gave them, and the completion of that attempt.
pub async fn the_next_attempt_finds_what_was_said_last<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, first) = working(factory).await;
    assert_eq!(last(&bench, 2).await, None, "nothing was said");
    for details in ["one \u{1}\0 'third'", "two thirds"] {
        assert_eq!(say(&bench, &first, 2, details).await, Ok(true));
        assert_eq!(last(&bench, 2).await.as_deref(), Some(details));
    }
    let failed = items::activity_failed("busy", 2);
    bench.try_finish(&first, Some(failed)).await.expect("held");
    assert_eq!(last(&bench, 2).await.as_deref(), Some("two thirds"));

    bench.schedule(items::activity("busy", 5)).await;
    let second = bench.work().await;
    assert_eq!(say(&bench, &second, 2, "all").await, Ok(true));
    assert_eq!(last(&bench, 2).await.as_deref(), Some("all"));
    assert_eq!(
        last(&bench, 5).await,
        None,
        "the call is the first attempt's"
    );
}

/// A worker that died leaves its last details to the one that takes over.
pub async fn the_next_claim_finds_what_was_said_last<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, dead) = working(factory).await;
    say(&bench, &dead, 2, "half").await.expect("held");
    bench.outlive(bench.lock).await;
    bench.work().await;
    assert_eq!(last(&bench, 2).await.as_deref(), Some("half"));
}

/// Calls of one execution do not see what others say.
pub async fn each_call_has_its_own_heartbeat<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, one) = working(factory).await;
    bench.schedule(items::activity("busy", 3)).await;
    let other = bench.work().await;
    say(&bench, &one, 2, "one").await.expect("held");
    say(&bench, &other, 3, "other").await.expect("held");
    assert_eq!(last(&bench, 2).await.as_deref(), Some("one"));
    assert_eq!(last(&bench, 3).await.as_deref(), Some("other"));
}

/// A heartbeat is a renewal.
pub async fn a_heartbeat_extends_the_lease<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, work) = working(factory).await;
    for _ in 0..3 {
        bench.pass(bench.lock.mul_f64(0.6)).await;
        assert_eq!(say(&bench, &work, 2, "on").await, Ok(true));
    }
    bench.no_work("the lease was extended").await;
    bench.finish(&work).await;
}

/// Under a lease that ran out, was taken over or is done, nothing is kept.
pub async fn a_lost_lease_says_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, old) = working(factory).await;
    bench.outlive(bench.lock).await;
    let lapsed = say(&bench, &old, 2, "too late").await;
    assert!(!lapsed.expect_err("the lease ran out").is_retryable());
    assert_eq!(last(&bench, 2).await, None);
    let new = bench.work().await;
    say(&bench, &new, 2, "new").await.expect("held");
    let lost = say(&bench, &old, 2, "old").await;
    assert!(!lost.expect_err("it was taken over").is_retryable());
    bench.finish(&new).await;
    assert!(say(&bench, &new, 2, "after").await.is_err(), "it is done");
    assert_eq!(last(&bench, 2).await.as_deref(), Some("new"));
}

/// Pruning an execution removes what its activities said, and nothing of other executions.
pub async fn what_was_said_goes_with_its_execution<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, work) = working(factory).await;
    say(&bench, &work, 2, "old").await.expect("held");
    bench.finish(&work).await;
    let ended = Commit::to(1)
        .event(2, kinds::continued("again"))
        .status("ContinuedAsNew", None);
    bench.advance("busy", ended).await;
    bench.next_execution("busy", Commit::first_of(2)).await;
    assert_eq!(last(&bench, 2).await.as_deref(), Some("old"));
    let pruned = bench
        .admin()
        .prune_executions(
            "busy",
            PruneOptions {
                keep_last: Some(1),
                ..PruneOptions::default()
            },
        )
        .await;
    assert_eq!(pruned.expect("known").executions_deleted, 1);
    assert_eq!(last(&bench, 2).await, None);
}

/// An id that is deleted and started again knows nothing of its earlier life.
pub async fn a_later_life_finds_nothing_that_was_said<F: ProviderFactory + ?Sized>(factory: &F) {
    let (bench, work) = working(factory).await;
    say(&bench, &work, 2, "earlier").await.expect("held");
    let deleted = bench.admin().delete_instance("busy", true).await;
    deleted.expect("by force");
    assert_eq!(last(&bench, 2).await, None);
    bench.create("busy").await;
    assert!(
        say(&bench, &work, 2, "ghost").await.is_err(),
        "its lease went"
    );
    assert_eq!(last(&bench, 2).await, None);
}
