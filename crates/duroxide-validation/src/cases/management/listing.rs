//! Lists, details and totals.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, items, kinds};

/// Every created instance is listed.
pub async fn test_list_instances<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..3 {
        bench.create(&format!("listed-{n}")).await;
    }
    let mut listed = bench.admin().list_instances().await.expect("a listing");
    listed.sort();
    assert_eq!(listed, ["listed-0", "listed-1", "listed-2"]);
}

/// Instances are listed under the status of their current execution and no other.
pub async fn test_list_instances_by_status<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("running").await;
    bench
        .create_with("done", Commit::first().completed("ok"))
        .await;
    bench
        .create_with("broken", Commit::first().failed("no"))
        .await;

    for (status, expected) in [
        ("Running", vec!["running"]),
        ("Completed", vec!["done"]),
        ("Failed", vec!["broken"]),
        ("ContinuedAsNew", vec![]),
        ("NoSuchStatus", vec![]),
    ] {
        let listed = bench.admin().list_instances_by_status(status).await;
        assert_eq!(listed.expect("a listing"), expected, "{status}");
    }
}

/// An execution committed without metadata is listed; an unknown instance has none.
pub async fn test_list_executions<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("listed", Commit::to(1).event(1, kinds::started()))
        .await;
    let admin = bench.admin();
    assert_eq!(
        admin.list_executions("listed").await.expect("a listing"),
        [1]
    );
    let none: [u64; 0] = [];
    assert_eq!(
        admin.list_executions("nobody").await.expect("a listing"),
        none
    );
}

/// Details of an instance are those that were committed.
pub async fn test_get_instance_info<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::to(1).event(1, kinds::started_as(NAME, "2.0.0"));
    bench
        .create_with("detailed", first.named(NAME, "2.0.0"))
        .await;

    let info = bench.admin().get_instance_info("detailed").await;
    let info = info.expect("details");
    assert_eq!(info.instance_id, "detailed");
    assert_eq!(info.orchestration_name, NAME);
    assert_eq!(info.orchestration_version, "2.0.0");
    assert_eq!(info.current_execution_id, 1);
    assert_eq!(info.status, "Running");
    assert_eq!(info.parent_instance_id, None);
    let unknown = bench.admin().get_instance_info("nobody").await;
    let error = unknown.expect_err("there is no such instance");
    assert!(error.message.contains("not found"), "{error}");
    assert!(!error.is_retryable(), "{error}");
}

/// Details of an execution need no instance row, and the lease decides whose event it is.
pub async fn test_get_execution_info<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("rowless").await;
    let turn = bench.turn_of("rowless").await;
    let mut foreign = turn.clone();
    foreign.item.instance = "somebody-else".into();
    let commit = Commit::to(1)
        .event(1, kinds::started())
        .status("Completed", Some("result"));
    bench.commit(&foreign, commit).await;

    let admin = bench.admin();
    let info = admin
        .get_execution_info("rowless", 1)
        .await
        .expect("details");
    assert_eq!(info.execution_id, 1);
    assert_eq!(info.status, "Completed");
    assert_eq!(info.output.as_deref(), Some("result"));
    assert_eq!(info.event_count, 1);
    let unknown = admin.get_execution_info("rowless", 7).await;
    let error = unknown.expect_err("there is no such execution");
    assert!(error.message.contains("not found"), "{error}");
}

/// Totals count instances and events.
pub async fn test_get_system_metrics<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let admin = bench.admin();
    let empty = admin.get_system_metrics().await.expect("totals");
    assert_eq!((empty.total_instances, empty.total_events), (0, 0));

    bench.create("counted").await;
    let totals = admin.get_system_metrics().await.expect("totals");
    assert_eq!(totals.total_instances, 1);
    assert_eq!(totals.total_executions, 1);
    assert_eq!(totals.running_instances, 1);
    assert_eq!(totals.total_events, 1);
}

/// The orchestrator queue grows with each message.
pub async fn test_get_queue_depths<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let admin = bench.admin();
    let before = admin.get_queue_depths().await.expect("depths");
    assert_eq!(before.orchestrator_queue, 0);
    bench.start("waiting").await;
    bench.send(items::signal("waiting", "go")).await;
    bench.schedule(items::activity("waiting", 1)).await;
    let after = admin.get_queue_depths().await.expect("depths");
    assert_eq!(after.orchestrator_queue, 2);
    assert_eq!(after.worker_queue, 1);
}
