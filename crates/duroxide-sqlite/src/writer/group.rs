//! Group commit. In: jobs and a connection. Out: one committed transaction in which every job is done completely or
//! not at all, whatever the others did.
//!
//! Protocol: the jobs first run one after the other without savepoints, because nearly all of them succeed, and those
//! that fail have usually written nothing (a lost lease is found before the first write). If one fails after it has
//! written, the transaction is rolled back and the group runs again with a savepoint around each job, so that only
//! the failed one is undone. If the commit fails, nothing happened and every job is told so.

use crate::connection::migrate;
use crate::connection::statements::Statements;
use crate::early::recent_instances::Others;
use crate::error::SqliteError;
use crate::kill;
use crate::requests::job::Job;
use crate::store_clock::{self, StoreClock};
use crate::tx::{Aware, Effects, Result, Tx};

/// An open transaction and the jobs that ran in it. Dropped without a commit, it never happened.
pub(crate) struct Group<'g, 'c> {
    statements: &'g Statements<'c>,
    clock: &'g StoreClock,
    aware: Aware<'g>,
    jobs: Vec<Box<dyn Job>>,
    effects: Vec<Effects>,
    /// How many of the effects were asked for already.
    heard: usize,
    guard: Guard,
}

/// How a job that fails is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// With everything else, and then everything else is done again.
    Group,
    /// By its own savepoint.
    Job,
}

/// How one pass over jobs went.
enum Pass {
    Clean,
    /// A job failed after it had written something that only a rollback of everything can undo.
    Dirty,
}

/// What became of the jobs that ran before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    Once,
    /// The transaction was begun anew and its jobs ran again; what had left the group before is void.
    Again,
}

impl<'g, 'c> Group<'g, 'c> {
    pub(crate) fn begin(
        statements: &'g Statements<'c>,
        clock: &'g StoreClock,
        aware: Aware<'g>,
    ) -> Result<Self> {
        statements.run("BEGIN IMMEDIATE")?;
        let group = Self {
            statements,
            clock,
            aware,
            jobs: Vec::new(),
            effects: Vec::new(),
            heard: 0,
            guard: Guard::Group,
        };
        if aware.known.check(statements)? == Others::Wrote {
            // A newer build may have brought the schema up to date meanwhile.
            migrate::check_version(statements)?;
            if let Some(latest) = store_clock::latest_stored(statements)? {
                clock.raise_to(latest);
            }
        }
        Ok(group)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether each job has a savepoint of its own since one of them failed.
    pub(crate) fn has_started_over(&self) -> bool {
        self.guard == Guard::Job
    }

    /// Runs more jobs in the transaction.
    pub(crate) fn run(&mut self, more: Vec<Box<dyn Job>>) -> Result<Ran> {
        let from = self.jobs.len();
        self.jobs.extend(more);
        match self.pass(from)? {
            Pass::Clean => Ok(Ran::Once),
            Pass::Dirty => self.start_over().map(|()| Ran::Again),
        }
    }

    /// The jobs from there on leave the group: they are answered before the commit, or run again.
    pub(crate) fn split_off(&mut self, from: usize) -> Vec<Box<dyn Job>> {
        self.jobs.split_off(from)
    }

    /// A job that left stays after all.
    pub(crate) fn extend(&mut self, job: Option<Box<dyn Job>>) {
        self.jobs.extend(job);
    }

    /// What the jobs did since this was asked the last time.
    pub(crate) fn news(&mut self) -> &[Effects] {
        let from = std::mem::replace(&mut self.heard, self.effects.len());
        &self.effects[from..]
    }

    /// Writes the leases of turns that are still out, and commits.
    pub(crate) fn commit(&self) -> Result<()> {
        self.aware.ahead.write_leases(&self.view())?;
        kill::point("before_commit");
        self.statements.run("COMMIT")?;
        kill::point("after_commit");
        Ok(())
    }

    /// The jobs, to be answered, and what they did.
    pub(crate) fn into_parts(mut self) -> (Vec<Box<dyn Job>>, Vec<Effects>) {
        (
            std::mem::take(&mut self.jobs),
            std::mem::take(&mut self.effects),
        )
    }

    /// The transaction as one job sees it.
    fn view(&self) -> Tx<'g> {
        Tx::new(self.statements, self.clock.now()).aware_of(self.aware)
    }

    /// Something that was done is no longer so.
    fn undone(&self) {
        self.aware.known.doubt(self.aware.ahead.forget());
        self.aware.known.forget_all();
    }

    fn start_over(&mut self) -> Result<()> {
        self.statements.run("ROLLBACK")?;
        self.undone();
        self.statements.run("BEGIN IMMEDIATE")?;
        self.effects.clear();
        self.heard = 0;
        self.guard = Guard::Job;
        match self.pass(0)? {
            Pass::Clean => Ok(()),
            Pass::Dirty => Err(SqliteError::Database {
                detail: "a savepoint could not be undone".to_owned(),
            }),
        }
    }

    fn pass(&mut self, from: usize) -> Result<Pass> {
        match self.guard {
            Guard::Group => self.plain_pass(from),
            Guard::Job => self.savepoint_pass(from),
        }
    }

    fn plain_pass(&mut self, from: usize) -> Result<Pass> {
        let conn = self.statements.connection();
        for index in from..self.jobs.len() {
            let mut tx = self.view_for(index)?;
            let before = conn.total_changes();
            match self.jobs[index].run(&mut tx) {
                Ok(()) => self.effects.push(tx.effects),
                Err(error) if conn.is_autocommit() => return Err(error),
                Err(_) if conn.total_changes() != before => return Ok(Pass::Dirty),
                Err(error) if error.spoils_connection() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Pass::Clean)
    }

    fn savepoint_pass(&mut self, from: usize) -> Result<Pass> {
        for index in from..self.jobs.len() {
            let mut tx = self.view_for(index)?;
            self.statements.run("SAVEPOINT job")?;
            match self.jobs[index].run(&mut tx) {
                Ok(()) => self.effects.push(tx.effects),
                Err(error) if self.statements.connection().is_autocommit() => return Err(error),
                Err(error) if error.spoils_connection() => return Err(error),
                Err(_) => {
                    self.statements.run("ROLLBACK TO job")?;
                    self.aware.known.forget_all();
                }
            }
            self.statements.run("RELEASE job")?;
        }
        Ok(Pass::Clean)
    }

    /// The transaction as this job expects it.
    fn view_for(&self, index: usize) -> Result<Tx<'g>> {
        let tx = self.view();
        if self.jobs[index].minds_leases() && self.aware.ahead.anybody_out() {
            self.aware.ahead.write_leases(&tx)?;
        }
        Ok(tx)
    }
}

impl Drop for Group<'_, '_> {
    fn drop(&mut self) {
        // After a disk failure SQLite may have rolled back by itself; after a commit there is nothing to undo.
        if !self.statements.connection().is_autocommit()
            && let Err(error) = self.statements.run("ROLLBACK")
        {
            tracing::warn!(target: "duroxide::providers::sqlite", %error, "a transaction could not be rolled back");
        }
    }
}
