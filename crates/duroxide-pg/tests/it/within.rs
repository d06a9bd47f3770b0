//! Starts and events inside the application's own transaction.

use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderAdmin, WorkItem};
use duroxide_pg::Within;

use crate::support::{Schema, connect, start_within};

const LEASE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_order_and_its_orchestration_are_committed_together() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.shell("CREATE TABLE {s}.orders (id text)");
    let waiting = store.fetch_orchestration_item(LEASE, Duration::from_secs(20), None);
    let ordering = async {
        let mut client = connect().await;
        let tx = client.transaction().await.unwrap();
        let insert = format!("INSERT INTO {}.orders VALUES ('order-7')", schema.0);
        tx.execute(&insert, &[]).await.unwrap();
        let within = Within::new(&tx, &schema.0).unwrap();
        within
            .start_orchestration_versioned("order-7", "Order", "1.0.0", "{\"a\": \"b\\c\"}")
            .await
            .unwrap();
        within.raise_event("order-7", "paid", "12").await.unwrap();
        within
            .enqueue_event("order-7", "notes", "hurry")
            .await
            .unwrap();
        assert_eq!(
            store.get_queue_depths().await.unwrap().orchestrator_queue,
            0
        );
        tx.commit().await.unwrap();
    };
    let (found, ()) = tokio::join!(waiting, ordering);
    let (item, _, _) = found.unwrap().expect("woken by the commit");
    assert_eq!(item.orchestration_name, "Order");
    let [
        WorkItem::StartOrchestration { input, version, .. },
        raised,
        queued,
    ] = &item.messages[..]
    else {
        panic!("{:?}", item.messages);
    };
    assert_eq!(
        (input.as_str(), version.as_deref()),
        ("{\"a\": \"b\\c\"}", Some("1.0.0"))
    );
    assert_eq!(raised.kind_name(), "ExternalRaised");
    assert_eq!(queued.kind_name(), "QueueMessage");
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.orders"), 1);
}

#[tokio::test]
async fn an_order_and_its_orchestration_are_rolled_back_together() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    start_within(&tx, &schema, "order-8").await;
    let within = Within::new(&tx, &schema.0).unwrap();
    within
        .cancel_instance("order-8", "changed my mind")
        .await
        .unwrap();
    tx.rollback().await.unwrap();
    let found = store
        .fetch_orchestration_item(LEASE, Duration::ZERO, None)
        .await;
    assert!(found.unwrap().is_none());
}

#[tokio::test]
async fn the_functions_need_a_grant() {
    let schema = Schema::new();
    drop(schema.open().await);
    let who = format!("starter_{}", uuid::Uuid::new_v4().simple());
    schema.shell(&format!(
        "CREATE ROLE {who}; GRANT USAGE ON SCHEMA {{s}} TO {who};
         GRANT EXECUTE ON FUNCTION {{s}}.start_orchestration TO {who}"
    ));
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    tx.batch_execute(&format!("SET LOCAL ROLE {who}"))
        .await
        .unwrap();
    let within = Within::new(&tx, &schema.0).unwrap();
    within
        .start_orchestration("a", "Order", "{}")
        .await
        .unwrap();
    assert!(within.raise_event("a", "paid", "12").await.is_err());
    tx.rollback().await.unwrap();
    schema.shell(&format!("DROP OWNED BY {who}; DROP ROLE {who}"));
}

#[tokio::test]
async fn the_queues_of_the_engine_take_nothing_from_sql() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut client = connect().await;
    for queue in [
        "duroxide:rewind",
        "duroxide:keys",
        "duroxide:labels",
        "duroxide:start",
    ] {
        let tx = client.transaction().await.unwrap();
        let within = Within::new(&tx, &schema.0).unwrap();
        let sent = within
            .enqueue_event("order-7", queue, "\"ask_again\"")
            .await;
        let refused = format!("{:?}", sent.unwrap_err());
        assert!(refused.contains("the engine's own"), "{refused}");
        drop(tx);
    }
    let depths = store.get_queue_depths().await.unwrap();
    assert_eq!(depths.orchestrator_queue, 0);
}
