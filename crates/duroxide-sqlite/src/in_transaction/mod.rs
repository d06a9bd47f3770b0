//! Your transaction, our start. In: an open transaction of the application, on the file of a store. Out: messages that
//! exist once it commits. Never begins or ends a transaction, and never asks the writer: it is another connection, as
//! that of another process is, and the writers of the stores on the file take what it committed into account.

mod messages;

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use duroxide_core::clock::{ClockRef, SystemClock};
use duroxide_core::provider::WorkItem;
use rusqlite::{Connection, Transaction};

use crate::codec;
use crate::connection::exclusive::FileUse;
use crate::connection::statements::Statements;
use crate::connection::{database, linked_sqlite, migrate};
use crate::error::{Result, SqliteError};
use crate::ops;
use crate::tables::orchestrator_queue::{Due, NewMessage};
use crate::tables::{self, closing};
use crate::tx::{Tx, stored_ms};

/// Sends to orchestrations inside a transaction of the application: what it sends commits or rolls back with the rest.
///
/// The tables of the application are in the file of the store, under names that the store does not use (give them a
/// prefix of your own). SQLite has one writer at a time: while the transaction is open, the stores on the file wait, so
/// keep it short, and await nothing of a store inside it. Begin it with
/// [`TransactionBehavior::Immediate`](rusqlite::TransactionBehavior): one that has read before another connection
/// committed cannot write any more, and has to begin again ([`SqliteError::Busy`]). Each call takes effect as a whole
/// or fails without any; the transaction goes on after a failure, unless SQLite ended it.
///
/// [`duroxide_sqlite::rusqlite`](rusqlite) is the release of rusqlite that this takes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use duroxide_core::provider::Provider;
/// use duroxide_sqlite::rusqlite::{Connection, TransactionBehavior};
/// use duroxide_sqlite::{SqliteProvider, Within};
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("shop.db");
/// let store = SqliteProvider::new(&format!("sqlite:{}", file.display()), None).await?;
/// let mut shop = Connection::open(&file)?;
/// shop.execute_batch("CREATE TABLE shop_orders (id TEXT PRIMARY KEY, total INTEGER)")?;
///
/// let tx = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
/// tx.execute("INSERT INTO shop_orders VALUES ('order-7', 12)", [])?;
/// Within::new(&tx)?.start_orchestration("order-7", "ProcessOrder", r#"{"total": 12}"#)?;
/// tx.commit()?;
///
/// let (lease, patience) = (Duration::from_secs(5), Duration::from_secs(10));
/// let claimed = store.fetch_orchestration_item(lease, patience, None).await?;
/// assert_eq!(claimed.expect("the order").0.instance, "order-7");
/// # Ok(())
/// # }
/// ```
pub struct Within<'t> {
    statements: Statements<'t>,
    clock: ClockRef,
    /// The latest time that is stored, or was given to a message.
    latest: Cell<i64>,
    /// No store that must have the file alone is open, nor opens it meanwhile.
    _file_use: FileUse,
}

impl<'t> Within<'t> {
    /// Sends to the orchestrations of the store whose file this transaction is on. Takes the write lock, if the
    /// transaction does not have it yet.
    ///
    /// # Errors
    ///
    /// If the file is of no store or of another schema version, the store is closed, the transaction cannot write, or
    /// the linked SQLite cannot share the file with a store that has it open ([`SqliteError::InUse`]).
    pub fn new(tx: &'t Transaction<'_>) -> Result<Self> {
        let conn: &'t Connection = tx;
        let path = conn.path().filter(|path| !path.is_empty()).ok_or_else(|| {
            ended("it is on a database in memory, which is of no store, or its path is not UTF-8")
        })?;
        let path = database::located(Path::new(path));
        let statements = Statements::new(conn);
        check_open(conn)?;
        // Before anything is read: what is read holds until the transaction ends.
        let locked = tables::take_write_lock(&statements);
        migrate::check_within(conn, &path)?;
        locked?;
        let file_use = FileUse::acquire(&path, linked_sqlite::checkpoints(false))?;
        closing::check(&Tx::new(&statements, 0))?;
        let latest = Cell::new(tables::latest_time(&statements)?.unwrap_or(0));
        Ok(Self {
            statements,
            clock: Arc::new(SystemClock),
            latest,
            _file_use: file_use,
        })
    }

    /// With the clock of the store, where that is one of your own ([`SqliteOptions::clock`](crate::SqliteOptions)).
    #[must_use]
    pub fn with_clock(mut self, clock: ClockRef) -> Self {
        self.clock = clock;
        self
    }

    /// Starts an orchestration; the version is chosen by the node that runs it.
    ///
    /// # Errors
    ///
    /// If the id, the name or the input cannot be stored, or the database fails.
    pub fn start_orchestration(&self, instance: &str, name: &str, input: &str) -> Result<()> {
        self.send(&messages::start(instance, name, None, input)?)
    }

    /// Starts a version of an orchestration.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration).
    pub fn start_orchestration_versioned(
        &self,
        instance: &str,
        name: &str,
        version: &str,
        input: &str,
    ) -> Result<()> {
        self.send(&messages::start(instance, name, Some(version), input)?)
    }

    /// Raises an event for a wait of an instance.
    ///
    /// # Errors
    ///
    /// If the id or the data cannot be stored, or the database fails.
    pub fn raise_event(&self, instance: &str, event_name: &str, data: &str) -> Result<()> {
        self.send(&messages::event(instance, event_name, data)?)
    }

    /// Puts a message into a queue of an instance.
    ///
    /// # Errors
    ///
    /// As [`raise_event`](Self::raise_event), and for a queue of the engine.
    pub fn enqueue_event(&self, instance: &str, queue: &str, data: &str) -> Result<()> {
        self.send(&messages::queue_message(instance, queue, data)?)
    }

    /// Asks an instance to cancel.
    ///
    /// # Errors
    ///
    /// If the id or the reason cannot be stored, or the database fails.
    pub fn cancel_instance(&self, instance: &str, reason: &str) -> Result<()> {
        self.send(&messages::cancel(instance, reason)?)
    }

    /// Enqueues one message, wholly or not at all.
    fn send(&self, item: &WorkItem) -> Result<()> {
        let message = codec::message(item, Due::After(None))?;
        let conn = self.statements.connection();
        // Without a transaction each statement would commit by itself.
        check_open(conn)?;
        self.statements.run("SAVEPOINT duroxide_send")?;
        let sent = self.enqueue(&message);
        // A full disk, for one, may have ended the transaction, and the savepoint with it.
        if conn.is_autocommit() {
            return sent;
        }
        if sent.is_err() {
            self.statements.run("ROLLBACK TO duroxide_send")?;
        }
        self.statements.run("RELEASE duroxide_send")?;
        sent
    }

    fn enqueue(&self, message: &NewMessage) -> Result<()> {
        ops::enqueue::message(&mut Tx::new(&self.statements, self.now()), message)
    }

    /// The time of the store, as another store that opens the file has it.
    fn now(&self) -> i64 {
        let clock = stored_ms(self.clock.now_ms());
        self.latest.set(self.latest.get().max(clock));
        self.latest.get()
    }
}

impl std::fmt::Debug for Within<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Within").finish_non_exhaustive()
    }
}

/// SQLite may have ended the transaction without the application: a statement said `OR ROLLBACK`, or the disk failed.
fn check_open(conn: &Connection) -> Result<()> {
    if conn.is_autocommit() {
        return Err(ended("it was rolled back before; begin another one"));
    }
    Ok(())
}

fn ended(why: &str) -> SqliteError {
    SqliteError::Database {
        detail: format!("the transaction cannot send: {why}"),
    }
}
