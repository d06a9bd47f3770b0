//! Threads that only read. In: jobs. Out: their answers, each from one consistent snapshot. Never writes: the
//! connections are opened read-only.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use duroxide_core::clock::ClockRef;
use rusqlite::Connection;

use crate::error::SqliteError;
use crate::job::Job;
use crate::open::Database;
use crate::tx::{Result, Tx, stored_ms};

/// Enough that one long listing does not hold up the short reads of waiting clients.
const THREADS: usize = 2;

type Inbox = Arc<Mutex<Receiver<Box<dyn Job>>>>;

/// Starts the reading threads; they end when the sender is dropped.
pub(crate) fn start(
    database: &Database,
    clock: &ClockRef,
) -> std::io::Result<(Sender<Box<dyn Job>>, Vec<JoinHandle<()>>)> {
    let (sender, inbox) = mpsc::channel();
    let inbox: Inbox = Arc::new(Mutex::new(inbox));
    let mut threads = Vec::with_capacity(THREADS);
    for number in 0..THREADS {
        let reader = Reader {
            database: database.clone(),
            clock: Arc::clone(clock),
            inbox: Arc::clone(&inbox),
            open: None,
        };
        let thread = thread::Builder::new()
            .name(format!("duroxide-read-{number}"))
            .spawn(move || reader.run())?;
        threads.push(thread);
    }
    Ok((sender, threads))
}

struct Reader {
    database: Database,
    clock: ClockRef,
    inbox: Inbox,
    /// Opened by the first read.
    open: Option<Connection>,
}

impl Reader {
    fn run(mut self) {
        while let Some(mut job) = self.next() {
            match self.read(job.as_mut()) {
                Ok(()) => job.answer(),
                Err(error) => {
                    if error.spoils_connection() {
                        self.open = None;
                    }
                    job.fail(error);
                }
            }
        }
    }

    fn next(&self) -> Option<Box<dyn Job>> {
        // Waiting with the lock held is what makes the threads take turns.
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.recv().ok()
    }

    fn read(&mut self, job: &mut dyn Job) -> Result<()> {
        let now = stored_ms(self.clock.now_ms());
        let conn = match &mut self.open {
            Some(conn) => conn,
            none => none.insert(self.database.open_reader()?),
        };
        conn.prepare_cached("BEGIN")?.execute([])?;
        let done = job.run(&mut Tx::new(conn, now));
        // Ending a read cannot lose anything; a snapshot left open would hold up checkpoints.
        if !conn.is_autocommit() {
            conn.prepare_cached("ROLLBACK")?.execute([])?;
        }
        match done {
            Err(error) if error.spoils_connection() => Err(error),
            // Any other failure is the job's own answer.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl From<mpsc::SendError<Box<dyn Job>>> for SqliteError {
    fn from(_: mpsc::SendError<Box<dyn Job>>) -> Self {
        Self::Closed
    }
}
