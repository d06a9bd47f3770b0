//! A snapshot has everything, and a restored one equals it.

use std::collections::BTreeSet;

use duroxide_core::provider::{InstanceQuery, ScheduledActivityIdentifier};
use duroxide_core::{LabelChange, Labels, StartExtras};

use super::{moved, restore, snapshot};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, VERSION, items, kinds};

/// Executions with their events, key-values of both layers, custom status, times and lives: the snapshot has all of it,
/// and the same in both stores.
pub async fn a_restored_instance_is_equal<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .pinned("0.2.0")
        .and(kinds::kv_set("kept", "é \u{1} \"1\""))
        .and(kinds::kv_set("gone", "soon"))
        .and(kinds::custom_status(Some("half")));
    bench
        .create_with(
            "full",
            first
                .continued("next")
                .message(items::next_execution("full")),
        )
        .await;
    let second = Commit::first_of(2)
        .and(kinds::kv_clear("gone"))
        .and(kinds::kv_set("new", "2"))
        .and(kinds::custom_status(None));
    bench.advance("full", second).await;
    let told = snapshot(&bench, "full").await;
    let record = told.record.clone().expect("it has begun");
    assert_eq!(
        (record.name.as_str(), record.version.as_deref()),
        (NAME, Some(VERSION))
    );
    assert_eq!((record.execution_id, record.custom_status_version), (2, 2));
    assert_eq!((record.custom_status, record.parent), (None, None));
    assert!(record.incarnation.is_some(), "a life is told");
    let numbers: Vec<_> = told.executions.iter().map(|it| it.execution_id).collect();
    assert_eq!(numbers, [1, 2]);
    let statuses: Vec<_> = told
        .executions
        .iter()
        .map(|it| it.status.as_deref())
        .collect();
    assert_eq!(statuses, [Some("ContinuedAsNew"), Some("Running")]);
    assert_eq!(told.executions[0].engine_version.as_deref(), Some("0.2.0"));
    assert!(told.executions[0].ended_at_ms.is_some() && told.executions[1].ended_at_ms.is_none());
    let events: Vec<_> = told.executions.iter().map(|it| it.events.len()).collect();
    assert_eq!(events, [5, 4]);
    let keys =
        |values: &[duroxide_core::provider::KeyValueRecord]| -> Vec<(String, Option<String>)> {
            values
                .iter()
                .map(|it| (it.key.clone(), it.value.clone()))
                .collect()
        };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        keys(&told.key_values),
        [
            ("gone".to_owned(), text("soon")),
            ("kept".to_owned(), text("é \u{1} \"1\""))
        ]
    );
    assert_eq!(
        keys(&told.key_value_changes),
        [("gone".to_owned(), None), ("new".to_owned(), text("2"))]
    );

    let other = moved(&bench, &["full"]).await;
    for execution in [1, 2] {
        assert_eq!(
            other.read_execution("full", execution).await,
            bench.read_execution("full", execution).await
        );
    }
    let info = |bench: &Bench<'_, F>| {
        let admin = bench.store.clone();
        async move {
            let admin = admin
                .as_management_capability()
                .expect("an administrative half");
            admin.get_instance_info("full").await.expect("it exists")
        }
    };
    assert_eq!(
        format!("{:?}", info(&other).await),
        format!("{:?}", info(&bench).await)
    );
    let values = other.store.get_kv_all_values("full").await.expect("values");
    assert_eq!(
        values,
        bench.store.get_kv_all_values("full").await.expect("values")
    );
    assert_eq!(
        other.incarnation_of("full").await,
        bench.incarnation_of("full").await
    );
}

/// A restored instance reports how it ended, and is found by that, as before.
pub async fn a_finished_instance_is_restored_as_it_ended<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("done", Commit::first().completed("42"))
        .await;
    bench
        .create_with("failed", Commit::first().failed("broke"))
        .await;
    let other = moved(&bench, &["done", "failed"]).await;
    for id in ["done", "failed"] {
        let before = bench.store.read_outcome(id).await.expect("an outcome");
        assert!(before.is_some());
        assert_eq!(
            other.store.read_outcome(id).await.expect("an outcome"),
            before
        );
        let told = snapshot(&other, id).await;
        let current = told.current().expect("its execution");
        assert!(current.ended_at_ms.is_some() && current.output.is_some());
    }
    let page = other.admin().list_instances_by_status("Failed").await;
    assert_eq!(page.expect("a list"), ["failed"]);
    other.idle("what has ended has nothing to do").await;
}

/// Labels of the code and of an operator come along.
pub async fn labels_come_along<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("labelled").await;
    let change = |key: &str| LabelChange {
        key: key.to_owned(),
        value: Some("blue".to_owned()),
    };
    let changed = bench
        .admin()
        .change_labels("labelled", &[change("team")])
        .await;
    changed.expect("an answer");
    let other = moved(&bench, &["labelled"]).await;
    let labels = other.admin().labels("labelled").await.expect("labels");
    assert_eq!(
        labels,
        Labels::from([("team".to_owned(), "blue".to_owned())])
    );
}

/// The memo of a start is shown where it is restored.
pub async fn a_memo_comes_along<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let given = StartExtras::default()
        .with_memo("for Ada")
        .expect("it is short");
    let (queue, data) = given.carried().expect("it is something");
    let first = Commit::to(1)
        .event(1, kinds::started_carrying(&[(&queue, &data)]))
        .named(NAME, VERSION);
    bench.create_with("noted", first).await;
    let other = moved(&bench, &["noted"]).await;
    let page = other.admin().query_instances(&InstanceQuery::new()).await;
    let [shown] = &page.expect("a page").items[..] else {
        panic!("one instance");
    };
    assert_eq!(shown.memo, given.memo);
}

/// What an activity said last is found by the next attempt in the other store.
pub async fn heartbeats_come_along<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().and(kinds::activity_scheduled("TestActivity"));
    bench
        .create_with("said", first.work(items::activity("said", 2)))
        .await;
    let work = bench.work().await;
    let kept = bench
        .store
        .heartbeat_work_item(&work.token, bench.lock, 2, "half way");
    assert!(kept.await.expect("a valid lease"));
    let other = moved(&bench, &["said"]).await;
    let call = ScheduledActivityIdentifier {
        instance: "said".to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    let said = other.store.last_heartbeat(&call).await.expect("an answer");
    assert_eq!(said.as_deref(), Some("half way"));
}

/// Dead letters come along with their reason and their time.
pub async fn dead_letters_come_along<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("letters").await;
    bench.send(items::signal("letters", "bad")).await;
    let turn = bench.turn_of("letters").await;
    let dead_lettered = bench
        .store
        .dead_letter_messages(&turn.token, &[0], "it is bad");
    assert!(dead_lettered.await.expect("a valid lease"));
    bench.commit(&turn, Commit::to(1)).await;
    let other = moved(&bench, &["letters"]).await;
    let before = bench.admin().list_dead_letters(9).await.expect("letters");
    let after = other.admin().list_dead_letters(9).await.expect("letters");
    let [before, after] = [&before, &after].map(|letters| match &letters[..] {
        [letter] => letter.clone(),
        others => panic!("one letter: {others:?}"),
    });
    assert_eq!(
        (&after.reason, &after.payload),
        (&before.reason, &before.payload)
    );
    assert_eq!(
        (&after.instance_id, after.dead_lettered_at_ms),
        (&before.instance_id, before.dead_lettered_at_ms)
    );
}

/// Instances, ids that only have messages, and ids that only have dead letters: page by page, each is listed.
pub async fn everything_that_is_held_is_listed<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in ["one", "two", "three"] {
        bench.create(id).await;
    }
    let hour = std::time::Duration::from_secs(3_600);
    bench.send_after(items::start("to come"), Some(hour)).await;
    bench.schedule(items::activity("only work", 1)).await;
    bench.start("only letters").await;
    let turn = bench.turn_of("only letters").await;
    let dead_lettered = bench
        .store
        .dead_letter_messages(&turn.token, &[0], "it is bad");
    assert!(dead_lettered.await.expect("a valid lease"));
    let mut found = BTreeSet::new();
    let mut after = None;
    for _ in 0..20 {
        let page = bench.admin().held_ids(after.as_deref(), 2).await;
        let page = page.expect("an answer").expect("the store can tell");
        assert!(
            page.ids.len() <= 3,
            "a page is as long as asked for: {page:?}"
        );
        found.extend(page.ids);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(after, None, "there is a last page");
    let held = [
        "one",
        "only letters",
        "only work",
        "three",
        "to come",
        "two",
    ];
    assert_eq!(found, held.map(str::to_owned).into());
    for id in held {
        assert!(
            !snapshot(&bench, id).await.is_empty(),
            "there is something of {id}"
        );
    }
    assert!(snapshot(&bench, "nobody").await.is_empty());
}

/// A snapshot has claimed messages and activities as queued ones, and they can be claimed at once where they are
/// restored.
pub async fn leases_are_no_part_of_a_snapshot<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().and(kinds::activity_scheduled("TestActivity"));
    bench
        .create_with("held", first.work(items::session_activity("held", 2, "s")))
        .await;
    bench.send(items::signal("held", "go")).await;
    let _turn = bench.turn_of("held").await;
    let _work = bench.work_as("an owner").await;
    let taken = snapshot(&bench, "held").await;
    let other = Bench::open(factory).await;
    restore(&other, &taken).await;
    let turn = other.turn_of("held").await;
    assert_eq!(turn.attempt, 2, "the first attempt stays counted");
    let work = other.work_as("another owner").await;
    assert_eq!(work.attempt, 2, "the first attempt stays counted");
}
