//! What operators ask for while rows cannot be read: listings show the others, and nothing that cannot be read is taken
//! for something that is not there.

use duroxide_core::provider::{
    ExecutionMetadata, InstanceFilter, InstanceQuery, Provider, ProviderAdmin,
};

use crate::damage::{begin, large, turns};
use crate::meetings::{named, raised, started};
use crate::support::Schema;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_names_the_instance_that_cannot_be_read_and_shows_the_others() {
    let schema = Schema::new();
    let store = schema.open().await;
    schema.keep_outside("instances", "custom_status");
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    schema.shell(&format!(
        "UPDATE {{s}}.instances SET custom_status = '{}' WHERE instance_id = 'hit'",
        large()
    ));
    schema.lose_large_values("instances");

    let page = store
        .query_instances(&InstanceQuery::default())
        .await
        .unwrap();
    let status = |id: &str| {
        let found = page.items.iter().find(|it| it.instance_id == id);
        found
            .unwrap_or_else(|| panic!("{id} is not listed"))
            .custom_status
            .clone()
    };
    let told = status("hit").expect("it says what is wrong");
    assert!(told.starts_with("cannot be read: missing chunk"), "{told}");
    assert_eq!(status("fine"), None);
    assert_eq!(store.list_instances().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_shows_an_instance_whose_events_cannot_be_counted() {
    let schema = Schema::new();
    let store = schema.open().await;
    begin(&store, "hit", started("hit")).await;
    begin(&store, "fine", started("fine")).await;
    schema.damage("history");
    let query = InstanceQuery::default();
    let page = store.query_instances(&query).await.unwrap();
    let mut counts: Vec<(&str, u64)> = page
        .items
        .iter()
        .map(|it| (it.instance_id.as_str(), it.event_count))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [("fine", 1), ("hit", 0)]);
    let metrics = store.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_instances, metrics.total_events), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_cannot_be_read_is_not_said_to_be_missing() {
    let schema = Schema::new();
    let store = schema.open().await;
    begin(&store, "hit", started("hit")).await;
    // As from a damaged page: what is readable is nothing.
    schema.shell(
        "UPDATE {s}.instances SET parent_instance_id = 'hit', parent_incarnation = incarnation;
         INSERT INTO {s}.blocked (instance_id, incarnation, execution_id, last_event_id, name, report, attempts, node, noted_at)
         SELECT instance_id, incarnation, 1, 1, 'Orch', 'why', 1, 'here', 1 FROM {s}.instances;
         CREATE OR REPLACE FUNCTION {s}.readable_instances() RETURNS SETOF {s}.instances LANGUAGE plpgsql STABLE AS
         $$ BEGIN RETURN; END $$",
    );
    schema.damage("instances");
    let told = [
        store.get_instance_info("hit").await.err(),
        store.get_parent_id("hit").await.err(),
        store.list_children("hit").await.err(),
        store.block_note("hit").await.err(),
    ];
    for error in told {
        let error = error.expect("nothing is known of it");
        assert!(error.to_string().contains("cannot read"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_cannot_be_read_keeps_no_other_from_being_deleted() {
    let schema = Schema::new();
    let store = schema.open().await;
    for id in ["hit", "fine"] {
        begin(&store, id, started(id)).await;
        store
            .enqueue_for_orchestrator(raised(id), None)
            .await
            .unwrap();
        let turn = turns(&store, 1).await.pop().expect("its message");
        let ended = ExecutionMetadata {
            status: Some("Completed".to_owned()),
            output: Some("done".to_owned()),
            ..named()
        };
        store
            .ack_orchestration_item(&turn.lock_token, 1, vec![], vec![], vec![], ended, vec![])
            .await
            .unwrap();
    }
    schema.shell(
        "ALTER FUNCTION {s}.is_finished_root RENAME TO is_finished_root_kept;
         CREATE FUNCTION {s}.is_finished_root(p_instance text, p_before bigint) RETURNS boolean LANGUAGE plpgsql AS $$
         BEGIN
             IF p_instance = 'hit' THEN
                 RAISE EXCEPTION 'invalid page in block 0' USING ERRCODE = 'data_corrupted';
             END IF;
             RETURN {s}.is_finished_root_kept(p_instance, p_before);
         END $$",
    );
    let ids = ["hit", "fine"].map(str::to_owned).to_vec();
    for instance_ids in [None, Some(ids)] {
        let filter = InstanceFilter {
            instance_ids: instance_ids.clone(),
            ..InstanceFilter::default()
        };
        let deleted = store.delete_instance_bulk(filter).await.unwrap();
        let expected = u64::from(instance_ids.is_none());
        assert_eq!(deleted.instances_deleted, expected);
    }
    assert_eq!(store.list_instances().await.unwrap(), ["hit"]);
}
