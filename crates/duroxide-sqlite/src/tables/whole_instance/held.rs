//! Which ids the tables hold anything of: instances in the order of their creation, then ids that only lie in queues.

use duroxide_core::provider::HeldIds;

use crate::error::Result;
use crate::tx::Tx;

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// After this row of the instances.
    Instance(i64),
    /// After this id, among those that only lie in queues.
    Queued(String),
}

impl Position {
    /// Reads what the page before told.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_at_checked(1)? {
            ("i", number) => number.parse().ok().map(Self::Instance),
            ("q", id) => Some(Self::Queued(id.to_owned())),
            _ => None,
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Instance(row) => format!("i{row}"),
            Self::Queued(id) => format!("q{id}"),
        }
    }
}

pub(crate) fn held(tx: &Tx<'_>, after: &Position, limit: u32) -> Result<HeldIds> {
    let limit = i64::from(limit.max(1));
    match after {
        Position::Instance(row) => {
            let found: Vec<(i64, String)> = tx.all(
                "SELECT rowid, instance_id FROM instances WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
                (row, limit),
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let next = match found.last() {
                Some((row, _)) if found.len() as i64 == limit => Position::Instance(*row),
                _ => Position::Queued(String::new()),
            };
            Ok(HeldIds {
                ids: found.into_iter().map(|(_, id)| id).collect(),
                next: Some(next.told()),
            })
        }
        Position::Queued(id) => queued(tx, id, limit),
    }
}

/// Ids without an instance. The empty id comes first, if it is there at all: it stands for letters that name no instance.
fn queued(tx: &Tx<'_>, after: &str, limit: i64) -> Result<HeldIds> {
    let mut ids: Vec<String> = tx.all(
        "SELECT id FROM (
             SELECT DISTINCT instance_id AS id FROM orchestrator_queue WHERE instance_id > ?1
             UNION SELECT DISTINCT instance_id FROM worker_queue WHERE instance_id > ?1
             UNION SELECT DISTINCT instance_id FROM executions WHERE instance_id > ?1
             UNION SELECT DISTINCT instance_id FROM dead_letters WHERE instance_id IS NOT NULL AND instance_id > ?1)
         WHERE NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.instance_id = id)
         ORDER BY id LIMIT ?2",
        (after, limit),
        |row| row.get(0),
    )?;
    let next = match ids.last() {
        Some(last) if ids.len() as i64 == limit => Some(Position::Queued(last.clone()).told()),
        _ => None,
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
    Ok(HeldIds { ids, next })
}
