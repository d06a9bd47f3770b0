//! Activities that can be claimed: which tags, sessions and names there are, and the oldest items of each. Everything
//! is found over `idx_worker_available`.

use duroxide_core::provider::Incarnation;
use rusqlite::Row;

use crate::error::Result;
use crate::tables::instances::incarnation_in;
use crate::tx::{Tx, payload};

/// An activity that can be claimed.
#[derive(Debug)]
pub(crate) struct Free {
    pub(crate) id: i64,
    pub(crate) session: Option<String>,
    pub(crate) json: Vec<u8>,
    /// This claim included.
    pub(crate) attempts: u32,
    pub(crate) incarnation: Option<Incarnation>,
}

impl Free {
    /// An item that is bound to a session, as the index has it; [`read_free`] reads the rest.
    pub(crate) fn bound(id: i64, session: &str) -> Self {
        Self {
            id,
            session: Some(session.to_owned()),
            json: Vec::new(),
            attempts: 0,
            incarnation: None,
        }
    }
}

/// Tags that free items have, other than none.
pub(crate) fn free_tags(tx: &Tx<'_>) -> Result<Vec<String>> {
    distinct(
        |after| {
            tx.one(
                "SELECT MIN(tag) FROM worker_queue WHERE locked_until IS NULL AND tag > ?1",
                [after],
                |row| row.get(0),
            )
        },
        || {
            tx.one(
                "SELECT MIN(tag) FROM worker_queue WHERE locked_until IS NULL AND tag IS NOT NULL",
                [],
                |row| row.get(0),
            )
        },
    )
}

/// Sessions that free items with this tag are bound to.
pub(crate) fn free_sessions(tx: &Tx<'_>, tag: Option<&str>) -> Result<Vec<String>> {
    distinct(
        |after| {
            tx.one(
                "SELECT MIN(session_id) FROM worker_queue
                 WHERE locked_until IS NULL AND tag IS ?1 AND session_id > ?2",
                (tag, after),
                |row| row.get(0),
            )
        },
        || {
            tx.one(
                "SELECT MIN(session_id) FROM worker_queue
                 WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS NOT NULL",
                [tag],
                |row| row.get(0),
            )
        },
    )
}

/// Names of the activities among free items with this tag and session; those that cannot be read have none.
pub(crate) fn free_names(
    tx: &Tx<'_>,
    tag: Option<&str>,
    session: Option<&str>,
) -> Result<Vec<String>> {
    distinct(
        |after| {
            tx.one(
                "SELECT MIN(name) FROM worker_queue INDEXED BY idx_worker_available
                 WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS ?2 AND name > ?3",
                (tag, session, after),
                |row| row.get(0),
            )
        },
        || {
            tx.one(
                "SELECT MIN(name) FROM worker_queue INDEXED BY idx_worker_available
                 WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS ?2 AND name IS NOT NULL",
                (tag, session),
                |row| row.get(0),
            )
        },
    )
}

/// Walks from value to value by index seeks: the cost follows the number of different values, not of rows.
fn distinct(
    next: impl Fn(&str) -> Result<Option<String>>,
    first: impl Fn() -> Result<Option<String>>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut value = first()?;
    while let Some(current) = value {
        value = next(&current)?;
        found.push(current);
    }
    Ok(found)
}

/// What is read of free items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// All that a claim needs.
    Whole,
    /// What stands in the index; [`read_free`] reads the rest of one item.
    IndexOnly,
}

/// Free and visible items with exactly this tag and no session: of each name that fits the oldest, at most `limit`, and
/// those that have no name because they cannot be read. One statement goes on from name to name, and another one begins
/// only where something is to be passed over.
pub(crate) fn free(
    tx: &Tx<'_>,
    columns: Columns,
    tag: Option<&str>,
    limit: usize,
    has_code: impl Fn(&str) -> bool,
    is_damaged: impl Fn(i64) -> bool,
) -> Result<Vec<Free>> {
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut passed_over = None;
        let mut current: Option<String> = None;
        let mut count = 0_usize;
        let visit = |row: &Row<'_>| {
            let name = row
                .get_ref(4)?
                .as_str_or_null()
                .map_err(rusqlite::Error::from)?;
            if current.as_deref() != name {
                current = name.map(str::to_owned);
                count = 0;
            }
            let is_wanted = count < limit && name.is_none_or(&has_code);
            if is_wanted {
                if row.get::<_, i64>(5)? <= tx.now && !is_damaged(row.get(0)?) {
                    count += 1;
                    found.push(free_item(row, None)?);
                }
                return Ok(true);
            }
            passed_over = Some(name.unwrap_or_default().to_owned());
            Ok(false)
        };
        match columns {
            Columns::Whole => walk_free(tx, tag, after.as_deref(), visit)?,
            Columns::IndexOnly => walk_index(tx, tag, after.as_deref(), visit)?,
        }
        if passed_over.is_none() {
            return Ok(found);
        }
        after = passed_over;
    }
}

/// Free items by name and age, those without a name first; or those of later names. What is not visible yet is not
/// read.
fn walk_free(
    tx: &Tx<'_>,
    tag: Option<&str>,
    after: Option<&str>,
    visit: impl FnMut(&Row<'_>) -> Result<bool>,
) -> Result<()> {
    match after {
        None => tx.walk(
            "SELECT id, CASE WHEN visible_at <= ?2 THEN work_item END, attempt_count + 1, incarnation, name, visible_at
             FROM worker_queue INDEXED BY idx_worker_available
             WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS NULL
             ORDER BY name, id",
            (tag, tx.now),
            visit,
        ),
        Some(after) => tx.walk(
            "SELECT id, CASE WHEN visible_at <= ?2 THEN work_item END, attempt_count + 1, incarnation, name, visible_at
             FROM worker_queue INDEXED BY idx_worker_available
             WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS NULL AND name > ?3
             ORDER BY name, id",
            (tag, tx.now, after),
            visit,
        ),
    }
}

/// As [`walk_free`], without touching the table.
fn walk_index(
    tx: &Tx<'_>,
    tag: Option<&str>,
    after: Option<&str>,
    visit: impl FnMut(&Row<'_>) -> Result<bool>,
) -> Result<()> {
    tx.walk(
        "SELECT id, '', 0, NULL, name, visible_at FROM worker_queue INDEXED BY idx_worker_available
         WHERE locked_until IS NULL AND tag IS ?1 AND session_id IS NULL AND (name > ?2 OR ?2 IS NULL)
         ORDER BY name, id",
        (tag, after),
        visit,
    )
}

/// Reads what the index does not hold of a free item.
pub(crate) fn read_free(tx: &Tx<'_>, item: &mut Free) -> Result<()> {
    let session = item.session.take();
    *item = tx.one(
        "SELECT id, work_item, attempt_count + 1, incarnation FROM worker_queue WHERE id = ?1",
        [item.id],
        |row| free_item(row, session.as_deref()),
    )?;
    Ok(())
}

fn free_item(row: &Row<'_>, session: Option<&str>) -> rusqlite::Result<Free> {
    Ok(Free {
        id: row.get(0)?,
        session: session.map(str::to_owned),
        json: payload(row, 1)?,
        attempts: row.get::<_, i64>(2)?.try_into().unwrap_or(u32::MAX),
        incarnation: incarnation_in(row, 3)?,
    })
}
