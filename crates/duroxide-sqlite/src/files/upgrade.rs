//! Bringing the schema of a file up to this build, because an operator asked for it.

use std::path::Path;

use rusqlite::OpenFlags;

use super::open;
use crate::connection::exclusive::FileUse;
use crate::connection::{database, migrate};
use crate::error::Result;
use crate::options::OtherPrograms;

/// The way from the schema of a file to that of this build.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upgrade {
    /// The schema version that the file has.
    pub from: u64,
    /// The schema version that this build writes.
    pub to: u64,
    /// The SQL of each step that is missing, in order.
    pub steps: Vec<&'static str>,
}

/// What an upgrade of the file would do; nothing is changed. Blocks.
///
/// # Errors
///
/// If the file is not a store or was written by a newer build, or the disk fails.
pub fn planned_upgrade(path: &Path) -> Result<Upgrade> {
    let path = &database::located(path);
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    plan(migrate::upgradable_version(&conn, path)?)
}

/// Brings the schema of the file up to this build, in one transaction, and says what was done. Blocks.
///
/// A program of an older build that has the file open cannot commit any more: hence [`OtherPrograms`].
///
/// # Errors
///
/// If the file is not a store or was written by a newer build, another program has it open and must not be disturbed or
/// cannot share it, or the disk fails.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use duroxide_sqlite::{OtherPrograms, SqliteProvider, planned_upgrade, upgrade};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await?.close().await;
/// let plan = planned_upgrade(&path)?;
/// assert!(plan.steps.is_empty(), "this build made the file");
/// assert_eq!(upgrade(&path, OtherPrograms::Refuse)?, plan);
/// # Ok(())
/// # }
/// ```
pub fn upgrade(path: &Path, others: OtherPrograms) -> Result<Upgrade> {
    let path = &database::located(path);
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let from = migrate::upgradable_version(&conn, path)?;
    let _held = FileUse::for_files(path, others)?;
    migrate::run(&conn, path)?;
    plan(from)
}

fn plan(from: i64) -> Result<Upgrade> {
    let (from, to) = (u64::try_from(from).unwrap_or(0), migrate::known_version());
    Ok(Upgrade {
        from,
        to: u64::try_from(to).unwrap_or(0),
        steps: migrate::steps_after(from).to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_does_what_its_plan_says_and_does_it_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        migrate::run_up_to(&conn, 2).unwrap();
        drop(conn);
        let plan = planned_upgrade(&path).unwrap();
        assert_eq!(plan.from, 2);
        assert_eq!(plan.steps.len() as u64, plan.to - plan.from);
        assert_eq!(upgrade(&path, OtherPrograms::Refuse).unwrap(), plan);
        let again = upgrade(&path, OtherPrograms::Refuse).unwrap();
        assert_eq!((again.from, again.steps.len()), (again.to, 0));
    }
}
