//! Group commit. In: jobs and a connection. Out: one committed transaction in which every job is done completely or
//! not at all, whatever the others did.
//!
//! Protocol: the jobs first run one after the other without savepoints, because nearly all of them succeed, and those
//! that fail have usually written nothing (a lost lease is found before the first write). If one fails after it has
//! written, the transaction is rolled back and the group runs again with a savepoint around each job, so that only the
//! failed one is undone. The same happens if the messages and leases that jobs leave unwritten (`early/mod.rs`) cannot
//! be written: then the job fails that left them. If the commit fails, every job fails with its error, which says
//! whether the commit may have happened.

use crate::connection::migrate;
use crate::connection::statements::Statements;
use crate::error::{Result, SqliteError};
use crate::kill;
use crate::requests::{Job, LeaseView};
use crate::store_clock::StoreClock;
use crate::tables;
use crate::tx::Effects;
use crate::writer_memory::OtherConnections;
use crate::writer_tx::{WriterState, WriterTx};

/// An open transaction and the jobs that ran in it. Dropped without a commit, it is rolled back.
pub(crate) struct Group<'g, 'c> {
    statements: &'g Statements<'c>,
    clock: &'g StoreClock,
    state: WriterState<'g>,
    jobs: Vec<Box<dyn Job>>,
    effects: Vec<Effects>,
    /// How many of the effects `new_effects` has returned.
    returned: usize,
    guard: Guard,
    /// SQLite's count of changes when the transaction began.
    changes_before: u64,
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

/// What became of the jobs that had run before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    Once,
    /// The transaction was rolled back and its jobs ran again; the claims that had left the group before are void.
    Again,
}

impl<'g, 'c> Group<'g, 'c> {
    pub(crate) fn begin(
        statements: &'g Statements<'c>,
        clock: &'g StoreClock,
        state: WriterState<'g>,
    ) -> Result<Self> {
        statements.run("BEGIN IMMEDIATE")?;
        let group = Self {
            statements,
            clock,
            state,
            jobs: Vec::new(),
            effects: Vec::new(),
            returned: 0,
            guard: Guard::Group,
            changes_before: statements.connection().total_changes(),
        };
        group.heed_others()?;
        Ok(group)
    }

    /// Takes into account what other connections have written since the last transaction.
    fn heed_others(&self) -> Result<()> {
        let memory = self.state.memory;
        if let OtherConnections::MayHaveWritten(version) = memory.check(self.statements)? {
            // A newer build may have migrated the schema meanwhile.
            migrate::check_version(self.statements)?;
            if let Some(latest) = self.latest_time()? {
                self.clock.raise_to(latest);
            }
            // Not before: a transaction that is refused here must be refused again the next time.
            memory.seen(version);
        }
        Ok(())
    }

    /// The latest time that others have stored. If a row that tells it cannot be read, this transaction is lost, and
    /// the next ones do without.
    fn latest_time(&self) -> Result<Option<i64>> {
        let damaged = self.state.damaged;
        if damaged.has_last_row() {
            return tables::latest_time_but_of_queues(self.statements);
        }
        let latest = tables::latest_time(self.statements);
        if let Err(SqliteError::Damaged { .. }) = &latest {
            damaged.add_last_row();
        }
        latest
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

    /// The jobs from this place on leave the group: the writer answers them before the commit, or runs them again.
    pub(crate) fn split_off(&mut self, from: usize) -> Vec<Box<dyn Job>> {
        self.jobs.split_off(from)
    }

    /// Puts a job that had left back into the group.
    pub(crate) fn put_back(&mut self, job: Option<Box<dyn Job>>) {
        self.jobs.extend(job);
    }

    /// What the jobs did since the last call.
    pub(crate) fn new_effects(&mut self) -> &[Effects] {
        let from = std::mem::replace(&mut self.returned, self.effects.len());
        &self.effects[from..]
    }

    /// Writes what the jobs left unwritten, and the leases of turns in flight.
    pub(crate) fn write_in_flight(&mut self) -> Result<Ran> {
        match self.write_late(&self.view()) {
            Ok(Pass::Clean) => Ok(Ran::Once),
            Ok(Pass::Dirty) => self.start_over().map(|()| Ran::Again),
            Err(error) => Err(error),
        }
    }

    fn write_late(&self, tx: &WriterTx<'g>) -> Result<Pass> {
        match self.state.in_flight.write(tx) {
            Ok(()) => Ok(Pass::Clean),
            Err(error) if self.statements.connection().is_autocommit() => Err(error),
            Err(error) if error.spoils_connection() || self.has_started_over() => Err(error),
            Err(_) => Ok(Pass::Dirty),
        }
    }

    /// Commits, with the leases of turns in flight and every message.
    pub(crate) fn commit(&self) -> Result<()> {
        self.state.in_flight.write(&self.view())?;
        let stored = self.store_time()?;
        kill::point("before_commit");
        let committed = self.statements.run("COMMIT").map_err(SqliteError::from);
        committed.map_err(|error| match error {
            SqliteError::Io { detail } => SqliteError::CommitUncertain { detail },
            known => known,
        })?;
        kill::point("after_commit");
        if let Some(at) = stored {
            self.clock.stored(at);
        }
        Ok(())
    }

    /// Stores the time, if something is written anyway and the time that is stored is old.
    fn store_time(&self) -> Result<Option<i64>> {
        let has_written = self.statements.connection().total_changes() != self.changes_before;
        let Some(now) = self.clock.time_to_store().filter(|_| has_written) else {
            return Ok(None);
        };
        tables::store_time(self.statements, now)?;
        Ok(Some(now))
    }

    /// The jobs, to be answered, and what they did.
    pub(crate) fn into_parts(mut self) -> (Vec<Box<dyn Job>>, Vec<Effects>) {
        (
            std::mem::take(&mut self.jobs),
            std::mem::take(&mut self.effects),
        )
    }

    /// The transaction as one job sees it.
    fn view(&self) -> WriterTx<'g> {
        WriterTx::new(self.statements, self.clock.read(), self.state)
    }

    /// The transaction was rolled back.
    fn forget(&self) {
        self.state.caution.distrust(self.state.in_flight.forget());
        self.state.memory.forget_all();
    }

    fn start_over(&mut self) -> Result<()> {
        self.statements.run("ROLLBACK")?;
        self.forget();
        self.statements.run("BEGIN IMMEDIATE")?;
        self.heed_others()?;
        self.effects.clear();
        self.returned = 0;
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
            let mut tx = self.view();
            if self.jobs[index].lease_view() == LeaseView::NotNeeded {
                tx = tx.leaving_messages_unwritten();
            } else if let Pass::Dirty = self.write_late(&tx)? {
                return Ok(Pass::Dirty);
            }
            let unwritten = self.state.in_flight.messages();
            let before = (conn.total_changes(), unwritten.changes());
            match self.jobs[index].run(&mut tx) {
                Ok(()) => self.effects.push(tx.into_effects()),
                Err(error) if conn.is_autocommit() => return Err(error),
                Err(_) if (conn.total_changes(), unwritten.changes()) != before => {
                    return Ok(Pass::Dirty);
                }
                Err(error) if error.spoils_connection() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Pass::Clean)
    }

    fn savepoint_pass(&mut self, from: usize) -> Result<Pass> {
        for index in from..self.jobs.len() {
            // Nothing is left unwritten here: a savepoint undoes rows only.
            let mut tx = self.view();
            if self.jobs[index].lease_view() == LeaseView::Needed {
                self.state.in_flight.write(&tx)?;
            }
            self.statements.run("SAVEPOINT job")?;
            match self.jobs[index].run(&mut tx) {
                Ok(()) => self.effects.push(tx.into_effects()),
                Err(error) if self.statements.connection().is_autocommit() => return Err(error),
                Err(error) if error.spoils_connection() => return Err(error),
                Err(_) => {
                    self.statements.run("ROLLBACK TO job")?;
                    self.state.memory.forget_all();
                }
            }
            self.statements.run("RELEASE job")?;
        }
        Ok(Pass::Clean)
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
