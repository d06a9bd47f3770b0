//! Which ids the tables hold anything of. In: where the page before ended. Out: a page of ids: instances in the order
//! of their creation, then ids that only lie in queues, then those of which only executions are there. All pages
//! together walk each index once, however many there are.

use duroxide_core::provider::HeldIds;

use crate::error::Result;
use crate::tables::readable;
use crate::tx::Tx;

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// After this row of the instances.
    Instance(i64),
    /// After this id, among those that only lie in queues.
    Queued(String),
    /// After this id, among those of which only executions are there.
    Executed(String),
}

impl Position {
    /// Reads what the page before returned.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_at_checked(1)? {
            ("i", number) => number.parse().ok().map(Self::Instance),
            ("q", id) => Some(Self::Queued(id.to_owned())),
            ("e", id) => Some(Self::Executed(id.to_owned())),
            _ => None,
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Instance(row) => format!("i{row}"),
            Self::Queued(id) => format!("q{id}"),
            Self::Executed(id) => format!("e{id}"),
        }
    }
}

pub(crate) fn held(tx: &Tx<'_>, after: &Position, limit: u32) -> Result<HeldIds> {
    let limit = i64::from(limit.max(1));
    match after {
        Position::Instance(row) => {
            let found = tx.all(
                "SELECT rowid, instance_id FROM instances WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
                (row, limit),
                |row| Ok((row.get(0)?, row.get(1)?)),
            );
            let found: Vec<(i64, String)> =
                readable::or_one_by_one(found, || readable::rows_after(tx, *row, limit))?;
            let next = match found.last() {
                Some((row, _)) if found.len() as i64 == limit => Position::Instance(*row),
                _ => Position::Queued(String::new()),
            };
            Ok(HeldIds {
                ids: found.into_iter().map(|(_, id)| id).collect(),
                next: Some(next.to_text()),
            })
        }
        Position::Queued(id) => queued(tx, id, limit),
        Position::Executed(id) => executed(tx, id, limit),
    }
}

/// Ids without an instance. The empty id comes first, if it is there at all: it stands for dead letters that name no
/// instance. Each branch walks the index of its table from `after` on, and stops when it has found enough.
fn queued(tx: &Tx<'_>, after: &str, limit: i64) -> Result<HeldIds> {
    let mut ids: Vec<String> = tx.all(
        "SELECT id FROM (
             SELECT id FROM (SELECT DISTINCT q.instance_id AS id FROM orchestrator_queue AS q INDEXED BY idx_orch_instance
                 WHERE q.instance_id > ?1
                     AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = q.instance_id)
                 ORDER BY 1 LIMIT ?2)
             UNION SELECT id FROM (SELECT DISTINCT w.instance_id AS id FROM worker_queue AS w INDEXED BY idx_worker_activity
                 WHERE w.instance_id > ?1
                     AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = w.instance_id)
                 ORDER BY 1 LIMIT ?2)
             UNION SELECT id FROM (SELECT DISTINCT d.instance_id AS id
                 FROM dead_letters AS d INDEXED BY idx_dead_letters_instance
                 WHERE d.instance_id IS NOT NULL AND d.instance_id > ?1
                     AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = d.instance_id)
                 ORDER BY 1 LIMIT ?2))
         ORDER BY id LIMIT ?2",
        (after, limit),
        |row| row.get(0),
    )?;
    let next = match ids.last() {
        Some(last) if ids.len() as i64 == limit => Position::Queued(last.clone()),
        _ => Position::Executed(String::new()),
    };
    if after.is_empty() {
        let nameless = tx.first(
            "SELECT 1 FROM dead_letters WHERE instance_id IS NULL OR instance_id = '' LIMIT 1",
            [],
            |_| Ok(()),
        )?;
        if nameless.is_some() {
            ids.insert(0, String::new());
        }
    }
    let next = Some(next.to_text());
    Ok(HeldIds { ids, next })
}

/// Ids of which executions are there and no instance: what is left of deleted ones, and what was written by hand.
fn executed(tx: &Tx<'_>, after: &str, limit: i64) -> Result<HeldIds> {
    let ids: Vec<String> = tx.all(
        "SELECT DISTINCT e.instance_id FROM executions AS e WHERE e.instance_id > ?1
             AND NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = e.instance_id)
         ORDER BY 1 LIMIT ?2",
        (after, limit),
        |row| row.get(0),
    )?;
    let is_full = ids.len() as i64 == limit;
    let last = ids.last().filter(|_| is_full);
    let next = last.map(|id| Position::Executed(id.clone()).to_text());
    Ok(HeldIds { ids, next })
}
