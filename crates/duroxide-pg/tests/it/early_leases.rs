//! The lease of a turn that was handed out before its messages are stored: stored when it is asked for, renewed, given
//! back, or lost.

use duroxide_core::provider::Provider;

use crate::early::{Decided, LEASE, Node, lost};
use crate::support::Schema;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_an_early_turn_can_be_renewed_and_given_back() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = node.early_start().await;
    let token = &turn.lock_token;
    node.store
        .renew_orchestration_item_lock(token, LEASE)
        .await
        .unwrap();
    sent.await.unwrap().unwrap();
    node.store
        .abandon_orchestration_item(token, None, false)
        .await
        .unwrap();
    let again = node.turn().await;
    assert_eq!(again.item.messages, turn.item.messages);
    assert_eq!(again.attempt_count, 2);
    lost(
        node.commit(&turn, Decided::first(&turn.item.instance))
            .await,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_does_more_than_decide_has_its_lease_stored_first() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = node.early_start().await;
    node.store.store_lease(&turn.lock_token).await.unwrap();
    sent.await.unwrap().unwrap();
    let id = turn.item.instance.clone();
    assert_eq!(node.rows("orchestrator_queue", &id), 1);
    node.store.store_lease(&turn.lock_token).await.unwrap();
    node.commit(&turn, Decided::first(&id)).await.unwrap();
    assert_eq!(node.rows("inboxes", &id), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_overtaken_learns_it_before_it_does_more_than_decide() {
    let schema = Schema::new();
    let (node, other) = (Node::on(&schema).await, Node::on(&schema).await);
    let (turn, sent) = node.early_start().await;
    let id = turn.item.instance.clone();
    other.start(&id).await.unwrap().unwrap();
    lost(node.store.store_lease(&turn.lock_token).await);
    sent.await.unwrap().unwrap();
    lost(node.commit(&turn, Decided::first(&id)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_lease_was_refused_hears_so_whenever_it_asks() {
    let schema = Schema::new();
    let (node, other) = (Node::on(&schema).await, Node::on(&schema).await);
    let (turn, sent) = node.early_start().await;
    other.start(&turn.item.instance).await.unwrap().unwrap();
    // As if the turn had taken too long: the store tries to store its lease, before the code asks.
    lost(node.store.store_lease(&turn.lock_token).await);
    sent.await.unwrap().unwrap();
    lost(node.store.store_lease(&turn.lock_token).await);
}
