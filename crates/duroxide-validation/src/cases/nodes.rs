//! Nodes: they say who they are, and are gone when they say no more.

use std::time::Duration;

use duroxide_core::provider::{
    BlockedInstance, HeldActivity, NodeInfo, NodeTerm, ScheduledActivityIdentifier, SeenNode,
};

use crate::ProviderFactory;
use crate::fixture::Bench;

const HOUR: Duration = Duration::from_secs(3_600);

fn node(id: &str, name: &str) -> NodeInfo {
    let mut node = NodeInfo::new(id, name);
    node.host = "härbor".to_owned();
    node.pid = 7;
    node.started_at_ms = 1_000;
    let versions = vec!["1.0.0".to_owned(), "2.0.0".to_owned()];
    node.orchestrations.insert("order".to_owned(), versions);
    node.activities = vec!["charge".to_owned()];
    node
}

fn term(gone_after: Duration, forgotten_after: Duration) -> NodeTerm {
    NodeTerm {
        gone_after,
        forgotten_after,
    }
}

async fn announce<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    node: &NodeInfo,
    term: NodeTerm,
) {
    let kept = bench.admin().announce_node(node, term).await;
    assert!(kept.expect("an answer"), "the store keeps nodes");
}

async fn nodes<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Vec<SeenNode> {
    let nodes = bench.admin().list_nodes().await;
    nodes.expect("an answer").expect("the store keeps nodes")
}

/// A node is listed with all that it said, by name; a later word replaces an earlier one.
pub async fn a_node_that_announces_itself_is_listed<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert_eq!(nodes(&bench).await, []);
    let before = bench.now_ms().saturating_sub(1_000);
    let mut first = node("2", "a");
    announce(&bench, &first, term(HOUR, HOUR)).await;
    announce(&bench, &node("1", "b"), term(HOUR, HOUR)).await;
    first.activities.push("refund".to_owned());
    first.blocked.push(BlockedInstance {
        instance_id: "order-7".to_owned(),
        execution_id: 2,
        orchestration_name: "order".to_owned(),
        report: "recorded | attempted".to_owned(),
        attempts: 3,
    });
    first.holds.push(HeldActivity::new(
        ScheduledActivityIdentifier {
            instance: "örder-8".to_owned(),
            execution_id: 1,
            activity_id: 2,
        },
        1,
        1_000,
    ));
    announce(&bench, &first, term(HOUR, HOUR)).await;
    let seen = nodes(&bench).await;
    let told: Vec<_> = seen.iter().map(|it| it.node.clone()).collect();
    assert_eq!(told, [first, node("1", "b")]);
    assert!(
        seen.iter()
            .all(|it| !it.is_gone && it.last_seen_ms >= before)
    );
}

/// A node that is silent for longer than it said is gone and still listed; one word brings it back.
pub async fn a_silent_node_is_gone<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    announce(&bench, &node("1", "a"), term(bench.lock, HOUR)).await;
    announce(&bench, &node("2", "b"), term(HOUR, HOUR)).await;
    let said = nodes(&bench).await[0].last_seen_ms;
    bench.outlive(bench.lock).await;
    let seen = nodes(&bench).await;
    let gone: Vec<_> = seen.iter().map(|it| it.is_gone).collect();
    assert_eq!(gone, [true, false]);
    assert_eq!(seen[0].last_seen_ms, said, "silence is not a word");
    announce(&bench, &node("1", "a"), term(bench.lock, HOUR)).await;
    let seen = nodes(&bench).await;
    assert!(!seen[0].is_gone && seen[0].last_seen_ms > said);
}

/// A node that leaves is not listed any more, and leaving twice is no error.
pub async fn a_node_that_leaves_is_forgotten<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    announce(&bench, &node("1", "a"), term(HOUR, HOUR)).await;
    announce(&bench, &node("2", "b"), term(HOUR, HOUR)).await;
    for _ in 0..2 {
        let left = bench.admin().forget_node("1").await;
        left.expect("a node can leave");
    }
    let seen = nodes(&bench).await;
    let ids: Vec<_> = seen.iter().map(|it| it.node.id.as_str()).collect();
    assert_eq!(ids, ["2"]);
}

/// What was gone for long enough is not listed any more.
pub async fn nodes_that_were_gone_for_long_are_forgotten<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    announce(&bench, &node("1", "a"), term(bench.brief(), bench.brief())).await;
    bench.outlive(bench.brief() * 2).await;
    announce(&bench, &node("2", "b"), term(HOUR, HOUR)).await;
    let seen = nodes(&bench).await;
    let ids: Vec<_> = seen.iter().map(|it| it.node.id.as_str()).collect();
    assert_eq!(ids, ["2"]);
}
