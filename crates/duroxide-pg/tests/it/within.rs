//! Starts and events inside the application's own transaction.

use std::time::Duration;

use duroxide_core::limits::{DEFAULT_PAYLOAD_BYTES_MAX, MAX_INSTANCE_ID_BYTES};
use duroxide_core::provider::{Provider, ProviderAdmin, WorkItem};
use duroxide_core::{check_instance_id, message_parts};
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

#[tokio::test]
async fn what_no_client_may_send_is_refused_in_the_transaction_in_the_same_words() {
    let schema = Schema::new();
    drop(schema.open().await);
    let mut client = connect().await;
    let (long_id, long) = (
        "é".repeat(MAX_INSTANCE_ID_BYTES / 2 + 1),
        "x".repeat(DEFAULT_PAYLOAD_BYTES_MAX + 1),
    );
    let (long_id, long) = (long_id.as_str(), long.as_str());
    let size = |what: &str| {
        let (bytes, max) = (long.len(), DEFAULT_PAYLOAD_BYTES_MAX);
        format!("{what} size ({bytes} bytes) exceeds limit ({max} bytes)")
    };
    let id = |id: &str| check_instance_id(id).unwrap_err();
    let start = "start_orchestration";
    let refused: [(&str, Vec<&str>, String); 17] = [
        (start, vec!["", "O", "{}"], id("")),
        (start, vec![long_id, "O", "{}"], id(long_id)),
        (
            start,
            vec!["sub::1", "O", "{}"],
            "belong to children".into(),
        ),
        (
            start,
            vec!["a::sub::1", "O", "{}"],
            "belong to children".into(),
        ),
        (start, vec!["a", "", "{}"], "has no name".into()),
        (start, vec!["a", long, "{}"], size("orchestration name")),
        (start, vec!["a", "O", long], size("orchestration input")),
        (start, vec!["a", "O", "{}", long], size("version")),
        (
            start,
            vec!["a", &long[..3_000], "{}"],
            "at most 2500".into(),
        ),
        ("raise_event", vec!["", "go", "{}"], id("")),
        ("raise_event", vec!["a", long, "{}"], size("event name")),
        ("raise_event", vec!["a", "go", long], size("event data")),
        ("enqueue_event", vec!["a", long, "{}"], size("queue name")),
        ("enqueue_event", vec!["a", "q", long], size("event data")),
        ("cancel_instance", vec![long_id, "enough"], id(long_id)),
        ("cancel_instance", vec!["a", long], size("cancel reason")),
        (
            "cancel_instance",
            vec!["a", "duroxide:terminate:now"],
            "a reason must not begin with the reserved 'duroxide:terminate:'".into(),
        ),
    ];
    for (function, args, needed) in refused {
        let tx = client.transaction().await.unwrap();
        let within = Within::new(&tx, &schema.0).unwrap();
        let sent = match (function, &args[..]) {
            ("start_orchestration", [id, name, input]) => {
                within.start_orchestration(id, name, input).await
            }
            ("start_orchestration", [id, name, input, version]) => {
                let sent = within.start_orchestration_versioned(id, name, version, input);
                sent.await
            }
            ("raise_event", [id, name, data]) => within.raise_event(id, name, data).await,
            ("enqueue_event", [id, queue, data]) => within.enqueue_event(id, queue, data).await,
            (_, args) => within.cancel_instance(args[0], args[1]).await,
        };
        let error = sent.expect_err(&needed);
        assert_eq!(error.code(), "D0218", "{function}: {error}");
        assert!(error.to_string().contains(&needed), "{error} for {needed}");
    }
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.arrivals"), 0);
}

#[tokio::test]
async fn what_is_at_the_limit_and_what_looks_like_the_engines_own_arrives_as_it_was_sent() {
    let schema = Schema::new();
    let store = schema.open().await;
    let id = "i".repeat(MAX_INSTANCE_ID_BYTES);
    let input = "\n".repeat(DEFAULT_PAYLOAD_BYTES_MAX);
    let keyed = "duroxide:key:3:abc";
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    let within = Within::new(&tx, &schema.0).unwrap();
    within.start_orchestration(&id, "O", &input).await.unwrap();
    within.enqueue_event(&id, "q", keyed).await.unwrap();
    tx.commit().await.unwrap();
    let mut found = Vec::new();
    while found.len() < 2 {
        let turn = store.fetch_orchestration_item(LEASE, LEASE, None).await;
        let (item, token, _) = turn.unwrap().expect("both are there");
        if found.is_empty() && item.messages.len() < 2 {
            // The first one is as large as a claim may be; the other comes when the instance runs.
            store
                .ack_orchestration_item(
                    &token,
                    1,
                    crate::meetings::started(&id),
                    vec![],
                    vec![],
                    crate::meetings::named(),
                    vec![],
                )
                .await
                .unwrap();
        }
        found.extend(item.messages);
    }
    assert!(
        matches!(&found[0], WorkItem::StartOrchestration { input: sent, .. } if *sent == input)
    );
    let WorkItem::QueueMessage { data, .. } = &found[1] else {
        panic!("{:?}", found[1].kind_name());
    };
    assert_eq!(message_parts(data), (None, keyed));
}
