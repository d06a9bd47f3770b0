//! The custom status of an instance and its version.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, kinds};

type Status = Option<(Option<String>, u64)>;

async fn seen<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, last_seen: u64) -> Status {
    let answer = bench.store.get_custom_status("shown", last_seen).await;
    answer.expect("no error")
}

fn at(value: Option<&str>, version: u64) -> Status {
    Some((value.map(Into::into), version))
}

/// Sets the status in a commit of its own; the event ids go on from the version.
async fn set<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: u64, value: Option<&str>) {
    let commit = Commit::to(1).event(id, kinds::custom_status(value));
    bench.nudge("shown", commit).await;
}

/// A status that was set is read with version 1.
pub async fn test_custom_status_set<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::custom_status(Some("draft")))
        .and(kinds::custom_status(Some("ready")));
    bench.create_with("shown", first).await;
    assert_eq!(
        seen(&bench, 0).await,
        at(Some("ready"), 1),
        "the last of a commit counts"
    );
}

/// A status that was cleared is read as nothing, with version 2.
pub async fn test_custom_status_clear<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("shown").await;
    set(&bench, 2, Some("busy")).await;
    set(&bench, 3, None).await;
    assert_eq!(seen(&bench, 0).await, at(None, 2));
}

/// A commit that says nothing about the status changes nothing.
pub async fn test_custom_status_none_preserves<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("shown").await;
    set(&bench, 2, Some("busy")).await;
    let other = Commit::to(1).event(3, kinds::activity_scheduled("A"));
    bench.nudge("shown", other).await;
    assert_eq!(seen(&bench, 0).await, at(Some("busy"), 1));
}

/// Each change counts one version, clearing included.
pub async fn test_custom_status_version_increments<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("shown").await;
    for (version, value) in [(1, Some("a")), (2, Some("b")), (3, None)] {
        set(&bench, version + 1, value).await;
        assert_eq!(seen(&bench, 0).await, at(value, version));
    }
}

/// A reader that has seen the version gets nothing, one that has not gets the status.
pub async fn test_custom_status_polling_no_change<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("shown").await;
    set(&bench, 2, Some("a")).await;
    set(&bench, 3, Some("b")).await;
    assert_eq!(seen(&bench, 1).await, at(Some("b"), 2));
    assert_eq!(seen(&bench, 2).await, None);
    assert_eq!(seen(&bench, 99).await, None);
}

/// A stranger has no status, which is no error.
pub async fn test_custom_status_nonexistent_instance<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert_eq!(seen(&bench, 0).await, None);
}

/// A new instance has no status.
pub async fn test_custom_status_default_on_new_instance<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("shown").await;
    assert_eq!(seen(&bench, 0).await, None);
}
