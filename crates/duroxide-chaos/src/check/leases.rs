//! What must not be left when all work is done and the last life was shut down: rows under a lease, messages, dead
//! letters.

use std::path::Path;

use duroxide::providers::{PendingMessage, ProviderAdmin};

/// The file is sound, and none of its rows is leased.
pub(super) fn check_file(file: &Path, violations: &mut Vec<String>) {
    let db = rusqlite::Connection::open(file).expect("open the file");
    let verdict: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("integrity_check answers");
    if verdict != "ok" {
        violations.push(format!("integrity_check: {verdict}"));
    }
    // The last life was shut down: whatever is still leased now would stay so.
    for table in ["instance_locks", "worker_queue", "orchestrator_queue"] {
        let held = match table {
            "orchestrator_queue" => "lock_token IS NOT NULL AND lock_token <> 'awaiting-start'",
            _ => "lock_token IS NOT NULL",
        };
        let count: i64 = db
            .query_row(
                &format!("SELECT COUNT(*) FROM {table} WHERE {held}"),
                [],
                |row| row.get(0),
            )
            .expect("the table is there");
        if count > 0 {
            violations.push(format!("{count} rows of {table} are still leased"));
        }
    }
}

/// Nothing waits in the queues but timers that lost their race, no instance is held, and nothing was dead-lettered.
pub(super) async fn check_queues(
    store: &dyn ProviderAdmin,
    instances: &[String],
    ever_told: impl Iterator<Item = &String>,
    violations: &mut Vec<String>,
) {
    let depths = store.get_queue_depths().await.expect("depths");
    if depths.worker_queue > 0 || depths.orchestrator_queue > 0 {
        let left = left_over(store, ever_told).await;
        violations.push(format!("left in the queues: {depths:?}: {left}"));
    }
    let dead = store.list_dead_letters(10).await.expect("dead letters");
    if !dead.is_empty() {
        violations.push(format!("dead letters: {dead:?}"));
    }
    for instance in instances {
        let pending = store.pending_work(instance).await.expect("pending work");
        let pending = pending.expect("our stores tell what is pending");
        let waits = |m: &PendingMessage| m.visible_at_ms <= pending.now_ms;
        if pending.turn_leased_until_ms.is_some()
            || !pending.activities.is_empty()
            || pending.messages.iter().any(waits)
        {
            violations.push(format!("{instance} has ended and still has {pending:?}"));
        }
    }
}

/// What is pending for whom, also for instances that are not there, and also what is not due yet.
async fn left_over(store: &dyn ProviderAdmin, ever_told: impl Iterator<Item = &String>) -> String {
    let mut left = Vec::new();
    for instance in ever_told {
        let pending = store.pending_work(instance).await.expect("pending work");
        let pending = pending.expect("our stores tell what is pending");
        if !pending.messages.is_empty() || !pending.activities.is_empty() {
            left.push(format!("{instance}: {pending:?}"));
        }
    }
    if left.is_empty() {
        "none of it for an instance that this run knows".to_owned()
    } else {
        left.join("; ")
    }
}
