//! Which processes are listed as having the store open: those that claim turns, until they end.

use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderAdmin};

use crate::early::Node;
use crate::meetings::start;
use crate::support::Schema;

/// How often a condition is looked at before the test gives up; each look is a connection of its own.
const LOOKS: usize = 1_000;

/// Waits until so many processes are listed.
fn are_listed(schema: &Schema, wanted: i64) {
    for _ in 0..LOOKS {
        if schema.shell("SELECT count(*) FROM {s}.openings") == wanted {
            return;
        }
    }
    panic!("{wanted} processes should be listed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_listed_from_its_first_claim_of_turns_to_its_end() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    node.store
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    assert!(node.store.list_instances().await.unwrap().is_empty());
    let listed = schema.shell("SELECT count(*) FROM {s}.openings");
    assert_eq!(listed, 0, "it claimed nothing yet");
    assert!(node.turn_within(Duration::ZERO).await.is_some());
    are_listed(&schema, 1);
    drop(node);
    are_listed(&schema, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_answer_was_lost_is_listed_once() {
    let schema = Schema::new();
    let _node = Node::on(&schema).await;
    let note = "SELECT count(*) FROM {s}.note_opening('00000000-0000-4000-8000-000000000001')";
    assert_eq!(schema.shell(note), 1);
    assert_eq!(schema.shell(note), 1, "it may say so again");
    are_listed(&schema, 1);
}
