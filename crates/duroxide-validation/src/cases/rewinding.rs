//! An instance that failed begins another execution with a part of the failed record.

use std::collections::BTreeMap;

use duroxide_core::provider::{
    DispatcherCapabilityFilter, InstanceQuery, OutcomeStatus, ScheduledActivityIdentifier,
    SemverRange,
};
use duroxide_core::rewind::{ChildStanding, RewindPoint, plan};
use duroxide_core::{LabelChange, Rewound};
use semver::Version;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

const LABEL: &str = "duroxide:label:stage";

async fn value<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, key: &str) -> Option<String> {
    let one = bench.store.get_kv_value("again", key).await;
    let all = bench.store.get_kv_all_values("again").await;
    let (one, all) = (one.expect("a value"), all.expect("values"));
    assert_eq!(one.as_ref(), all.get(key), "both reads agree on `{key}`");
    one
}

/// Claims `again`, looks at the key-values that an execution would begin with, and gives it back.
async fn base<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> BTreeMap<String, String> {
    bench.send(items::signal("again", "look")).await;
    let turn = bench.turn_of("again").await;
    bench.abandon_uncounted(&turn).await;
    let entries = turn.item.kv_snapshot.into_iter();
    entries.map(|(key, entry)| (key, entry.value)).collect()
}

/// Rewinds `again` to this event.
async fn rewind<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, from: u64) {
    let history = bench.read("again").await;
    let rewind = plan(&history, RewindPoint::Event(from)).expect("it failed");
    let next = Commit::to(rewind.execution_id()).named("Again", "1.0.0");
    let (events, _) = rewind.decided(|_| ChildStanding::Running, Vec::new(), 0);
    let kinds = events.into_iter().map(|event| (event.event_id, event.kind));
    let commit = kinds.fold(next, |commit, (id, kind)| commit.event(id, kind));
    bench.nudge("again", commit).await;
}

/// After a failure a commit begins another execution: the instance runs again, and the failed record stays.
pub async fn a_failed_instance_begins_another_execution<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("again", Commit::first().failed("broken"))
        .await;
    let failed = bench.read("again").await;
    let scheduled = Commit::first_of(2)
        .and(kinds::activity_scheduled("A"))
        .work(items::activity("again", 2));
    bench.nudge("again", scheduled).await;
    assert_eq!(bench.read_execution("again", 1).await, failed);
    assert_eq!(bench.read("again").await.len(), 2);
    let info = bench.admin().get_instance_info("again").await;
    let info = info.expect("it is known");
    assert_eq!(
        (info.current_execution_id, info.status.as_str()),
        (2, "Running")
    );
    let outcome = bench.store.read_outcome("again").await.expect("an answer");
    let outcome = outcome.expect("it is known");
    assert_eq!(
        (outcome.execution_id, outcome.status),
        (2, OutcomeStatus::Running)
    );
    let page = bench
        .admin()
        .query_instances(&InstanceQuery::default())
        .await;
    let found = page.expect("an answer").items;
    assert_eq!(found.len(), 1);
    assert!(
        !found[0].status.is_ended() && found[0].ended_at_ms.is_none(),
        "it runs"
    );
    let running = bench.admin().count_running_instances().await;
    assert_eq!(running.expect("an answer"), 1);
    let work = bench.work().await;
    bench.finish(&work).await;
    let turn = bench.turn_of("again").await;
    assert_eq!((turn.item.execution_id, turn.item.history.len()), (2, 2));
    bench
        .commit(
            &turn,
            Commit::to(2)
                .event(3, kinds::completed("ok"))
                .status("Completed", Some("ok")),
        )
        .await;
    let outcome = bench.store.read_outcome("again").await.expect("an answer");
    let ended = OutcomeStatus::Completed {
        output: "ok".into(),
    };
    assert_eq!(outcome.map(|it| it.status), Some(ended));
}

/// Clients read what a failed execution changed; the next one begins without it, and from then on no client reads it.
pub async fn changes_of_a_failed_execution_are_not_built_on<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("a", "1"))
        .and(kinds::kv_set("b", "1"));
    bench.create_with("again", first.continued("next")).await;
    let second = Commit::first_of(2)
        .and(kinds::kv_set("a", "2"))
        .and(kinds::kv_clear("b"));
    bench
        .next_execution(
            "again",
            second.and(kinds::kv_set("c", "2")).failed("broken"),
        )
        .await;
    assert_eq!(value(&bench, "a").await.as_deref(), Some("2"));
    assert_eq!(value(&bench, "b").await, None);
    assert_eq!(value(&bench, "c").await.as_deref(), Some("2"));
    let before = BTreeMap::from([("a".into(), "1".into()), ("b".into(), "1".into())]);
    assert_eq!(
        base(&bench).await,
        before,
        "what the failed execution began with"
    );
    let third = Commit::first_of(3).and(kinds::kv_set("d", "3"));
    bench.advance("again", third).await;
    assert_eq!(
        base(&bench).await,
        before,
        "the next one begins with the same"
    );
    for (key, expected) in [
        ("a", Some("1")),
        ("b", Some("1")),
        ("c", None),
        ("d", Some("3")),
    ] {
        assert_eq!(value(&bench, key).await.as_deref(), expected, "{key}");
    }
    let end = Commit::to(3).event(3, kinds::completed("ok"));
    bench
        .advance("again", end.status("Completed", Some("ok")))
        .await;
    assert_eq!(base(&bench).await.get("d").map(String::as_str), Some("3"));
}

/// Custom status and labels are those of the kept part of the record; what an operator changed since stays.
pub async fn status_and_labels_are_as_they_were<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::custom_status(Some("kept")))
        .and(kinds::kv_set(LABEL, "kept"))
        .and(kinds::kv_set("duroxide:label:other", "kept"))
        .and(kinds::custom_status(Some("dropped")))
        .and(kinds::kv_set(LABEL, "dropped"))
        .and(kinds::kv_set("duroxide:label:new", "dropped"));
    bench.create_with("again", first.failed("broken")).await;
    let operators = [LabelChange::set("other", "changed")];
    let told = bench.admin().change_labels("again", &operators).await;
    assert!(told.expect("an answer").is_some());
    rewind(&bench, 5).await;
    let status = bench.store.get_custom_status("again", 1).await;
    let (status, version) = status.expect("an answer").expect("it changed again");
    assert_eq!(status.as_deref(), Some("kept"));
    assert!(version > 1, "who watches the status hears of it");
    let labels = bench.admin().labels("again").await.expect("labels");
    let expected = [("other", "changed"), ("stage", "kept")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(labels, BTreeMap::from(expected));
    assert!(Rewound::of(&bench.read("again").await).is_some());
}

/// Without a status in the kept part it is the one that the execution began with.
pub async fn a_status_of_the_dropped_part_is_gone<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().and(kinds::custom_status(Some("dropped")));
    bench.create_with("again", first.failed("broken")).await;
    rewind(&bench, 2).await;
    let status = bench.store.get_custom_status("again", 1).await;
    let status = status.expect("an answer").map(|(status, _)| status);
    assert_eq!(status, Some(None), "it was cleared");
}

/// What an activity of the failed execution said last is there for the execution that asks for it anew.
pub async fn what_a_call_said_outlasts_a_rewind<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let scheduled = Commit::first()
        .and(kinds::activity_scheduled("A"))
        .work(items::activity("again", 2));
    bench.create_with("again", scheduled).await;
    let work = bench.work().await;
    let said = bench
        .store
        .heartbeat_work_item(&work.token, bench.lock, 2, "half")
        .await;
    assert_eq!(said, Ok(true));
    bench.finish(&work).await;
    let end = Commit::to(1).event(3, kinds::failed("broken"));
    bench
        .advance("again", end.status("Failed", Some("broken")))
        .await;
    rewind(&bench, 3).await;
    let last = |execution_id| {
        let call = ScheduledActivityIdentifier {
            instance: "again".to_owned(),
            execution_id,
            activity_id: 2,
        };
        let store = &bench.store;
        async move { store.last_heartbeat(&call).await.expect("an answer") }
    };
    assert_eq!(last(1).await.as_deref(), Some("half"));
    assert_eq!(last(2).await, None, "each execution says its own");
}

/// The execution that goes on has the pinned version of the engine that began it, whatever the failed one had.
pub async fn a_rewound_execution_has_its_own_pinned_version<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().pinned("1.0.0");
    bench.create_with("again", first.failed("broken")).await;
    bench
        .nudge("again", Commit::first_of(2).pinned("2.0.0"))
        .await;
    bench.send(items::signal("again", "look")).await;
    for (major, expected) in [(1, false), (2, true)] {
        let version = |minor| Version::new(major, minor, 0);
        let filter = DispatcherCapabilityFilter {
            supported_duroxide_versions: vec![SemverRange::new(version(0), version(9))],
        };
        let found = bench.claim_matching(&filter).await;
        assert_eq!(found.is_some(), expected, "by a node of version {major}");
    }
}
