//! Times, outputs and totals.

use std::time::Duration;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Times are real milliseconds on the store's clock.
pub async fn times_are_real_milliseconds<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let before = bench.now_ms();
    bench.create("timed").await;
    bench.pass(Duration::from_millis(20)).await;
    let middle = bench.now_ms();
    let end = Commit::to(1).event(2, kinds::completed("ok"));
    bench
        .nudge("timed", end.status("Completed", Some("ok")))
        .await;
    let after = bench.now_ms();

    let info = bench
        .admin()
        .get_instance_info("timed")
        .await
        .expect("details");
    assert!(
        (before..=middle).contains(&info.created_at),
        "created {}",
        info.created_at
    );
    assert!(
        (middle..=after).contains(&info.updated_at),
        "updated {}",
        info.updated_at
    );
    let run = bench
        .admin()
        .get_execution_info("timed", 1)
        .await
        .expect("details");
    assert!(
        (before..=middle).contains(&run.started_at),
        "started {}",
        run.started_at
    );
    let completed = run.completed_at.expect("it completed");
    assert!(
        (middle..=after).contains(&completed),
        "completed {completed}"
    );
}

/// While it runs there is no output and no end, also after a commit that says "Running".
pub async fn a_running_instance_has_no_output<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("busy").await;
    bench
        .nudge("busy", Commit::to(1).status("Running", None))
        .await;
    let info = bench
        .admin()
        .get_instance_info("busy")
        .await
        .expect("details");
    assert_eq!((info.status.as_str(), info.output), ("Running", None));
    let run = bench
        .admin()
        .get_execution_info("busy", 1)
        .await
        .expect("details");
    assert_eq!(
        (run.status.as_str(), run.output, run.completed_at),
        ("Running", None, None)
    );
}

/// A commit without events can end an execution.
pub async fn a_commit_without_events_can_end_an_execution<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("ended").await;
    bench
        .nudge("ended", Commit::to(1).status("Failed", Some("given up")))
        .await;
    let info = bench
        .admin()
        .get_instance_info("ended")
        .await
        .expect("details");
    assert_eq!(
        (info.status.as_str(), info.output.as_deref()),
        ("Failed", Some("given up"))
    );
    let run = bench
        .admin()
        .get_execution_info("ended", 1)
        .await
        .expect("details");
    assert!(run.completed_at.is_some(), "it ended");
}

/// An execution that ended without a value has none; the empty text is a value.
pub async fn no_output_is_not_an_empty_output<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let silent = Commit::first()
        .and(kinds::completed(""))
        .status("Completed", None);
    bench.create_with("silent", silent).await;
    bench
        .create_with("empty", Commit::first().completed(""))
        .await;
    let silent = bench
        .admin()
        .get_instance_info("silent")
        .await
        .expect("details");
    assert_eq!(silent.output, None);
    let empty = bench
        .admin()
        .get_instance_info("empty")
        .await
        .expect("details");
    assert_eq!(empty.output.as_deref(), Some(""));
}

/// Details follow the current execution; earlier ones keep theirs.
pub async fn details_follow_the_current_execution<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("moved", Commit::first().continued("next input"))
        .await;
    let between = bench
        .admin()
        .get_instance_info("moved")
        .await
        .expect("details");
    assert_eq!(between.status, "ContinuedAsNew");
    bench
        .next_execution("moved", Commit::first_of(2).failed("broke"))
        .await;

    let admin = bench.admin();
    let info = admin.get_instance_info("moved").await.expect("details");
    assert_eq!(info.current_execution_id, 2);
    assert_eq!(
        (info.status.as_str(), info.output.as_deref()),
        ("Failed", Some("broke"))
    );
    let first = admin.get_execution_info("moved", 1).await.expect("details");
    assert_eq!(first.status, "ContinuedAsNew");
    assert_eq!(first.output.as_deref(), Some("next input"));
    assert!(first.completed_at.is_some(), "it ended");
    assert_eq!(first.event_count, 2);
    assert_eq!(admin.latest_execution_id("moved").await, Ok(2));
    assert_eq!(admin.latest_execution_id("nobody").await, Ok(1));
}

/// Every status is counted in its own total.
pub async fn totals_count_each_status<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("busy").await;
    for n in 0..2 {
        let done = Commit::first().completed("ok");
        bench.create_with(&format!("done-{n}"), done).await;
    }
    bench
        .create_with("broken", Commit::first().failed("no"))
        .await;
    bench
        .create_with("moved", Commit::first().continued("next"))
        .await;
    bench.next_execution("moved", Commit::first_of(2)).await;

    let totals = bench.admin().get_system_metrics().await.expect("totals");
    assert_eq!(totals.total_instances, 5);
    assert_eq!(totals.total_executions, 6);
    assert_eq!(totals.running_instances, 2);
    assert_eq!(totals.completed_instances, 2);
    assert_eq!(totals.failed_instances, 1);
    assert_eq!(totals.total_events, 1 + 4 + 2 + 3);
    let running = bench.admin().count_running_instances().await;
    assert_eq!(running.expect("a total"), 2);
}

/// Instances are listed newest first.
pub async fn instances_are_listed_newest_first<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["b", "c", "a"] {
        bench.create(instance).await;
        bench.pass(Duration::from_millis(5)).await;
    }
    let admin = bench.admin();
    assert_eq!(
        admin.list_instances().await.expect("a listing"),
        ["a", "c", "b"]
    );
    let running = admin.list_instances_by_status("Running").await;
    assert_eq!(running.expect("a listing"), ["a", "c", "b"]);
}

/// Executions are listed in order, and both halves of the contract read the same history.
pub async fn both_halves_read_the_same_history<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("read", Commit::first().continued("next"))
        .await;
    bench.next_execution("read", Commit::first_of(2)).await;
    let admin = bench.admin();
    assert_eq!(
        admin.list_executions("read").await.expect("a listing"),
        [1, 2]
    );
    assert_eq!(
        admin.read_history("read").await.expect("events"),
        bench.read("read").await
    );
    let first = admin.read_history_with_execution_id("read", 1).await;
    assert_eq!(
        first.expect("events"),
        bench.read_execution("read", 1).await
    );
    assert_eq!(
        admin.read_history("nobody").await.expect("no error"),
        Vec::new()
    );
}

/// Sizes are bytes, not characters.
pub async fn sizes_are_bytes<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let plain = Commit::first().and(kinds::kv_set("k", "ooo"));
    let umlauts = Commit::first().and(kinds::kv_set("k", "ööö"));
    bench.create_with("one", plain).await;
    bench.create_with("two", umlauts).await;
    let stats = |instance| bench.store.get_instance_stats(instance);
    let one = stats("one").await.expect("sizes").expect("known");
    let two = stats("two").await.expect("sizes").expect("known");
    assert_eq!((one.kv_total_value_bytes, two.kv_total_value_bytes), (3, 6));
    assert_eq!(two.history_size_bytes, one.history_size_bytes + 3);
}

/// The parent of a child stays the one it was created with.
pub async fn a_parent_is_for_life<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("parent").await;
    bench.create_child("child", "parent", Commit::first()).await;
    bench.send(items::signal("child", "go")).await;
    let other = Commit::to(1)
        .named("ChildOrch", "1.0.0")
        .child_of("stranger");
    bench.advance("child", other).await;
    let info = bench
        .admin()
        .get_instance_info("child")
        .await
        .expect("details");
    assert_eq!(info.parent_instance_id.as_deref(), Some("parent"));
}
