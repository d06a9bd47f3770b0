//! Labels: given at the start, changed by the code and by an operator, found by queries.

use duroxide_core::provider::{InstanceCount, InstanceQuery, Labelling, SortKey, SortOrder};
use duroxide_core::{
    EventKind, LABELS_MAX, LabelChange, Labels, carried_labels, recorded_label_key,
};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, VERSION, items, kinds};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

/// The first turn of an execution that begins with labels.
fn labelled(execution: u64, pairs: &[(&str, &str)]) -> Commit {
    let (queue, data) = carried_labels(&labels(pairs)).expect("there are some");
    Commit::to(execution)
        .event(1, kinds::started_carrying(&[(&queue, &data)]))
        .named(NAME, VERSION)
}

fn set(key: &str, value: &str) -> EventKind {
    kinds::kv_set(&recorded_label_key(key), value)
}

fn remove(key: &str) -> EventKind {
    kinds::kv_clear(&recorded_label_key(key))
}

async fn of<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> Labels {
    let told = bench.admin().labels(id).await;
    told.expect("an answer")
}

async fn change<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    id: &str,
    changes: &[LabelChange],
) -> Labelling {
    let told = bench.admin().change_labels(id, changes).await;
    told.expect("an answer")
        .expect("the store can change labels")
}

/// The labels that come with the first event of a new instance are its labels; others have none.
pub async fn an_instance_begins_with_its_labels<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let pairs = [
        ("team", "blue"),
        ("note", "é, \"quoted\" 'n = 1"),
        ("empty", ""),
    ];
    bench.create_with("labelled", labelled(1, &pairs)).await;
    bench.create("plain").await;
    assert_eq!(of(&bench, "labelled").await, labels(&pairs));
    assert_eq!(of(&bench, "plain").await, Labels::new());
    assert_eq!(of(&bench, "stranger").await, Labels::new());
}

/// Key-values under the reserved prefix change labels, in the order of the events, and clearing all key-values leaves
/// them.
pub async fn the_code_sets_and_removes_labels<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = labelled(1, &[("team", "blue"), ("shift", "day")]);
    let first = first.and(set("team", "red")).and(set("new", "1"));
    bench.create_with("order", first).await;
    let expected = labels(&[("team", "red"), ("shift", "day"), ("new", "1")]);
    assert_eq!(of(&bench, "order").await, expected);
    let next = Commit::to(1)
        .event(4, remove("shift"))
        .and(set("new", "2"))
        .and(kinds::kv_clear_all())
        .and(remove("never there"));
    bench.nudge("order", next).await;
    let expected = labels(&[("team", "red"), ("new", "2")]);
    assert_eq!(of(&bench, "order").await, expected);
}

/// The next execution repeats what the code knows; the instance keeps it, also when the execution before was pruned.
pub async fn labels_last_over_executions<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = labelled(1, &[("team", "blue")]).and(set("round", "1"));
    bench.create_with("eternal", first).await;
    let end = Commit::to(1).event(3, kinds::continued("next"));
    let end = end.status("ContinuedAsNew", Some("next"));
    bench
        .nudge("eternal", end.message(items::next_execution("eternal")))
        .await;
    let kept = [("team", "blue"), ("round", "1")];
    assert_eq!(of(&bench, "eternal").await, labels(&kept), "in between");
    let turn = bench.turn_of("eternal").await;
    let second = labelled(2, &kept).and(set("round", "2"));
    bench.commit(&turn, second).await;
    let expected = labels(&[("team", "blue"), ("round", "2")]);
    assert_eq!(of(&bench, "eternal").await, expected);
    let options = duroxide_core::provider::PruneOptions {
        keep_last: Some(1),
        ..Default::default()
    };
    let pruned = bench.admin().prune_executions("eternal", options).await;
    pruned.expect("old executions can be pruned");
    assert_eq!(of(&bench, "eternal").await, expected);
}

/// An operator sets and removes labels of an instance that runs, or has ended; the answer says what it has then.
pub async fn an_operator_changes_labels<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let none = change(&bench, "stranger", &[LabelChange::set("a", "b")]).await;
    assert_eq!(none, Labelling::NoSuchInstance);
    let first = labelled(1, &[("team", "blue"), ("shift", "day")]);
    bench.create_with("order", first).await;
    let changes = [
        LabelChange::remove("shift"),
        LabelChange::set("team", "red"),
        LabelChange::set("seen", "yes"),
    ];
    let expected = labels(&[("team", "red"), ("seen", "yes")]);
    let done = change(&bench, "order", &changes).await;
    assert_eq!(done, Labelling::Done(expected.clone()));
    assert_eq!(of(&bench, "order").await, expected);
    let end = Commit::to(1).event(2, kinds::failed("it broke"));
    bench
        .nudge("order", end.status("Failed", Some("it broke")))
        .await;
    let done = change(&bench, "order", &[LabelChange::set("seen", "no")]).await;
    let expected = labels(&[("team", "red"), ("seen", "no")]);
    assert_eq!(done, Labelling::Done(expected.clone()));
    assert_eq!(of(&bench, "order").await, expected);
}

/// All changes are made, or none.
pub async fn too_many_labels_change_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("full", labelled(1, &[("team", "blue")]))
        .await;
    let many = |n: usize| -> Vec<LabelChange> {
        let fresh = (0..n).map(|i| LabelChange::set(format!("k{i}"), "v"));
        std::iter::once(LabelChange::set("team", "red"))
            .chain(fresh)
            .collect()
    };
    let refused = change(&bench, "full", &many(LABELS_MAX)).await;
    assert_eq!(refused, Labelling::TooMany(LABELS_MAX + 1));
    assert_eq!(of(&bench, "full").await, labels(&[("team", "blue")]));
    let done = change(&bench, "full", &many(LABELS_MAX - 1)).await;
    assert!(matches!(done, Labelling::Done(all) if all.len() == LABELS_MAX));
}

/// The next execution repeats what the code knew, which says nothing about what an operator did.
pub async fn an_operators_labels_outlive_executions<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let kept = [("team", "blue"), ("shift", "day")];
    bench.create_with("eternal", labelled(1, &kept)).await;
    let changes = [
        LabelChange::set("team", "red"),
        LabelChange::remove("shift"),
    ];
    change(&bench, "eternal", &changes).await;
    let end = Commit::to(1).event(2, kinds::continued("next"));
    let end = end.status("ContinuedAsNew", Some("next"));
    bench
        .nudge("eternal", end.message(items::next_execution("eternal")))
        .await;
    let turn = bench.turn_of("eternal").await;
    bench.commit(&turn, labelled(2, &kept)).await;
    assert_eq!(of(&bench, "eternal").await, labels(&[("team", "red")]));
}

/// Neither the code nor a client meets them among the key-values.
pub async fn labels_are_no_key_values<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = labelled(1, &[("team", "blue")]).and(set("round", "1"));
    bench.create_with("order", first).await;
    let values = bench.store.get_kv_all_values("order").await;
    assert!(values.expect("an answer").is_empty());
}

/// An instance that is deleted takes its labels with it.
pub async fn a_later_life_has_labels_of_its_own<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("again", labelled(1, &[("team", "blue")]))
        .await;
    assert_eq!(of(&bench, "again").await, labels(&[("team", "blue")]));
    let deleted = bench.admin().delete_instance("again", true).await;
    deleted.expect("it can be deleted");
    assert_eq!(of(&bench, "again").await, Labels::new());
    bench.create("again").await;
    assert_eq!(of(&bench, "again").await, Labels::new());
    let query = InstanceQuery::new().with_label("team", "blue");
    let page = bench.admin().query_instances(&query).await;
    assert!(page.expect("a page").items.is_empty());
}

async fn found<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    query: &InstanceQuery,
) -> Vec<String> {
    let page = bench.admin().query_instances(query).await;
    let ids = page.expect("a page").items.into_iter();
    let mut ids: Vec<_> = ids.map(|one| one.instance_id).collect();
    ids.sort();
    ids
}

/// Key and value are compared as they are; of several labels, all must be there. Summaries show them.
pub async fn a_query_finds_instances_by_label<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let both = [("team", "blue"), ("shift", "day")];
    bench.create_with("a", labelled(1, &both)).await;
    bench
        .create_with("b", labelled(1, &[("team", "blue")]))
        .await;
    bench
        .create_with("c", labelled(1, &[("team", "Blue")]))
        .await;
    bench
        .create_with("d", labelled(1, &[("blue", "team")]))
        .await;
    bench.create("e").await;
    let other = [("shift", "day"), ("team", "red")];
    bench.create_with("f", labelled(1, &other)).await;
    let by = |key: &str, value: &str| InstanceQuery::new().with_label(key, value);
    assert_eq!(found(&bench, &by("team", "blue")).await, ["a", "b"]);
    assert_eq!(found(&bench, &by("team", "blu")).await, [""; 0]);
    let query = by("team", "blue").with_label("shift", "day");
    assert_eq!(found(&bench, &query).await, ["a"]);
    let query = by("team", "blue").with_id_prefix("b");
    assert_eq!(found(&bench, &query).await, ["b"]);
    let page = bench.admin().query_instances(&InstanceQuery::new()).await;
    for one in page.expect("a page").items {
        let expected = of(&bench, &one.instance_id).await;
        assert_eq!(one.labels, expected, "{}", one.instance_id);
    }
}

/// More pages than any of these queries has.
const PAGES_MAX: usize = 20;

/// In every order.
pub async fn labelled_pages_meet_each_instance_once<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..7 {
        let team = if n % 3 == 0 { "red" } else { "blue" };
        bench
            .create_with(&format!("i{n}"), labelled(1, &[("team", team)]))
            .await;
    }
    for by in [SortKey::Created, SortKey::Updated] {
        for order in [SortOrder::NewestFirst, SortOrder::OldestFirst] {
            let mut query = InstanceQuery::new().with_label("team", "blue");
            query = query.sorted(by, order).with_page_size(2);
            let mut met = Vec::new();
            let mut next = None;
            for _ in 0..PAGES_MAX {
                let page = bench.admin().query_instances(&query).await;
                let page = page.expect("a page");
                met.extend(page.items.into_iter().map(|one| one.instance_id));
                next = page.next;
                let Some(next) = next.clone() else { break };
                query = query.after(next);
            }
            assert_eq!(next, None, "the pages end");
            met.sort();
            assert_eq!(met, ["i1", "i2", "i4", "i5"], "{by:?} {order:?}");
        }
    }
}

/// By value, the largest group first; what lacks the label, or is not admitted, is not counted.
pub async fn instances_are_counted_by_label<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for (id, team) in [
        ("a1", "red"),
        ("a2", "blue"),
        ("a3", "blue"),
        ("b1", "red"),
        ("b2", "red"),
    ] {
        bench.create_with(id, labelled(1, &[("team", team)])).await;
    }
    bench
        .create_with("a4", labelled(1, &[("shift", "day")]))
        .await;
    let count = |key: &str, count| InstanceCount {
        key: key.to_owned(),
        count,
    };
    let all = InstanceQuery::new();
    let counts = bench.admin().count_instances_by_label(&all, "team").await;
    assert_eq!(counts.expect("counts"), [count("red", 3), count("blue", 2)]);
    let some = all.with_id_prefix("a");
    let counts = bench.admin().count_instances_by_label(&some, "team").await;
    assert_eq!(counts.expect("counts"), [count("blue", 2), count("red", 1)]);
    let counts = bench
        .admin()
        .count_instances_by_label(&some, "nothing")
        .await;
    assert_eq!(counts.expect("counts"), []);
}

/// Those of the start and those of an operator.
pub async fn labels_outlive_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("order", labelled(1, &[("team", "blue")]))
        .await;
    change(&bench, "order", &[LabelChange::set("seen", "yes")]).await;
    let bench = bench.reopen().await;
    let expected = labels(&[("team", "blue"), ("seen", "yes")]);
    assert_eq!(of(&bench, "order").await, expected);
}
