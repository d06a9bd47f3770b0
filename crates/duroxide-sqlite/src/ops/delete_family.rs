//! Deletes a finished family that is too large for one transaction: from its leaves to its root, a few instances at a
//! time. In: the family as a reader saw it. Out: what went. Each step looks again inside its transaction: a member that
//! came back to life, or is another life by now, ends the deletion, and the members above it stay. If the process dies
//! in between, the root is still there, and the next deletion goes on with what is left.

use std::collections::HashSet;

use duroxide_core::provider::Incarnation;

use super::delete;
use super::inspect::descend;
use super::steps::STEP_INSTANCES;
use crate::error::Result;
use crate::tables::instances;
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// An instance and which life of its id it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    id: String,
    life: Option<Incarnation>,
}

/// A family as it was read, parents before children.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    root: String,
    ended_before: Option<i64>,
    left: Vec<Member>,
}

/// The family of a root; `None` if it is no finished root any more, or anything of the family is live. For a reader:
/// it may be large.
pub(crate) fn read(tx: &Tx<'_>, root: &str, ended_before: Option<i64>) -> Result<Option<Family>> {
    if !instances::is_finished_root(tx, root, ended_before)? {
        return Ok(None);
    }
    let mut left = Vec::new();
    for id in descend(tx, root)? {
        if instances::is_live(tx, &id)? {
            return Ok(None);
        }
        let life = instances::incarnation(tx, &id)?;
        left.push(Member { id, life });
    }
    Ok(Some(Family {
        root: root.to_owned(),
        ended_before,
        left,
    }))
}

impl Family {
    /// Those that go next, children before their parents; nothing when all are gone.
    pub(crate) fn next(&self) -> Vec<Member> {
        let last = self.left.len().saturating_sub(STEP_INSTANCES);
        self.left[last..].to_vec()
    }

    /// They are gone.
    pub(crate) fn gone(&mut self, members: &[Member]) {
        self.left.truncate(self.left.len() - members.len());
    }

    pub(crate) fn root(&self) -> (&str, Option<i64>) {
        (&self.root, self.ended_before)
    }
}

/// Deletes some members of a family; `None` and nothing if the family is not what it was.
pub(crate) fn step(
    tx: &mut WriterTx<'_>,
    (root, ended_before): (&str, Option<i64>),
    members: &[Member],
) -> Result<Option<delete::Deleted>> {
    if !instances::is_finished_root(tx, root, ended_before)? {
        return Ok(None);
    }
    let going: HashSet<&str> = members.iter().map(|member| member.id.as_str()).collect();
    for member in members {
        let id = member.id.as_str();
        if instances::incarnation(tx, id)? != member.life || instances::is_live(tx, id)? {
            return Ok(None);
        }
        let children = instances::children(tx, id)?;
        if children.iter().any(|child| !going.contains(child.as_str())) {
            return Ok(None);
        }
    }
    let ids: Vec<String> = members.iter().map(|member| member.id.clone()).collect();
    delete::some(tx, &ids).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::database::open_memory;
    use crate::connection::statements::Statements;
    use crate::ops::steps::STEP_ROWS;
    use crate::writer_tx::testing::Writer;

    /// A root with this many children, and a grandchild each, all of them finished.
    fn family(children: u32) -> rusqlite::Connection {
        let conn = open_memory().unwrap();
        conn.execute_batch(&format!(
            "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {children})
                 SELECT x FROM n;
             INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at, incarnation)
                 VALUES ('root', 'o', 0, 0, 1);
             INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at, incarnation, parent_instance_id,
                     parent_incarnation)
                 SELECT 'c' || x, 'o', 0, 0, 1000000 + x, 'root', 1 FROM n
                 UNION ALL SELECT 'g' || x, 'o', 0, 0, 2000000 + x, 'c' || x, 1000000 + x FROM n;
             INSERT INTO executions (instance_id, execution_id, status, started_at, completed_at)
                 SELECT instance_id, 1, 'Completed', 0, 0 FROM instances;
             INSERT INTO history SELECT instance_id, 1, 1, 'e', '{{}}', 0 FROM instances;"
        ))
        .unwrap();
        conn
    }

    fn left(conn: &rusqlite::Connection) -> u32 {
        let sql = "SELECT COUNT(*) FROM instances";
        conn.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_large_family_goes_from_its_leaves_in_bounded_steps() {
        let conn = family(5_000);
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let found = read(&Tx::new(&statements, 1), "root", None).unwrap();
        let mut family = found.expect("all of it has ended");
        let mut deleted = 0;
        loop {
            let members = family.next();
            if members.is_empty() {
                break;
            }
            let before = conn.total_changes();
            let mut tx = writer.tx(&statements, 1);
            let gone = step(&mut tx, family.root(), &members).unwrap();
            let changes = conn.total_changes() - before;
            assert!(changes <= STEP_ROWS as u64 * 11 / 10, "{changes} rows");
            let orphans: u32 = conn
                .query_row(
                    "SELECT COUNT(*) FROM instances AS c WHERE parent_instance_id IS NOT NULL
                     AND NOT EXISTS (SELECT 1 FROM instances AS p WHERE p.instance_id = c.parent_instance_id)",
                    [],
                    |row| row.get(0),
                )
                .unwrap();
            assert_eq!(orphans, 0, "no child is left without its parent");
            deleted += gone.expect("it is what it was").counts.instances_deleted;
            family.gone(&members);
        }
        assert_eq!((deleted, left(&conn)), (10_001, 0));
    }

    #[test]
    fn a_member_that_lives_again_ends_the_deletion() {
        for change in [
            "UPDATE executions SET status = 'Running' WHERE instance_id = 'g3'",
            "UPDATE instances SET incarnation = 7 WHERE instance_id = 'g3'",
            "UPDATE executions SET status = 'Running' WHERE instance_id = 'root'",
            "INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at, parent_instance_id, parent_incarnation)
                 VALUES ('late', 'o', 0, 0, 'g3', 2000003)",
        ] {
            let conn = family(3);
            let statements = Statements::new(&conn);
            let writer = Writer::new();
            let found = read(&Tx::new(&statements, 1), "root", None).unwrap();
            let family = found.expect("all of it has ended");
            conn.execute_batch(change).unwrap();
            let before = left(&conn);
            let members = family.next();
            let gone = step(&mut writer.tx(&statements, 1), family.root(), &members).unwrap();
            assert!(gone.is_none(), "{change}");
            assert_eq!(left(&conn), before, "{change}");
        }
    }
}
