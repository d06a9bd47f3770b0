//! Threads that only read. In: jobs. Out: their answers, each from one consistent snapshot. Never writes: the
//! connections are opened read-only.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::connection::Database;
use crate::connection::statements::Statements;
use crate::error::Result;
use crate::requests::{Inbox, ReadJob};
use crate::store_clock::StoreClock;
use crate::tx::Tx;

/// Enough that one long listing does not hold up the short reads of waiting clients.
const THREADS: usize = 2;

/// The running threads; they end when the inbox is closed.
pub(crate) struct Readers {
    pub(crate) inbox: Arc<Inbox<Box<dyn ReadJob>>>,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

/// Starts the reading threads.
pub(crate) fn start(database: &Database, clock: &Arc<StoreClock>) -> std::io::Result<Readers> {
    let inbox = Arc::new(Inbox::new());
    let mut threads = Vec::with_capacity(THREADS);
    for number in 0..THREADS {
        let reader = Reader {
            database: database.clone(),
            clock: Arc::clone(clock),
            inbox: Arc::clone(&inbox),
        };
        let thread = thread::Builder::new()
            .name(format!("duroxide-read-{number}"))
            .spawn(move || reader.run())
            .inspect_err(|_| inbox.close())?;
        threads.push(thread);
    }
    Ok(Readers { inbox, threads })
}

struct Reader {
    database: Database,
    clock: Arc<StoreClock>,
    inbox: Arc<Inbox<Box<dyn ReadJob>>>,
}

impl Reader {
    /// Works until the store is closed. The connection is opened by the first read, and again after a disk failure.
    fn run(self) {
        while let Some(job) = self.next() {
            match self.database.open_reader() {
                Ok(conn) => self.serve(&Statements::new(&conn), job),
                Err(error) => job.fail(error),
            }
        }
    }

    /// Reads until the connection is spoilt or the work is over.
    fn serve(&self, statements: &Statements<'_>, first: Box<dyn ReadJob>) {
        let mut next = Some(first);
        while let Some(mut job) = next {
            match self.read(statements, job.as_mut()) {
                Ok(()) => job.answer(),
                Err(error) => {
                    // A file that was removed or replaced must not be read on either.
                    let spoilt = error.spoils_connection()
                        || matches!(error, crate::error::SqliteError::FileGone { .. });
                    job.fail(error);
                    if spoilt {
                        return;
                    }
                }
            }
            next = self.next();
        }
    }

    fn next(&self) -> Option<Box<dyn ReadJob>> {
        let mut taken = Vec::with_capacity(1);
        self.inbox.take(1, None, &mut taken);
        taken.pop()
    }

    fn read(&self, statements: &Statements<'_>, job: &mut dyn ReadJob) -> Result<()> {
        let now = self.clock.now();
        self.database.check_identity()?;
        statements.run("BEGIN")?;
        let done = job.run(&mut Tx::new(statements, now));
        // Nothing is lost by ending a read; a snapshot left open would hold up checkpoints.
        if !statements.connection().is_autocommit() {
            statements.run("ROLLBACK")?;
        }
        match done {
            Err(error) if error.spoils_connection() => Err(error),
            // Any other failure is the job's own answer.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
