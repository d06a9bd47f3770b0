//! Group commit. In: jobs and a connection. Out: one committed transaction in which every job is done completely or
//! not at all, whatever the others did.
//!
//! Protocol: the jobs first run one after the other without savepoints, because nearly all of them succeed, and those
//! that fail have usually written nothing (a lost lease is found before the first write). If one fails after it has
//! written, the transaction is rolled back and the group runs again with a savepoint around each job, so that only
//! the failed one is undone. If the commit fails, nothing happened and every job is told so.

use crate::error::SqliteError;
use crate::job::Job;
use crate::kill;
use crate::statements::Statements;
use crate::tx::{Effects, Result, Tx};

/// How one pass over the group went.
enum Pass {
    /// To be committed; the effects are for those who wait.
    Clean(Vec<Effects>),
    /// A job failed after it had written something that only a rollback of everything can undo.
    Dirty,
}

/// Runs the jobs, each in a transaction as `begin` makes it, then those that `join` adds once it knows what the first ones did.
pub(crate) fn run<'t>(
    statements: &Statements<'_>,
    jobs: &mut Vec<Box<dyn Job>>,
    mut join: impl FnMut(&[Effects]) -> Vec<Box<dyn Job>>,
    begin: impl Fn() -> Tx<'t>,
) -> Result<Vec<Effects>> {
    let pass = in_transaction(statements, |statements| {
        two_passes(jobs, &mut join, |jobs| plain_pass(statements, jobs, &begin))
    })?;
    match pass {
        Pass::Clean(effects) => Ok(effects),
        // Alone in its group, the failed job was undone by the rollback.
        Pass::Dirty if jobs.len() == 1 => Ok(Vec::new()),
        Pass::Dirty => match in_transaction(statements, |statements| {
            two_passes(jobs, &mut join, |jobs| {
                savepoint_pass(statements, jobs, &begin)
            })
        })? {
            Pass::Clean(effects) => Ok(effects),
            Pass::Dirty => Err(SqliteError::Database {
                detail: "a savepoint could not be undone".to_owned(),
            }),
        },
    }
}

fn two_passes(
    jobs: &mut Vec<Box<dyn Job>>,
    join: &mut impl FnMut(&[Effects]) -> Vec<Box<dyn Job>>,
    pass: impl Fn(&mut [Box<dyn Job>]) -> Result<Pass>,
) -> Result<Pass> {
    let mut effects = match pass(jobs)? {
        Pass::Clean(effects) => effects,
        Pass::Dirty => return Ok(Pass::Dirty),
    };
    let mut joining = join(&effects);
    let joined = pass(&mut joining);
    // Whatever became of them, they are answered with the others.
    jobs.append(&mut joining);
    Ok(match joined? {
        Pass::Clean(more) => {
            effects.extend(more);
            Pass::Clean(effects)
        }
        Pass::Dirty => Pass::Dirty,
    })
}

fn in_transaction(
    statements: &Statements<'_>,
    pass: impl FnOnce(&Statements<'_>) -> Result<Pass>,
) -> Result<Pass> {
    statements.run("BEGIN IMMEDIATE")?;
    let done = pass(statements).and_then(|pass| match pass {
        Pass::Clean(effects) => {
            kill::point("before_commit");
            statements.run("COMMIT")?;
            kill::point("after_commit");
            Ok(Pass::Clean(effects))
        }
        Pass::Dirty => Ok(Pass::Dirty),
    });
    // After a disk failure SQLite may have rolled back by itself.
    if !statements.connection().is_autocommit()
        && let Err(error) = statements.run("ROLLBACK")
    {
        tracing::warn!(target: "duroxide::providers::sqlite", %error, "a transaction could not be rolled back");
    }
    done
}

fn plain_pass<'t>(
    statements: &Statements<'_>,
    jobs: &mut [Box<dyn Job>],
    begin: &impl Fn() -> Tx<'t>,
) -> Result<Pass> {
    let mut effects = Vec::with_capacity(jobs.len());
    for job in jobs {
        let before = statements.connection().total_changes();
        let mut tx = begin();
        match job.run(&mut tx) {
            Ok(()) => effects.push(tx.effects),
            Err(error) if statements.connection().is_autocommit() => return Err(error),
            Err(_) if statements.connection().total_changes() != before => return Ok(Pass::Dirty),
            Err(error) if error.spoils_connection() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(Pass::Clean(effects))
}

fn savepoint_pass<'t>(
    statements: &Statements<'_>,
    jobs: &mut [Box<dyn Job>],
    begin: &impl Fn() -> Tx<'t>,
) -> Result<Pass> {
    let mut effects = Vec::with_capacity(jobs.len());
    for job in jobs {
        statements.run("SAVEPOINT job")?;
        let mut tx = begin();
        match job.run(&mut tx) {
            Ok(()) => effects.push(tx.effects),
            Err(error) if statements.connection().is_autocommit() => return Err(error),
            Err(error) if error.spoils_connection() => return Err(error),
            Err(_) => statements.run("ROLLBACK TO job")?,
        }
        statements.run("RELEASE job")?;
    }
    Ok(Pass::Clean(effects))
}
