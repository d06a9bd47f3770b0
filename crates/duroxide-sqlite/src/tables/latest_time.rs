//! The latest time that the tables hold. In: all tables that keep a time. Out: the latest one, behind which the
//! clock of the store must not fall. Owns `store_time`, the table for a time that was stored for its own sake; a
//! statement on it that changes no row takes the write lock.

use crate::connection::statements::Prepared;
use crate::error::Result;

/// The latest time that something queued was written at, or a turn leased, or that was stored for its own sake (leases
/// of activities and sessions have none). Rows are numbered in the order they are written, so the last one has the
/// latest time.
pub(crate) fn latest_time(statements: &dyn Prepared) -> Result<Option<i64>> {
    let latest = statements.with(
        "SELECT MAX(at) FROM
             (SELECT * FROM (SELECT created_at AS at FROM orchestrator_queue ORDER BY id DESC LIMIT 1)
              UNION ALL
              SELECT * FROM (SELECT created_at FROM worker_queue ORDER BY id DESC LIMIT 1)
              UNION ALL
              SELECT MAX(locked_at) FROM instance_locks
              UNION ALL
              SELECT at FROM store_time)",
        |statement| statement.query_row([], |row| row.get(0)),
    )?;
    Ok(latest)
}

/// The same without the rows of the queues, the last of which cannot be read.
pub(crate) fn latest_time_but_of_queues(statements: &dyn Prepared) -> Result<Option<i64>> {
    let latest = statements.with(
        "SELECT MAX(at) FROM (SELECT MAX(locked_at) AS at FROM instance_locks UNION ALL SELECT at FROM store_time)",
        |statement| statement.query_row([], |row| row.get(0)),
    )?;
    Ok(latest)
}

/// Stores the time for the process that opens the store next.
pub(crate) fn store_time(statements: &dyn Prepared, now: i64) -> Result<()> {
    statements.with(
        "INSERT INTO store_time (id, at) VALUES (0, ?1) ON CONFLICT (id) DO UPDATE SET at = MAX(at, ?1)",
        |statement| statement.execute([now]),
    )?;
    Ok(())
}

/// Takes the write lock, without writing anything.
pub(crate) fn take_write_lock(statements: &dyn Prepared) -> Result<()> {
    statements.with("UPDATE store_time SET at = at WHERE id = -1", |statement| {
        statement.execute([])
    })?;
    Ok(())
}
