//! Instances that rest until a time, or until a message comes. Nearly always there are none, and the writer remembers
//! that.
//!
//! Usually the store hides the messages of such an instance meanwhile, so that claims never meet them. If a claim left
//! messages behind, those may be many, so the store holds the instance instead, with the reserved token `RESTING`,
//! which no caller has.

use super::instance_locks;
use crate::error::Result;
use crate::tx::{Rests, Tx};

/// Notes that the messages of an instance are not visible until a time that no other message of it has.
pub(crate) fn hide(tx: &Tx<'_>, instance: &str, until: i64) -> Result<()> {
    changes(tx);
    // Those that are over go with the next one that begins.
    tx.execute(
        "DELETE FROM rests WHERE until <= ?1 AND instance_id IN (SELECT instance_id FROM rests WHERE until <= ?1 LIMIT 100)",
        [tx.now],
    )?;
    tx.execute(
        "INSERT INTO rests (instance_id, until) VALUES (?1, ?2)
         ON CONFLICT (instance_id) DO UPDATE SET until = excluded.until",
        (instance, until),
    )?;
    Ok(())
}

/// Holds an instance that is not leased.
pub(crate) fn hold(tx: &Tx<'_>, instance: &str, until: i64) -> Result<()> {
    changes(tx);
    instance_locks::grant(tx, instance, instance_locks::RESTING, until)
}

/// What ended with the rest of an instance.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It did not rest.
    Nothing,
    /// Its messages are to be shown that have this time.
    Hidden(i64),
    /// It can be claimed again.
    Held,
}

/// The instance rests no more.
pub(crate) fn end(tx: &Tx<'_>, instance: &str) -> Result<Ended> {
    if is_empty(tx)? {
        return Ok(Ended::Nothing);
    }
    let hidden = tx.first(
        "DELETE FROM rests WHERE instance_id = ?1 RETURNING until",
        [instance],
        |row| row.get::<_, i64>(0),
    )?;
    if hidden.is_some() {
        changes(tx);
    }
    if let Some(until) = hidden.filter(|until| *until > tx.now) {
        return Ok(Ended::Hidden(until));
    }
    if instance_locks::release(tx, instance, instance_locks::RESTING)? {
        changes(tx);
        return Ok(Ended::Held);
    }
    Ok(Ended::Nothing)
}

/// Whether the writer knows that there are none.
fn is_empty(tx: &Tx<'_>) -> Result<bool> {
    let Some(memory) = tx.memory() else {
        return Ok(false);
    };
    let known = match memory.rests() {
        Some(known) => known,
        None => {
            let any = "SELECT 1 FROM rests WHERE until > ?2
                       UNION ALL SELECT 1 FROM instance_locks WHERE lock_token = ?1 AND locked_until > ?2 LIMIT 1";
            match tx.first(any, (instance_locks::RESTING, tx.now), |_| Ok(()))? {
                None => Rests::None,
                Some(()) => Rests::Some,
            }
        }
    };
    memory.set_rests(Some(known));
    Ok(known == Rests::None)
}

/// What the writer remembers of them no longer holds.
fn changes(tx: &Tx<'_>) {
    if let Some(memory) = tx.memory() {
        memory.set_rests(None);
    }
}
