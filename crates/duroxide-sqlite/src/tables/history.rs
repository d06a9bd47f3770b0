//! Events. In: encoded events with their numbers. Out: the same bytes, in order. Clustered by instance and execution,
//! so that one history is one range. No event is decoded here, and none is changed.

use duroxide_core::provider::rules::Refusal;
use rusqlite::ErrorCode;
use rusqlite::types::ValueRef;

use crate::error::Result;
use crate::tables::budget::{rows, spend};
use crate::tx::{Tx, Unsigned, count as count_of, payload, unsigned};

/// An event ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewEvent {
    pub(crate) event_id: u64,
    pub(crate) event_type: &'static str,
    pub(crate) json: String,
}

pub(crate) fn append(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    event: &NewEvent,
) -> Result<()> {
    let written = tx.execute_raw(
        "INSERT INTO history (instance_id, execution_id, event_id, event_type, event_data, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            instance,
            Unsigned(execution_id),
            Unsigned(event.event_id),
            event.event_type,
            &event.json,
            tx.now,
        ),
    );
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(Refusal::DuplicateEvent {
                instance: instance.to_owned(),
                execution_id,
                event_id: event.event_id,
            }
            .into())
        }
        Err(error) => Err(error.into()),
    }
}

/// One execution's events in order, as stored.
pub(crate) fn load(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<Vec<Vec<u8>>> {
    tx.all(
        "SELECT event_data FROM history WHERE instance_id = ?1 AND execution_id = ?2 ORDER BY event_id",
        (instance, Unsigned(execution_id)),
        |row| payload(row, 0),
    )
}

/// The events of an execution as a bounded read finds them.
pub(crate) enum UpTo {
    /// All of them in order, as stored.
    All(Vec<Vec<u8>>),
    /// They have more bytes than was allowed; so many were read to find out.
    TooLarge { read: usize },
}

/// One execution's events, if they have no more bytes than `bytes_max`. No event beyond that is read, however large the
/// execution or one of its events is.
pub(crate) fn load_up_to(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    bytes_max: usize,
) -> Result<UpTo> {
    let mut events = Vec::new();
    let mut read = 0_usize;
    let mut is_all = true;
    tx.walk(
        "SELECT CASE WHEN octet_length(event_data) <= ?3 THEN event_data END FROM history
         WHERE instance_id = ?1 AND execution_id = ?2 ORDER BY event_id",
        (instance, Unsigned(execution_id), as_i64(bytes_max)),
        |row| {
            is_all = !matches!(row.get_ref(0)?, ValueRef::Null);
            if is_all {
                let event = payload(row, 0)?;
                read += event.len();
                events.push(event);
                is_all = read <= bytes_max;
            }
            Ok(is_all)
        },
    )?;
    Ok(if is_all {
        UpTo::All(events)
    } else {
        UpTo::TooLarge { read }
    })
}

/// Some events of an execution, one after the other.
pub(crate) struct Part {
    pub(crate) events: Vec<Vec<u8>>,
    /// The last of them; `None` if there is none.
    pub(crate) last: Option<u64>,
}

/// Events of one execution in order, as stored: those after an event, or from the first on, and up to another one,
/// until they have `bytes_max` bytes. At least one, if there is one.
pub(crate) fn load_part(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    (after, up_to): (Option<u64>, u64),
    bytes_max: usize,
) -> Result<Part> {
    let mut part = Part {
        events: Vec::new(),
        last: None,
    };
    let mut bytes = 0_usize;
    tx.walk(
        "SELECT event_id, event_data FROM history
         WHERE instance_id = ?1 AND execution_id = ?2 AND event_id > COALESCE(?3, -1) AND event_id <= ?4
         ORDER BY event_id",
        (
            instance,
            Unsigned(execution_id),
            after.map(Unsigned),
            Unsigned(up_to),
        ),
        |row| {
            let event = payload(row, 1)?;
            bytes += event.len();
            part.events.push(event);
            part.last = Some(unsigned(row, 0)?);
            Ok(bytes < bytes_max)
        },
    )?;
    Ok(part)
}

fn as_i64(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The last event's id.
pub(crate) fn last_event_id(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<Option<u64>> {
    tx.one(
        "SELECT MAX(event_id) FROM history WHERE instance_id = ?1 AND execution_id = ?2",
        (instance, Unsigned(execution_id)),
        |row| match row.get::<_, Option<i64>>(0)? {
            Some(_) => unsigned(row, 0).map(Some),
            None => Ok(None),
        },
    )
}

/// The first event of a type, as stored.
pub(crate) fn first_of_type(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    event_type: &str,
) -> Result<Option<Vec<u8>>> {
    tx.first(
        "SELECT event_data FROM history WHERE instance_id = ?1 AND execution_id = ?2 AND event_type = ?3
         ORDER BY event_id LIMIT 1",
        (instance, Unsigned(execution_id), event_type),
        |row| payload(row, 0),
    )
}

/// The last event of a type, as stored. Read backwards: the event that ends an execution is its last.
pub(crate) fn last_of_type(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    event_type: &str,
) -> Result<Option<Vec<u8>>> {
    tx.first(
        "SELECT event_data FROM history WHERE instance_id = ?1 AND execution_id = ?2 AND event_type = ?3
         ORDER BY event_id DESC LIMIT 1",
        (instance, Unsigned(execution_id), event_type),
        |row| payload(row, 0),
    )
}

/// Number of events and their size in bytes.
pub(crate) fn size(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<(u64, u64)> {
    tx.one(
        "SELECT COUNT(*), COALESCE(SUM(OCTET_LENGTH(event_data)), 0) FROM history
         WHERE instance_id = ?1 AND execution_id = ?2",
        (instance, Unsigned(execution_id)),
        |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)),
    )
}

/// Number of events of one execution.
pub(crate) fn count(tx: &Tx<'_>, instance: &str, execution_id: u64) -> Result<usize> {
    tx.one(
        "SELECT COUNT(*) FROM history WHERE instance_id = ?1 AND execution_id = ?2",
        (instance, Unsigned(execution_id)),
        |row| count_of(row, 0),
    )
}

/// Number of all events.
pub(crate) fn count_all(tx: &Tx<'_>) -> Result<u64> {
    tx.one("SELECT COUNT(*) FROM history", [], |row| unsigned(row, 0))
}

/// Deletes the first events of an execution, as many as are left to the transaction; returns how many.
pub(crate) fn delete_some(
    tx: &Tx<'_>,
    instance: &str,
    execution_id: u64,
    left: &mut usize,
) -> Result<usize> {
    let mut last: Option<i64> = None;
    let budget = rows(*left);
    tx.walk(
        "SELECT event_id, octet_length(event_data) FROM history WHERE instance_id = ?1 AND execution_id = ?2
         ORDER BY event_id LIMIT ?3",
        (instance, Unsigned(execution_id), budget),
        |row| {
            last = Some(row.get(0)?);
            spend(left, row.get(1)?);
            Ok(*left > 0)
        },
    )?;
    let Some(last) = last else {
        return Ok(0);
    };
    tx.execute(
        "DELETE FROM history WHERE instance_id = ?1 AND execution_id = ?2 AND event_id <= ?3",
        (instance, Unsigned(execution_id), last),
    )
}

/// Deletes events of an instance, as many as are left to the transaction; returns how many.
pub(crate) fn delete_instance(tx: &Tx<'_>, instance: &str, left: &mut usize) -> Result<usize> {
    let mut last: Option<(i64, i64)> = None;
    let budget = rows(*left);
    tx.walk(
        "SELECT execution_id, event_id, octet_length(event_data) FROM history WHERE instance_id = ?1
         ORDER BY execution_id, event_id LIMIT ?2",
        (instance, budget),
        |row| {
            last = Some((row.get(0)?, row.get(1)?));
            spend(left, row.get(2)?);
            Ok(*left > 0)
        },
    )?;
    let Some((execution_id, event_id)) = last else {
        return Ok(0);
    };
    tx.execute(
        "DELETE FROM history WHERE instance_id = ?1 AND (execution_id, event_id) <= (?2, ?3)",
        (instance, execution_id, event_id),
    )
}
