//! Where an instance stands, without its history.

use duroxide_core::ErrorDetails;
use duroxide_core::provider::{InstanceOutcome, OutcomeStatus};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, kinds};

async fn outcome<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    instance: &str,
) -> Option<InstanceOutcome> {
    let outcome = bench.store.read_outcome(instance).await;
    outcome.expect("an outcome can be read")
}

async fn status<F: ProviderFactory + ?Sized>(factory: &F, first: Commit) -> OutcomeStatus {
    let bench = Bench::open(factory).await;
    bench.create_with("asked", first).await;
    outcome(&bench, "asked").await.expect("it is known").status
}

/// A stranger has no outcome, and a queued start is a stranger.
pub async fn a_stranger_has_no_outcome<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert_eq!(outcome(&bench, "nobody").await, None);
    bench.start("queued").await;
    assert_eq!(outcome(&bench, "queued").await, None);
}

/// A running instance is running.
pub async fn a_running_instance_is_running<F: ProviderFactory + ?Sized>(factory: &F) {
    assert_eq!(
        status(factory, Commit::first()).await,
        OutcomeStatus::Running
    );
}

/// A completed instance tells its value, the empty one included.
pub async fn a_completed_instance_tells_its_value<F: ProviderFactory + ?Sized>(factory: &F) {
    for value in ["42", ""] {
        let expected = OutcomeStatus::Completed {
            output: value.into(),
        };
        assert_eq!(
            status(factory, Commit::first().completed(value)).await,
            expected
        );
    }
}

/// A failed instance tells why, in full.
pub async fn a_failed_instance_tells_why<F: ProviderFactory + ?Sized>(factory: &F) {
    let expected = OutcomeStatus::Failed {
        details: ErrorDetails::orchestration_failed("it broke"),
    };
    assert_eq!(
        status(factory, Commit::first().failed("it broke")).await,
        expected
    );
}

/// Between two executions an instance is running.
pub async fn between_executions_an_instance_is_running<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("moving", Commit::first().continued("next"))
        .await;
    let between = outcome(&bench, "moving").await.expect("it is known");
    assert_eq!(between.status, OutcomeStatus::Running);
    bench
        .next_execution("moving", Commit::first_of(2).completed("ok"))
        .await;
    let end = outcome(&bench, "moving").await.expect("it is known");
    assert_eq!(end.execution_id, 2);
    assert_eq!(
        end.status,
        OutcomeStatus::Completed {
            output: "ok".into()
        }
    );
}

/// The custom status comes with its version, after continue-as-new too.
pub async fn the_custom_status_comes_with_the_outcome<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("shown").await;
    let plain = outcome(&bench, "shown").await.expect("it is known");
    assert_eq!(
        (plain.custom_status, plain.custom_status_version),
        (None, 0)
    );
    let set = Commit::to(1)
        .event(2, kinds::custom_status(Some("busy")))
        .continued("next");
    bench.nudge("shown", set).await;
    bench.next_execution("shown", Commit::first_of(2)).await;
    let shown = outcome(&bench, "shown").await.expect("it is known");
    assert_eq!(shown.custom_status.as_deref(), Some("busy"));
    assert_eq!(shown.custom_status_version, 1);
}

/// Each execution has the handler it began with.
pub async fn each_execution_names_its_handler<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("moved", Commit::first().continued("next"))
        .await;
    let second = Commit::to(2)
        .event(1, kinds::started_as(NAME, "2.0.0"))
        .named(NAME, "2.0.0");
    bench.next_execution("moved", second).await;
    let handler = |execution| bench.store.execution_handler("moved", execution);
    let expected = |version: &str| Ok(Some((NAME.to_owned(), version.to_owned())));
    assert_eq!(handler(1).await, expected("1.0.0"));
    assert_eq!(handler(2).await, expected("2.0.0"));
    assert_eq!(handler(3).await, Ok(None));
    assert_eq!(bench.store.execution_handler("nobody", 1).await, Ok(None));
}
