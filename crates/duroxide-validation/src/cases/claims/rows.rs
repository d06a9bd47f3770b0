//! A claim owns the rows it was given, and no others.

use duroxide_core::provider::{DispatcherCapabilityFilter, SemverRange};
use semver::Version;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

/// Giving back counts against what was claimed, not against what arrived meanwhile.
pub async fn an_abandon_counts_only_its_own_messages<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("own").await;
    bench.send(items::signal("own", "first")).await;
    let turn = bench.turn_of("own").await;
    bench.send(items::signal("own", "second")).await;
    bench.abandon(&turn, Some(bench.lock)).await;

    let later = bench.turn_of("own").await;
    assert_eq!(later.item.messages, [items::signal("own", "second")]);
    assert_eq!(later.attempt, 1, "it was never claimed before");
    bench.abandon(&later, Some(bench.lock)).await;

    bench.outlive(bench.lock).await;
    let both = bench.turn_of("own").await;
    assert_eq!(both.attempt, 2, "each was claimed once before");
}

/// Messages that were delayed and come back stand where they stood.
pub async fn a_delayed_abandon_keeps_the_order<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("ordered").await;
    for id in 1..=2 {
        bench.send(items::activity_done("ordered", id)).await;
    }
    let turn = bench.turn_of("ordered").await;
    bench.send(items::activity_done("ordered", 3)).await;
    bench.abandon(&turn, Some(bench.brief())).await;
    bench.outlive(bench.brief()).await;

    let again = bench.turn_of("ordered").await;
    let ids: Vec<u64> = again.item.messages.iter().map(items::id_of).collect();
    assert_eq!(ids, [1, 2, 3]);
}

/// Giving back without a delay does not move what was delayed before.
pub async fn an_undelayed_abandon_leaves_visibility_alone<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("later").await;
    bench
        .send_after(items::signal("later", "delayed"), Some(bench.lock))
        .await;
    bench.send(items::signal("later", "now")).await;
    let turn = bench.turn_of("later").await;
    bench.abandon(&turn, None).await;
    let again = bench.turn_of("later").await;
    assert_eq!(again.item.messages, [items::signal("later", "now")]);
}

/// An attempt is on record the moment something is claimed, so that a crash counts.
pub async fn attempts_are_on_record_at_claim_time<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("counted").await;
    let turn = bench.turn_of("counted").await;
    assert_eq!(factory.get_max_attempt_count("counted").await, 1);
    bench.abandon_uncounted(&turn).await;
    assert_eq!(factory.get_max_attempt_count("counted").await, 0);
}

/// A lease that ran out counts as an attempt of the instance too.
pub async fn an_expired_turn_counts_as_an_attempt<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("counted").await;
    for attempt in 1..=3 {
        assert_eq!(bench.turn_of("counted").await.attempt, attempt);
        bench.outlive(bench.lock).await;
    }
}

/// A lease that is over but was not taken over can still be given back.
pub async fn an_expired_claim_can_be_given_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("late").await;
    bench.schedule(items::activity("late", 1)).await;
    let turn = bench.turn_of("late").await;
    let work = bench.work().await;
    bench.outlive(bench.lock).await;
    bench.abandon_uncounted(&turn).await;
    bench.give_back(&work, None, true).await;
    assert_eq!(bench.turn_of("late").await.attempt, 1);
    assert_eq!(bench.work().await.attempt, 1);
}

/// A cancelled activity of another execution or instance stays.
pub async fn cancellation_names_exactly_one_activity<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("owner").await;
    for instance in ["owner", "other"] {
        bench.schedule(items::activity(instance, 2)).await;
    }
    bench.nudge("owner", Commit::to(1).cancel("owner", 2)).await;
    assert_eq!(bench.work().await.item, items::activity("other", 2));
    bench.no_work("only one was left").await;
}

/// An instance in any of the filter's ranges is offered.
pub async fn every_range_of_a_filter_admits<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("third", Commit::first().pinned("3.5.0"))
        .await;
    bench.send(items::signal("third", "go")).await;
    let major = |n| SemverRange::new(Version::new(n, 0, 0), Version::new(n, 9, 9));
    let filter = DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![major(1), major(3)],
    };
    let turn = bench.claim_matching(&filter).await;
    assert_eq!(turn.expect("3.5.0 is in the second").item.instance, "third");
}

/// Version parts are numbers of any size.
pub async fn large_version_numbers_compare_as_numbers<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("large", Commit::first().pinned("1.2.1500"))
        .await;
    bench.send(items::signal("large", "go")).await;
    let filter = |max| DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![SemverRange::new(Version::new(1, 0, 0), max)],
    };
    let below = bench
        .claim_matching(&filter(Version::new(1, 2, 1499)))
        .await;
    assert!(below.is_none(), "1.2.1500 is above 1.2.1499");
    let above = bench.claim_matching(&filter(Version::new(1, 3, 0))).await;
    assert!(above.is_some(), "1.2.1500 is below 1.3.0");
}

/// A timer sent by a commit is visible when it is due, not before, whatever was sent beside it.
pub async fn a_committed_timer_is_visible_when_due<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let wait = bench.brief();
    let due = bench.now_ms() + u64::try_from(wait.as_millis()).expect("a lease is short");
    let first = Commit::first()
        .message(items::timer("timed", 2, due))
        .message(items::signal("timed", "now"));
    bench.create_with("timed", first).await;
    let turn = bench.turn_of("timed").await;
    assert_eq!(turn.item.messages, [items::signal("timed", "now")]);
    bench.commit(&turn, Commit::to(1)).await;

    bench.outlive(wait).await;
    let turn = bench.turn_of("timed").await;
    assert_eq!(turn.item.messages, [items::timer("timed", 2, due)]);
}

/// Results of an earlier execution are still delivered; the engine decides what they mean.
pub async fn results_of_an_earlier_execution_are_delivered<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .work(items::activity("moved", 2))
        .continued("next");
    bench.create_with("moved", first).await;
    bench.next_execution("moved", Commit::first_of(2)).await;
    let work = bench.work().await;
    bench.finish(&work).await;
    let turn = bench.turn_of("moved").await;
    assert_eq!(turn.item.execution_id, 2);
    assert_eq!(turn.item.messages, [items::activity_done("moved", 2)]);
}
