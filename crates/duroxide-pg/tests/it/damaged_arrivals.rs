//! Messages of applications that PostgreSQL cannot move to their queue: they hold up no others, and none is lost.

use duroxide_core::WorkItem;
use duroxide_core::provider::{Provider, ProviderAdmin};
use duroxide_pg::Within;

use crate::damage::{begin, large, turns};
use crate::meetings::{raised, started};
use crate::support::{Schema, connect};

/// Raises these events for the instance `hit`, then starts `fine`, in one transaction of an application.
async fn leave(schema: &Schema, to_hit: &[&str]) {
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    let within = Within::new(&tx, &schema.0).unwrap();
    for data in to_hit {
        within.raise_event("hit", "go", data).await.unwrap();
    }
    within
        .start_orchestration("fine", "Order", "{}")
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_an_application_that_cannot_be_read_holds_up_no_other() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("arrivals", "work_item");
    begin(&store, "hit", started("hit")).await;
    drop(store);
    leave(&schema, &[&large(), "second"]).await;
    schema.lose_large_values("arrivals");

    let store = schema.open().await;
    let found = turns(&store, 10).await;
    let ids: Vec<&str> = found.iter().map(|it| it.item.instance.as_str()).collect();
    assert_eq!(ids, ["fine"]);
    assert!(store.list_dead_letters(10).await.unwrap().is_empty());
    let note = store.block_note("hit").await.unwrap();
    let report = note.expect("it is blocked").blocked.report;
    assert!(report.contains("message of an application"), "{report}");
    // A third one does not overtake the first two.
    schema.shell("SELECT {s}.raise_event('hit', 'go', 'third'); SELECT {s}.start_orchestration('later', 'Order', '{}')");
    assert_eq!(turns(&store, 10).await[0].item.instance, "later");
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.arrivals"), 3);
    // Nothing was lost: they come in their order when an operator has mended the first one.
    let mended = serde_json::to_string(&raised("hit")).unwrap();
    schema.shell(&format!(
        "UPDATE {{s}}.arrivals SET work_item = '{mended}' WHERE octet_length(work_item) > 90000;
         UPDATE {{s}}.arrivals SET rests_until = 0; SELECT {{s}}.start_orchestration('last', 'Order', '{{}}')"
    ));
    let mut found = turns(&store, 10).await;
    if found.len() < 2 {
        found.extend(turns(&store, 10).await);
    }
    let hit = found.iter().find(|it| it.item.instance == "hit");
    let said = |item: &WorkItem| match item {
        WorkItem::ExternalRaised { data, .. } => data.clone(),
        other => panic!("{other:?}"),
    };
    let messages = &hit.expect("its messages came").item.messages;
    let said: Vec<String> = messages.iter().map(said).collect();
    assert_eq!(said, ["{}", "second", "third"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_message_behind_many_that_wait_for_another_one_is_found() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("arrivals", "work_item");
    for id in ["x", "y"] {
        begin(&store, id, started(id)).await;
    }
    drop(store);
    let raise = |id: &str, data: &str| format!("SELECT {{s}}.raise_event('{id}', 'go', '{data}')");
    schema.shell(&raise("x", &large()));
    schema.shell("SELECT {s}.raise_event('x', 'go', n::text) FROM generate_series(1, 1100) AS n");
    schema.shell(&raise("y", &large()));
    schema.shell("SELECT {s}.start_orchestration('fine', 'Order', '{}')");
    schema.lose_large_values("arrivals");
    let store = schema.open().await;
    let found = turns(&store, 10).await;
    let ids: Vec<&str> = found.iter().map(|it| it.item.instance.as_str()).collect();
    assert_eq!(ids, ["fine"]);
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.arrivals"), 1_102);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_an_application_to_an_instance_that_cannot_be_read_holds_up_no_other() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("instances", "lane");
    begin(&store, "hit", started("hit")).await;
    drop(store);
    schema.shell(&format!(
        "UPDATE {{s}}.instances SET lane = '{}' WHERE instance_id = 'hit'",
        large()
    ));
    schema.lose_large_values("instances");
    leave(&schema, &["1"]).await;

    let store = schema.open().await;
    let found = turns(&store, 10).await;
    assert_eq!(found[0].item.instance, "fine");
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.arrivals"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_arrivals_that_cannot_be_read_stops_no_claim() {
    let schema = Schema::new();
    let store = schema.open().await;
    begin(&store, "other", started("other")).await;
    drop(store);
    leave(&schema, &["1"]).await;
    schema.damage("arrivals");
    let store = schema.open().await;
    store
        .enqueue_for_orchestrator(raised("other"), None)
        .await
        .unwrap();
    let found = turns(&store, 10).await;
    assert_eq!(found[0].item.instance, "other");
}
