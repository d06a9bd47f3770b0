//! Instances: by the handler of the current execution, or by what the start names.

use duroxide_core::WorkItem;
use duroxide_core::provider::{DispatcherCapabilityFilter, SemverRange, TurnClaim};
use semver::Version;

use super::{node, offered, passed_over};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, VERSION, items, kinds};

const OTHER: (&str, &str) = ("OtherOrch", "1.0.0");
const OWN: (&str, &str) = (NAME, VERSION);

fn continued_as(instance: &str, wanted: Option<&str>) -> WorkItem {
    let mut item = items::next_execution(instance);
    if let WorkItem::ContinueAsNew { version, .. } = &mut item {
        *version = wanted.map(Into::into);
    }
    item
}

/// The first turn of an execution of this version.
fn started(execution: u64, version: &str) -> Commit {
    Commit::to(execution)
        .event(1, kinds::started_as(NAME, version))
        .named(NAME, version)
}

/// A start waits for a node that has its handler, and waiting is no attempt.
pub async fn a_start_goes_to_a_node_with_its_handler<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("picky").await;
    for _ in 0..3 {
        passed_over(&bench, &[OTHER]).await;
        passed_over(&bench, &[]).await;
    }
    offered(&bench, &[OTHER, OWN], "picky").await;
}

/// A start that names a version goes to a node with that version.
pub async fn a_start_names_its_version<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .send(items::start_of("new", NAME, Some("2.0.0")))
        .await;
    passed_over(&bench, &[OWN]).await;
    offered(&bench, &[OWN, (NAME, "2.0.0")], "new").await;
}

/// A start that names no version leaves the choice to the node.
pub async fn a_start_without_a_version_goes_to_any_version<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.send(items::start_of("free", NAME, None)).await;
    passed_over(&bench, &[OTHER]).await;
    let turn = offered(&bench, &[(NAME, "3.1.4")], "free").await;
    bench.commit(&turn, started(1, "3.1.4")).await;

    bench.send(items::signal("free", "go")).await;
    passed_over(&bench, &[OWN]).await;
    offered(&bench, &[(NAME, "3.1.4")], "free").await;
}

/// A running instance goes to a node with the version that runs, whatever a second start names.
pub async fn a_running_instance_goes_to_a_node_with_its_version<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("busy").await;
    bench
        .send(items::start_of("busy", OTHER.0, Some(OTHER.1)))
        .await;
    bench.send(items::activity_done("busy", 2)).await;
    passed_over(&bench, &[OTHER, (NAME, "2.0.0")]).await;
    let turn = offered(&bench, &[OWN], "busy").await;
    assert_eq!(turn.item.messages.len(), 2);
}

/// Between two executions an instance goes to the handler that its continue-as-new names.
pub async fn a_continued_instance_goes_to_the_handler_it_asked_for<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let next = continued_as("moving", Some("2.0.0"));
    let first = Commit::first().continued("next").message(next);
    bench.create_with("moving", first).await;
    passed_over(&bench, &[OWN]).await;
    let turn = offered(&bench, &[(NAME, "2.0.0")], "moving").await;
    bench.commit(&turn, started(2, "2.0.0")).await;

    bench.send(items::signal("moving", "go")).await;
    passed_over(&bench, &[OWN]).await;
    offered(&bench, &[(NAME, "2.0.0")], "moving").await;
}

/// A continue-as-new that names no version leaves the choice to the node, also if it comes apart from the commit.
pub async fn a_continued_instance_may_change_its_version<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("moving", Commit::first().continued("next"))
        .await;
    bench.send(continued_as("moving", None)).await;
    passed_over(&bench, &[OTHER]).await;
    offered(&bench, &[(NAME, "9.0.0")], "moving").await;
}

/// Between two executions an instance goes by its continue-as-new, whatever an older start names.
pub async fn a_continued_instance_goes_by_no_older_start<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("moving", Commit::first().continued("next"))
        .await;
    let start = items::start_of("moving", OTHER.0, Some(OTHER.1));
    bench.send(start).await;
    bench.send(continued_as("moving", Some(OWN.1))).await;
    passed_over(&bench, &[OTHER]).await;
    offered(&bench, &[OWN], "moving").await;
}

/// Messages of an instance that has ended need no code.
pub async fn an_ended_instance_needs_no_handler<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for (instance, first) in [
        ("done", Commit::first().completed("ok")),
        ("failed", Commit::first().failed("no")),
    ] {
        bench.create_with(instance, first).await;
        bench.send(items::signal(instance, "late")).await;
        let turn = offered(&bench, &[OTHER], instance).await;
        bench.commit(&turn, Commit::to(1)).await;
        bench.start(instance).await;
        let turn = offered(&bench, &[OTHER], instance).await;
        bench.commit(&turn, Commit::to(1)).await;
    }
}

/// An instance that was deleted and started again goes by what its new start names.
pub async fn a_second_life_goes_by_its_own_start<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("twice").await;
    let deleted = bench.admin().delete_instance("twice", true).await;
    deleted.expect("forced");
    bench
        .send(items::start_of("twice", OTHER.0, Some(OTHER.1)))
        .await;
    passed_over(&bench, &[OWN]).await;
    offered(&bench, &[OTHER], "twice").await;
}

/// A signal that came before its start waits with it for the handler that the start names.
pub async fn an_early_message_waits_for_the_handler_of_its_start<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.send(items::signal("early", "hello")).await;
    passed_over(&bench, &[OTHER]).await;
    bench.start("early").await;
    passed_over(&bench, &[OTHER]).await;
    let turn = offered(&bench, &[OWN], "early").await;
    assert_eq!(turn.item.messages.len(), 2);
}

/// A node without any code dead-letters messages for an unknown instance.
pub async fn messages_for_an_unknown_instance_need_no_handler<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.send(items::signal("nobody", "hello")).await;
    passed_over(&bench, &[]).await;
    let grace = factory
        .unknown_instance_grace()
        .expect("the case requires it");
    bench.outlive(grace).await;
    passed_over(&bench, &[]).await;
    let depths = bench.admin().get_queue_depths().await.expect("depths");
    assert_eq!(depths.orchestrator_queue, 0, "the orphan was consumed");
}

/// Any number of instances that a node cannot run is in front, and it is offered what it can.
pub async fn instances_without_code_are_not_in_the_way<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let mut first = Commit::first();
    for n in 0..300 {
        let name = format!("Foreign{}", n % 7);
        first = first.message(items::start_of(
            &format!("foreign-{n}"),
            &name,
            Some("1.0.0"),
        ));
    }
    bench.create_with("sender", first).await;
    bench.start("mine").await;
    let turn = offered(&bench, &[OWN], "mine").await;
    bench.commit(&turn, Commit::first()).await;
    passed_over(&bench, &[OWN]).await;
    offered(&bench, &[("Foreign0", "1.0.0")], "foreign-0").await;
}

/// Who names no handlers is offered everything, through either door.
pub async fn a_node_that_names_no_handlers_is_offered_everything<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("a").await;
    bench.send(items::start_of("b", OTHER.0, None)).await;
    bench.turn_of("a").await;
    bench.claimed("b").await;
}

/// A node must have the handler and be able to replay the execution.
pub async fn a_handler_does_not_replace_the_filter<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().pinned("2.0.0");
    bench.create_with("pinned", first).await;
    bench.send(items::signal("pinned", "go")).await;
    let replays = |major| DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![SemverRange::new(
            Version::new(major, 0, 0),
            Version::new(major, 9, 9),
        )],
    };
    for (major, handlers, found) in [
        (1, node(&[OWN]), false),
        (2, node(&[OTHER]), false),
        (2, node(&[OWN]), true),
    ] {
        let claim = TurnClaim {
            filter: Some(replays(major)),
            handlers,
            ..bench.ask()
        };
        let claimed = bench.claim_turns(claim).await;
        assert_eq!(claimed.len(), usize::from(found), "engine {major}");
    }
}
