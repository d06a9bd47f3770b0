//! Instances whose queue messages are held back. Claims and commits ask for each instance they meet; nearly always
//! there are none, and the writer remembers that. The table keeps its first name, `held_letters`. The messages
//! themselves are in `orchestrator_queue/held_back.rs`.

use crate::error::Result;
use crate::tx::{HeldQueueMessages, Tx};

/// How an instance holds its queue messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// No claim takes one.
    Closed,
    /// The hold is over, and some of them have yet to come back.
    Draining,
}

/// How the instance holds its queue messages, if it does.
pub(crate) fn of(tx: &Tx<'_>, instance: &str) -> Result<Option<Hold>> {
    if is_empty(tx)? {
        return Ok(None);
    }
    tx.first(
        "SELECT is_closed FROM held_letters WHERE instance_id = ?1",
        [instance],
        |row| {
            Ok(if row.get(0)? {
                Hold::Closed
            } else {
                Hold::Draining
            })
        },
    )
}

/// Sets how an instance holds its queue messages. One that has no row holds none: nothing would end with it.
pub(crate) fn set(tx: &Tx<'_>, instance: &str, hold: Hold) -> Result<()> {
    changes(tx);
    tx.execute(
        "INSERT INTO held_letters (instance_id, is_closed) SELECT instance_id, ?2 FROM instances WHERE instance_id = ?1
         ON CONFLICT (instance_id) DO UPDATE SET is_closed = excluded.is_closed",
        (instance, hold == Hold::Closed),
    )?;
    Ok(())
}

/// The instance holds none.
pub(crate) fn remove(tx: &Tx<'_>, instance: &str) -> Result<()> {
    changes(tx);
    tx.execute(
        "DELETE FROM held_letters WHERE instance_id = ?1",
        [instance],
    )?;
    Ok(())
}

/// Whether the writer knows that there are none.
fn is_empty(tx: &Tx<'_>) -> Result<bool> {
    let Some(memory) = tx.memory() else {
        return Ok(false);
    };
    let known = match memory.held_queue_messages() {
        Some(known) => known,
        None => match tx.first("SELECT 1 FROM held_letters LIMIT 1", [], |_| Ok(()))? {
            None => HeldQueueMessages::None,
            Some(()) => HeldQueueMessages::Some,
        },
    };
    memory.set_held_queue_messages(Some(known));
    Ok(known == HeldQueueMessages::None)
}

/// What the writer remembers of them no longer holds.
fn changes(tx: &Tx<'_>) {
    if let Some(memory) = tx.memory() {
        memory.set_held_queue_messages(None);
    }
}
