//! How the server goes about the pages of instances, among many finished ones.

use duroxide_core::provider::{
    InstanceQuery, InstanceStatus, ProviderAdmin, SortKey, SortOrder, TimeRange,
};
use duroxide_pg::{PostgresOptions, PostgresProvider};

use crate::support::Schema;

/// When the first of the many was created; each is 10 ms younger than the one before.
const BEGAN: u64 = 1_700_000_000_000;
const MANY: u64 = 30_000;

/// A store with many finished instances and a few that run.
async fn filled(schema: &Schema) -> PostgresProvider {
    let store = schema.open().await;
    schema.shell(&format!(
        "INSERT INTO {{s}}.instances (instance_id, orchestration_name, orchestration_version, created_at, updated_at, incarnation, lane)
         SELECT 'i-' || n, CASE WHEN n % 1000 = 0 THEN 'rare' ELSE 'usual' END, CASE WHEN n % 2 = 0 THEN '1.0.0' ELSE '1.1.0' END,
             {BEGAN} + n * 10, {BEGAN} + n * 10 + 5, n, '' FROM generate_series(1, {MANY}) AS n;
         INSERT INTO {{s}}.executions (instance_id, execution_id, status, started_at, completed_at)
         SELECT 'i-' || n, 1, CASE WHEN n % 3000 = 0 THEN 'Running' ELSE 'Completed' END, {BEGAN} + n * 10,
             CASE WHEN n % 3000 > 0 THEN {BEGAN} + n * 10 + 5 END FROM generate_series(1, {MANY}) AS n"
    ));
    for table in ["instances", "executions", "labels", "history"] {
        schema.shell(&format!("VACUUM ANALYZE {{s}}.{table}"));
    }
    store
}

#[tokio::test]
async fn every_page_is_read_along_an_index() {
    let schema = Schema::new();
    let store = filled(&schema).await;
    let all = InstanceQuery::new;
    let updated = |order| all().sorted(SortKey::Updated, order);
    let middle = BEGAN + MANY * 5;
    let second = TimeRange {
        from_ms: Some(middle),
        until_ms: Some(middle + 1_000),
    };
    for (query, index) in [
        (all(), "idx_instances_created"),
        (updated(SortOrder::NewestFirst), "idx_executions_ended"),
        (updated(SortOrder::OldestFirst), "idx_executions_ended"),
        (
            updated(SortOrder::OldestFirst).with_status(InstanceStatus::Running),
            "idx_executions_open",
        ),
        (all().with_updated(second), "idx_executions_ended"),
        (all().with_ended(second), "idx_executions_ended"),
        (
            all().with_ended(TimeRange::until(middle)),
            "idx_instances_created",
        ),
        (all().with_name("usual"), "idx_instances_handler"),
        (all().with_version("1.0.0"), "idx_instances_handler"),
        (
            all().with_name("rare").with_version("1.0.0"),
            "idx_instances_handler",
        ),
    ] {
        let plan = store.page_plan(&query).await.unwrap().join("\n");
        assert!(plan.contains(index), "{query:?}\n{plan}");
        for slow in [
            "Seq Scan on instances",
            "Seq Scan on executions",
            "Gather",
            "Hash Join",
        ] {
            assert!(!plan.contains(slow), "{query:?}\n{plan}");
        }
    }
}

#[tokio::test]
async fn code_that_no_instance_runs_is_missing_at_once() {
    let schema = Schema::new();
    let store = filled(&schema).await;
    for query in [
        InstanceQuery::new().with_version("9.9.9"),
        InstanceQuery::new().with_name("nobody"),
    ] {
        let page = store.query_instances(&query).await.unwrap();
        assert!(page.items.is_empty() && page.next.is_none(), "{page:?}");
    }
    let both = InstanceQuery::new().with_version("1.0.0").with_page_size(5);
    let page = store.query_instances(&both).await.unwrap();
    let ids: Vec<_> = page
        .items
        .iter()
        .map(|it| it.instance_id.as_str())
        .collect();
    assert_eq!(
        ids,
        ["i-30000", "i-29998", "i-29996", "i-29994", "i-29992"],
        "of both names, in one order"
    );
}

#[tokio::test]
async fn a_process_that_does_not_claim_leaves_no_trace_of_opening_the_store() {
    let schema = Schema::new();
    drop(schema.open().await);
    schema.shell("DELETE FROM {s}.openings");
    let options = PostgresOptions {
        listen: false,
        ..PostgresOptions::default()
    };
    let looking = schema.open_with(options).await;
    looking.list_instances().await.unwrap();
    assert_eq!(schema.shell("SELECT count(*) FROM {s}.openings"), 0);
}
