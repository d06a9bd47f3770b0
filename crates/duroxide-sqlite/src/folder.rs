//! Folds the write-ahead log into the database file beside the writer. In: how long the log is after each commit. Out: a
//! log that stays short. Commits do not wait for the disk meanwhile.
//!
//! A log can begin anew only when nothing in it is left to fold, which under steady load never happens by itself: when
//! it has grown to several times the length at which folding begins, the writer does the small rest on its own.

use std::cell::Cell;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::inbox::{Inbox, Took};
use crate::open::Database;
use crate::tx::Result;

/// 4,000 pages are 16 MB: few enough to be replayed in a blink after a crash, many enough that a page written by a
/// hundred commits is copied into the database once.
const FOLD_AT: usize = 4_000;
/// From here on the writer folds too.
const TOO_LONG: usize = 4 * FOLD_AT;

thread_local! {
    /// How long the log was after the last commit of this thread.
    static LOG_PAGES: Cell<usize> = const { Cell::new(0) };
}

/// Lets the log be measured at each commit of this connection, instead of being folded by it.
pub(crate) fn measure_log(conn: &Connection) {
    conn.wal_hook(Some(|_, pages| {
        LOG_PAGES.set(usize::try_from(pages).unwrap_or(0));
        Ok(())
    }));
}

/// Decides when to fold. Belongs to the writer thread.
pub(crate) struct Folder {
    /// `None` for a database in memory, which has no log.
    database: Option<Database>,
    /// Length of the log at which the helper is asked next, and the writer itself.
    ask_at: usize,
    help_at: usize,
    last: usize,
    helper: Option<Helper>,
}

impl Folder {
    pub(crate) fn new(database: Option<Database>) -> Self {
        Self {
            database,
            ask_at: FOLD_AT,
            help_at: TOO_LONG,
            last: 0,
            helper: None,
        }
    }

    /// Call after each commit.
    pub(crate) fn after_commit(&mut self, conn: &Connection) {
        let pages = LOG_PAGES.get();
        if pages < self.last {
            // The log began anew.
            self.ask_at = FOLD_AT;
            self.help_at = TOO_LONG;
        }
        self.last = pages;
        if pages >= self.help_at {
            self.help_at = pages + FOLD_AT;
            note("the writer", fold(conn));
        } else if pages >= self.ask_at {
            self.ask_at = pages + FOLD_AT;
            self.ask();
        }
    }

    fn ask(&mut self) {
        let Some(database) = &self.database else {
            return;
        };
        if self.helper.is_none() {
            self.helper = Helper::start(database.clone());
        }
        if let Some(helper) = &self.helper {
            // Closed only when the helper is gone; then the writer folds when the log is too long.
            let _ = helper.inbox.push(());
        }
    }
}

/// The thread that folds.
struct Helper {
    inbox: Arc<Inbox<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    fn start(database: Database) -> Option<Self> {
        let inbox = Arc::new(Inbox::new());
        let orders = Arc::clone(&inbox);
        let thread = thread::Builder::new()
            .name("duroxide-fold".to_owned())
            .spawn(move || fold_on_demand(&database, &orders));
        match thread {
            Ok(thread) => Some(Self {
                inbox,
                thread: Some(thread),
            }),
            Err(error) => {
                tracing::warn!(target: "duroxide::providers::sqlite", %error, "no thread to fold the log with");
                None
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.inbox.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(target: "duroxide::providers::sqlite", "the thread that folds the log ended by a panic");
        }
    }
}

fn fold_on_demand(database: &Database, orders: &Inbox<()>) {
    let mut conn: Option<Connection> = None;
    let mut taken = Vec::new();
    // Orders that queued up meanwhile are one.
    while orders.take(usize::MAX, None, &mut taken) == Took::Some {
        taken.clear();
        let folded = match conn.take() {
            Some(conn) => Ok(conn),
            None => database.open_folder(),
        }
        .and_then(|open| fold(&open).map(|()| open));
        // After a failure it is opened again for the next order.
        conn = match folded {
            Ok(open) => Some(open),
            Err(error) => {
                note("the helper", Err(error));
                None
            }
        };
    }
}

/// Copies what can be copied without making anybody wait.
fn fold(conn: &Connection) -> Result<()> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    Ok(())
}

fn note(who: &str, folded: Result<()>) {
    if let Err(error) = folded {
        tracing::debug!(target: "duroxide::providers::sqlite", %error, "{who} could not fold the log, it is tried again later");
    }
}
