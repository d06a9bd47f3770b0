//! The code that instances run. In: a name or a version. Out: the pairs of both that some instance has, read from the
//! index of handlers by leaps from one pair to the next.

use crate::error::Result;
use crate::tx::Tx;

/// A name and a version that some instance has; one without a version has `unknown`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handler {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// The pairs of a name; `None` if there are more than `max`.
pub(crate) fn versions_of(tx: &Tx<'_>, name: &str, max: usize) -> Result<Option<Vec<Handler>>> {
    let mut found: Vec<Handler> = Vec::new();
    let mut next: Option<String> = tx.first(FIRST_VERSION, [name], |row| row.get(0))?;
    while let Some(version) = next {
        if found.len() == max {
            return Ok(None);
        }
        next = tx.first(NEXT_VERSION, (name, &version), |row| row.get(0))?;
        let name = name.to_owned();
        found.push(Handler { name, version });
    }
    Ok(Some(found))
}

/// The pairs of a version; `None` if more than `max` names would have to be looked at.
pub(crate) fn names_with(tx: &Tx<'_>, version: &str, max: usize) -> Result<Option<Vec<Handler>>> {
    let mut found: Vec<Handler> = Vec::new();
    let mut next: Option<String> = tx.first(FIRST_NAME, [], |row| row.get(0))?;
    for _ in 0..max {
        let Some(name) = next else {
            return Ok(Some(found));
        };
        next = tx.first(NEXT_NAME, [&name], |row| row.get(0))?;
        if has(tx, &name, version)? {
            let version = version.to_owned();
            found.push(Handler { name, version });
        }
    }
    Ok(next.is_none().then_some(found))
}

fn has(tx: &Tx<'_>, name: &str, version: &str) -> Result<bool> {
    tx.one(HAS, (name, version), |row| row.get(0))
}

// The index ends each of these at its first entry.

pub(super) const FIRST_VERSION: &str =
    "SELECT COALESCE(orchestration_version, 'unknown') AS version
    FROM instances INDEXED BY idx_instances_handler WHERE orchestration_name = ?1
    ORDER BY COALESCE(orchestration_version, 'unknown') LIMIT 1";

pub(super) const NEXT_VERSION: &str = "SELECT COALESCE(orchestration_version, 'unknown') AS version
    FROM instances INDEXED BY idx_instances_handler
    WHERE orchestration_name = ?1 AND COALESCE(orchestration_version, 'unknown') > ?2
    ORDER BY COALESCE(orchestration_version, 'unknown') LIMIT 1";

pub(super) const FIRST_NAME: &str = "SELECT orchestration_name FROM instances INDEXED BY idx_instances_handler ORDER BY orchestration_name LIMIT 1";

pub(super) const NEXT_NAME: &str =
    "SELECT orchestration_name FROM instances INDEXED BY idx_instances_handler
    WHERE orchestration_name > ?1 ORDER BY orchestration_name LIMIT 1";

pub(super) const HAS: &str =
    "SELECT EXISTS (SELECT 1 FROM instances INDEXED BY idx_instances_handler
    WHERE orchestration_name = ?1 AND COALESCE(orchestration_version, 'unknown') = ?2)";
