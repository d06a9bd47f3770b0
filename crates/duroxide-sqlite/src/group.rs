//! Group commit. In: jobs and a connection. Out: one committed transaction in which every job is done completely or
//! not at all, whatever the others did.
//!
//! Protocol: the jobs first run one after the other without savepoints, because nearly all of them succeed, and those
//! that fail have usually written nothing (a lost lease is found before the first write). If one fails after it has
//! written, the transaction is rolled back and the group runs again with a savepoint around each job, so that only
//! the failed one is undone. If the commit fails, nothing happened and every job is told so.

use rusqlite::Connection;

use crate::error::SqliteError;
use crate::job::Job;
use crate::tx::{Effects, Result, Tx};

/// How one pass over the group went.
enum Pass {
    /// To be committed; the effects are for those who wait.
    Clean(Vec<Effects>),
    /// A job failed after it had written something that only a rollback of everything can undo.
    Dirty,
}

pub(crate) fn run(
    conn: &Connection,
    jobs: &mut [Box<dyn Job>],
    now: impl Fn() -> i64,
) -> Result<Vec<Effects>> {
    let pass = in_transaction(conn, |conn| plain_pass(conn, jobs, &now))?;
    match pass {
        Pass::Clean(effects) => Ok(effects),
        // Alone in its group, the failed job was undone by the rollback.
        Pass::Dirty if jobs.len() == 1 => Ok(Vec::new()),
        Pass::Dirty => match in_transaction(conn, |conn| savepoint_pass(conn, jobs, &now))? {
            Pass::Clean(effects) => Ok(effects),
            Pass::Dirty => Err(SqliteError::Database {
                detail: "a savepoint could not be undone".to_owned(),
            }),
        },
    }
}

fn in_transaction(
    conn: &Connection,
    pass: impl FnOnce(&Connection) -> Result<Pass>,
) -> Result<Pass> {
    exec(conn, "BEGIN IMMEDIATE")?;
    let done = pass(conn).and_then(|pass| match pass {
        Pass::Clean(effects) => {
            exec(conn, "COMMIT")?;
            Ok(Pass::Clean(effects))
        }
        Pass::Dirty => Ok(Pass::Dirty),
    });
    // After a disk failure SQLite may have rolled back by itself.
    if !conn.is_autocommit()
        && let Err(error) = exec(conn, "ROLLBACK")
    {
        tracing::warn!(target: "duroxide::providers::sqlite", %error, "a transaction could not be rolled back");
    }
    done
}

fn plain_pass(
    conn: &Connection,
    jobs: &mut [Box<dyn Job>],
    now: &impl Fn() -> i64,
) -> Result<Pass> {
    let mut effects = Vec::with_capacity(jobs.len());
    for job in jobs {
        let before = conn.total_changes();
        let mut tx = Tx::new(conn, now());
        match job.run(&mut tx) {
            Ok(()) => effects.push(tx.effects),
            Err(error) if conn.is_autocommit() => return Err(error),
            Err(_) if conn.total_changes() != before => return Ok(Pass::Dirty),
            Err(error) if error.spoils_connection() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(Pass::Clean(effects))
}

fn savepoint_pass(
    conn: &Connection,
    jobs: &mut [Box<dyn Job>],
    now: &impl Fn() -> i64,
) -> Result<Pass> {
    let mut effects = Vec::with_capacity(jobs.len());
    for job in jobs {
        exec(conn, "SAVEPOINT job")?;
        let mut tx = Tx::new(conn, now());
        match job.run(&mut tx) {
            Ok(()) => effects.push(tx.effects),
            Err(error) if conn.is_autocommit() => return Err(error),
            Err(error) if error.spoils_connection() => return Err(error),
            Err(_) => exec(conn, "ROLLBACK TO job")?,
        }
        exec(conn, "RELEASE job")?;
    }
    Ok(Pass::Clean(effects))
}

fn exec(conn: &Connection, sql: &str) -> Result<()> {
    conn.prepare_cached(sql)?.execute([])?;
    Ok(())
}
