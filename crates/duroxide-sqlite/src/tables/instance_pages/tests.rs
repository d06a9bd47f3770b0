//! How SQLite goes about each page: which index it walks, and what it sorts.

use rusqlite::{Connection, types::Null};

use super::*;
use crate::connection::database::open_memory;

const ORDERS: [PageOrder; 4] = [
    PageOrder::CreatedDown,
    PageOrder::CreatedUp,
    PageOrder::UpdatedDown,
    PageOrder::UpdatedUp,
];

fn plan(conn: &Connection, sql: &str, parameters: usize) -> String {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let values = vec![Null; parameters];
    let steps = explain.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
    let steps = steps.unwrap().collect::<rusqlite::Result<Vec<_>>>();
    steps.unwrap().join("\n")
}

fn page_plan(conn: &Connection, source: Source, order: PageOrder) -> String {
    plan(conn, by_source!(source, pages, order), 23)
}

/// A page in the order of an index ends when it is full, however many instances there are.
#[test]
fn pages_in_the_order_of_an_index_are_not_sorted() {
    let conn = open_memory().unwrap();
    for (source, order, index) in [
        (
            Source::Created,
            PageOrder::CreatedDown,
            "idx_instances_created",
        ),
        (
            Source::Created,
            PageOrder::CreatedUp,
            "idx_instances_created",
        ),
        (
            Source::Updated,
            PageOrder::UpdatedDown,
            "idx_instances_updated",
        ),
        (
            Source::Updated,
            PageOrder::UpdatedUp,
            "idx_instances_updated",
        ),
        (
            Source::Handler,
            PageOrder::CreatedDown,
            "idx_instances_handler",
        ),
        (
            Source::Handler,
            PageOrder::CreatedUp,
            "idx_instances_handler",
        ),
        (
            Source::Label,
            PageOrder::CreatedDown,
            "SEARCH l USING PRIMARY KEY (key=? AND value=? AND (created_at",
        ),
        (
            Source::Label,
            PageOrder::CreatedUp,
            "SEARCH l USING PRIMARY KEY (key=? AND value=? AND (created_at",
        ),
    ] {
        let plan = page_plan(&conn, source, order);
        assert!(plan.contains(index), "{source:?} {order:?}:\n{plan}");
        assert!(
            !plan.contains("TEMP B-TREE"),
            "{source:?} {order:?}:\n{plan}"
        );
    }
}

/// What is sorted was found by an index, and not by reading all instances.
#[test]
fn no_page_reads_all_instances() {
    let conn = open_memory().unwrap();
    for (source, found_by) in [
        (
            Source::Handler,
            "idx_instances_handler (orchestration_name=? AND <expr>=?",
        ),
        (
            Source::Prefix,
            "sqlite_autoindex_instances_1 (instance_id>? AND instance_id<?)",
        ),
        (Source::Open, "idx_executions_open (status=?"),
        (
            Source::Ended,
            "idx_executions_ended (completed_at>? AND completed_at<?",
        ),
        (
            Source::Parent,
            "idx_instances_parent (parent_instance_id=?)",
        ),
        (
            Source::Label,
            "SEARCH l USING PRIMARY KEY (key=? AND value=?",
        ),
    ] {
        for order in ORDERS {
            let plan = page_plan(&conn, source, order);
            assert!(plan.contains(found_by), "{source:?} {order:?}:\n{plan}");
            assert!(!plan.contains("SCAN i"), "{source:?} {order:?}:\n{plan}");
        }
    }
}

/// Each leap from one handler to the next ends at the first entry of the index that it finds.
#[test]
fn handlers_are_found_by_leaps_along_their_index() {
    let conn = open_memory().unwrap();
    for (sql, parameters) in [
        (handlers::FIRST_VERSION, 1),
        (handlers::NEXT_VERSION, 2),
        (handlers::FIRST_NAME, 0),
        (handlers::NEXT_NAME, 1),
        (handlers::HAS, 2),
    ] {
        let plan = plan(&conn, sql, parameters);
        assert!(
            plan.contains("INDEX idx_instances_handler"),
            "{sql}\n{plan}"
        );
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}
