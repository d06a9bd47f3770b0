//! Instances that a node noted it cannot go on with.

use duroxide_core::provider::{BlockedInstance, CountBy, InstanceQuery, ProviderError};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, Turn, items, kinds};

fn report(instance: &str, attempts: u32) -> BlockedInstance {
    BlockedInstance {
        instance_id: instance.to_owned(),
        execution_id: 1,
        orchestration_name: NAME.to_owned(),
        report: "recorded: a; attempted: b".to_owned(),
        attempts,
    }
}

async fn try_note<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    turn: &Turn,
    attempts: u32,
) -> Result<bool, ProviderError> {
    let blocked = report(&turn.item.instance, attempts);
    let noted = bench.store.note_blocked(&turn.token, &blocked, "node-1");
    noted.await
}

/// Wakes an instance, notes that it is blocked, and gives it back with its message.
async fn block<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str, attempts: u32) {
    bench.send(items::signal(instance, "go")).await;
    let turn = bench.turn_of(instance).await;
    let noted = try_note(bench, &turn, attempts).await;
    assert!(
        noted.expect("the holder of a lease can note"),
        "it is noted"
    );
    bench.abandon_uncounted(&turn).await;
}

async fn ids<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, blocked: bool) -> Vec<String> {
    let query = InstanceQuery::new().with_blocked(blocked);
    let page = bench.admin().query_instances(&query).await;
    let page = page.expect("a query is answered");
    let mut ids: Vec<_> = page.items.into_iter().map(|one| one.instance_id).collect();
    ids.sort();
    ids
}

async fn count<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, blocked: bool) -> u64 {
    let query = InstanceQuery::new().with_blocked(blocked);
    let counts = bench
        .admin()
        .count_instances(&query, CountBy::Nothing)
        .await;
    counts.expect("a query can be counted")[0].count
}

/// The note is there with the instance given back, the next one takes its place, and a turn with events ends it.
pub async fn a_blocked_instance_is_found_until_it_goes_on<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for id in ["healthy", "stuck"] {
        bench.create(id).await;
    }
    let nobody: [&str; 0] = [];
    assert_eq!(ids(&bench, true).await, nobody);
    let began = bench.now_ms();
    block(&bench, "stuck", 1).await;
    assert_eq!(ids(&bench, true).await, ["stuck"]);
    assert_eq!(ids(&bench, false).await, ["healthy"]);
    assert_eq!(
        (count(&bench, true).await, count(&bench, false).await),
        (1, 1)
    );
    let note = bench.admin().block_note("stuck").await;
    let note = note.expect("a note can be read").expect("it is noted");
    assert_eq!(note.blocked, report("stuck", 1));
    assert_eq!(note.node, "node-1");
    assert!(note.noted_at_ms >= began && note.noted_at_ms <= bench.now_ms());
    let healthy = bench.admin().block_note("healthy").await;
    assert_eq!(healthy.expect("it can be asked"), None);

    let turn = bench.turn_of("stuck").await;
    assert!(try_note(&bench, &turn, 2).await.expect("it can be noted"));
    let note = bench.admin().block_note("stuck").await;
    let note = note.expect("a note can be read").expect("it is noted");
    assert_eq!(note.blocked.attempts, 2, "the last note counts");
    let on = Commit::to(1).event(2, kinds::activity_scheduled("a"));
    bench.commit(&turn, on).await;
    assert_eq!(ids(&bench, true).await, nobody, "it went on");
    assert_eq!(ids(&bench, false).await, ["healthy", "stuck"]);
    let note = bench.admin().block_note("stuck").await;
    assert_eq!(note.expect("it can be asked"), None);
}

/// Ended, or continued as new: a note of the execution before does not hold.
pub async fn what_has_ended_is_not_blocked<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let nobody: [&str; 0] = [];
    for id in ["ended", "continued"] {
        bench.create(id).await;
        block(&bench, id, 1).await;
        assert_eq!(ids(&bench, true).await, [id]);
        let turn = bench.turn_of(id).await;
        let end = match id {
            "ended" => Commit::to(1)
                .event(2, kinds::failed("no"))
                .status("Failed", Some("no")),
            _ => Commit::to(1)
                .event(2, kinds::continued("next"))
                .status("ContinuedAsNew", Some("next")),
        };
        bench.commit(&turn, end).await;
        assert_eq!(ids(&bench, true).await, nobody, "{id}");
    }
    bench.next_execution("continued", Commit::first_of(2)).await;
    assert_eq!(ids(&bench, true).await, nobody);
}

/// Whoever took the instance over knows better.
pub async fn a_lost_lease_notes_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("i").await;
    bench.send(items::signal("i", "go")).await;
    let lost = bench.turn_of("i").await;
    bench.outlive(bench.lock).await;
    let refused = try_note(&bench, &lost, 1).await;
    let error = refused.expect_err("the lease is over");
    assert!(error.is_lease_lost(), "{error}");
    let _held = bench.turn_of("i").await;
    let refused = try_note(&bench, &lost, 1).await;
    assert!(refused.expect_err("another one has it").is_lease_lost());
    let nobody: [&str; 0] = [];
    assert_eq!(ids(&bench, true).await, nobody);
}

/// The id may live again, with as many events.
pub async fn a_later_life_is_not_blocked<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("i").await;
    block(&bench, "i", 1).await;
    let deleted = bench.admin().delete_instance("i", true).await;
    deleted.expect("an instance can be deleted");
    bench.create("i").await;
    let nobody: [&str; 0] = [];
    assert_eq!(ids(&bench, true).await, nobody);
    let note = bench.admin().block_note("i").await;
    assert_eq!(note.expect("it can be asked"), None);
}

/// There is nothing yet that a list could show.
pub async fn what_has_not_begun_keeps_no_note<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("i").await;
    let turn = bench.turn_of("i").await;
    let noted = try_note(&bench, &turn, 1).await;
    assert!(!noted.expect("the holder of a lease can ask"));
    bench.commit(&turn, Commit::first()).await;
    let nobody: [&str; 0] = [];
    assert_eq!(ids(&bench, true).await, nobody);
}

/// The node that noted it may be long gone.
pub async fn a_note_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("i").await;
    block(&bench, "i", 1).await;
    let bench = bench.reopen().await;
    assert_eq!(ids(&bench, true).await, ["i"]);
}
