//! Which instances a query admits, and what it says of them.

use duroxide_core::EventKind;
use duroxide_core::provider::{InstanceQuery, InstanceStatus, TimeRange};

use super::{found, page};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, VERSION, items, kinds};

fn named(name: &str, version: &str) -> Commit {
    let started = Commit::to(1).event(1, kinds::started_as(name, version));
    started.named(name, version)
}

/// Status, name and version, each alone and together.
pub async fn a_query_admits_what_all_its_criteria_admit<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create_with("a", named("order", "1.0.0")).await;
    let done = named("order", "2.0.0").completed("ok");
    bench.create_with("b", done).await;
    let broken = named("order", "2.0.0").failed("no");
    bench.create_with("c", broken).await;
    let continued = named("invoice", "1.0.0").continued("next");
    bench.create_with("d", continued).await;

    let all = InstanceQuery::new;
    assert_eq!(found(&bench, &all()).await, ["a", "b", "c", "d"]);
    for (status, expected) in [
        (InstanceStatus::Running, vec!["a"]),
        (InstanceStatus::Completed, vec!["b"]),
        (InstanceStatus::Failed, vec!["c"]),
        (InstanceStatus::ContinuedAsNew, vec!["d"]),
        (InstanceStatus::Unknown, vec![]),
    ] {
        let query = all().with_status(status);
        assert_eq!(found(&bench, &query).await, expected, "{status}");
    }
    let ended = all()
        .with_status(InstanceStatus::Completed)
        .with_status(InstanceStatus::Failed);
    assert_eq!(found(&bench, &ended).await, ["b", "c"], "either");
    let orders = all().with_name("order");
    assert_eq!(found(&bench, &orders).await, ["a", "b", "c"]);
    let old = all().with_version("1.0.0");
    assert_eq!(found(&bench, &old).await, ["a", "d"]);
    let failed_orders = orders.with_version("2.0.0");
    let failed_orders = failed_orders.with_status(InstanceStatus::Failed);
    assert_eq!(found(&bench, &failed_orders).await, ["c"]);
    let nobody: [&str; 0] = [];
    assert_eq!(found(&bench, &all().with_name("ord")).await, nobody);
}

/// Characters that other languages take for wildcards are taken as they are, and so is the case of letters.
pub async fn an_id_prefix_is_no_pattern<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in ["a%b", "a_b", "a*b", "axb", "Axb", "a", "ä1", "ä"] {
        bench.create(id).await;
    }
    for (prefix, expected) in [
        ("", vec!["Axb", "a", "a%b", "a*b", "a_b", "axb", "ä", "ä1"]),
        ("a", vec!["a", "a%b", "a*b", "a_b", "axb"]),
        ("a%", vec!["a%b"]),
        ("a_", vec!["a_b"]),
        ("a*", vec!["a*b"]),
        ("ä", vec!["ä", "ä1"]),
        ("zz", vec![]),
    ] {
        let query = InstanceQuery::new().with_id_prefix(prefix);
        assert_eq!(found(&bench, &query).await, expected, "{prefix}");
    }
}

/// Children by their parent; a whole family by its root; roots alone.
pub async fn families_are_found_by_parent_and_root<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("root").await;
    bench.create("stranger").await;
    for (child, parent) in [
        ("child-1", "root"),
        ("child-2", "root"),
        ("grandchild", "child-1"),
    ] {
        bench.create_child(child, parent, Commit::first()).await;
    }
    let all = InstanceQuery::new;
    let children = all().with_parent("root");
    assert_eq!(found(&bench, &children).await, ["child-1", "child-2"]);
    let family = all().with_root("root");
    let expected = ["child-1", "child-2", "grandchild", "root"];
    assert_eq!(found(&bench, &family).await, expected);
    let branch = all().with_root("child-1");
    assert_eq!(found(&bench, &branch).await, ["child-1", "grandchild"]);
    let both = all().with_root("root").with_parent("child-1");
    assert_eq!(found(&bench, &both).await, ["grandchild"]);
    let roots = all().with_roots_only();
    assert_eq!(found(&bench, &roots).await, ["root", "stranger"]);
    let nobody: [&str; 0] = [];
    assert_eq!(found(&bench, &all().with_root("nobody")).await, nobody);
    assert_eq!(found(&bench, &all().with_parent("nobody")).await, nobody);
}

/// The beginning of a range belongs to it and its end does not; what has not ended has no end.
pub async fn times_bound_a_query<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("early").await;
    bench.pass(bench.brief()).await;
    bench.create("late").await;
    bench.pass(bench.brief()).await;
    bench.send(items::signal("early", "go")).await;
    let end = Commit::to(1).event(2, kinds::completed("ok"));
    bench
        .advance("early", end.status("Completed", Some("ok")))
        .await;

    let of = |id: &'static str| InstanceQuery::new().with_id_prefix(id);
    let early = page(&bench, &of("early")).await.items.remove(0);
    let late = page(&bench, &of("late")).await.items.remove(0);
    assert!(early.created_at_ms < late.created_at_ms);
    assert!(early.updated_at_ms > late.updated_at_ms);
    let ended_at = early.ended_at_ms.expect("it ended");

    let all = InstanceQuery::new;
    let from = TimeRange::from;
    let until = TimeRange::until;
    let nobody: [&str; 0] = [];
    let created = late.created_at_ms;
    assert_eq!(
        found(&bench, &all().with_created(from(created))).await,
        ["late"]
    );
    assert_eq!(
        found(&bench, &all().with_created(until(created))).await,
        ["early"]
    );
    let updated = early.updated_at_ms;
    assert_eq!(
        found(&bench, &all().with_updated(from(updated))).await,
        ["early"]
    );
    assert_eq!(
        found(&bench, &all().with_updated(until(updated))).await,
        ["late"]
    );
    assert_eq!(
        found(&bench, &all().with_ended(from(ended_at))).await,
        ["early"]
    );
    assert_eq!(
        found(&bench, &all().with_ended(until(ended_at))).await,
        nobody
    );
    assert_eq!(
        found(&bench, &all().with_ended(from(0))).await,
        ["early"],
        "late has no end"
    );
}

/// A list needs no second question per line.
pub async fn a_summary_tells_what_a_list_shows<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let began = bench.now_ms();
    bench.create("root").await;
    let first = Commit::first().and(kinds::custom_status(Some("half way")));
    bench.create_child("child", "root", first).await;
    bench.pass(bench.brief()).await;
    let done = Commit::to(1)
        .event(3, EventKind::TimerCreated { fire_at_ms: 1 })
        .and(kinds::completed("ok"));
    bench
        .nudge("child", done.status("Completed", Some("ok")))
        .await;

    let query = InstanceQuery::new().with_id_prefix("child");
    let child = page(&bench, &query).await.items.remove(0);
    assert_eq!(child.instance_id, "child");
    assert_eq!(
        (child.name.as_str(), child.version.as_str()),
        (NAME, VERSION)
    );
    assert_eq!(child.status, InstanceStatus::Completed);
    assert_eq!(child.custom_status.as_deref(), Some("half way"));
    assert_eq!(child.execution_id, 1);
    assert_eq!(child.parent.as_deref(), Some("root"));
    assert_eq!(child.event_count, 4);
    assert!(child.created_at_ms >= began);
    assert!(child.updated_at_ms > child.created_at_ms);
    let ended_at = child.ended_at_ms.expect("it ended");
    assert!(ended_at > child.created_at_ms && ended_at <= bench.now_ms());
    let root = InstanceQuery::new().with_roots_only();
    let root = page(&bench, &root).await.items.remove(0);
    assert_eq!(root.status, InstanceStatus::Running);
    assert_eq!(
        (root.custom_status, root.ended_at_ms, root.parent),
        (None, None, None)
    );

    // What a later execution has is told of it, and not of the first.
    bench
        .nudge(
            "root",
            Commit::to(1)
                .event(2, kinds::continued("next"))
                .status("ContinuedAsNew", Some("next")),
        )
        .await;
    bench.next_execution("root", Commit::first_of(2)).await;
    let root = InstanceQuery::new().with_roots_only();
    let root = page(&bench, &root).await.items.remove(0);
    assert_eq!((root.execution_id, root.event_count), (2, 1));
    assert_eq!(root.status, InstanceStatus::Running);
}

/// An instance that lost a message can be found by it.
pub async fn instances_with_dead_letters_are_found<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in ["healthy", "hurt"] {
        bench.create(id).await;
    }
    let query = InstanceQuery::new().with_dead_letters();
    let nobody: [&str; 0] = [];
    assert_eq!(found(&bench, &query).await, nobody);
    bench.send(items::signal("hurt", "bad")).await;
    let turn = bench.turn_of("hurt").await;
    let moved = bench
        .store
        .dead_letter_messages(&turn.token, &[0], "it is bad");
    assert!(moved.await.expect("a message can be dead-lettered"));
    assert_eq!(found(&bench, &query).await, ["hurt"]);
}
