//! Pages and counts where a page of the file cannot be read. In: the question, as the statements beside this file have
//! it. Out: the same answer, found instance by instance: of each what can be read, and of one whose row cannot be read
//! what indexes hold of it. Never asked while everything can be read.

use std::collections::{BTreeMap, HashSet};

use duroxide_core::provider::{InstanceStatus, InstanceSummary};

use super::{Beyond, Criteria, Group, PageOrder, Source, status_bit, summary};
use crate::error::{Result, SqliteError};
use crate::tables::readable::unless_damaged;
use crate::tables::{blocked, dead_letters, executions, pauses};
use crate::tx::{Tx, shown_ms};

/// At most `limit` instances in this order.
pub(crate) fn page(
    tx: &Tx<'_>,
    criteria: &Criteria,
    order: PageOrder,
    beyond: Beyond<'_>,
    limit: u32,
) -> Result<Vec<InstanceSummary>> {
    let look = Look::new(tx, criteria)?;
    let mut found = Vec::new();
    walk(tx, order, within(criteria, order, beyond), |at, id| {
        if is_past(criteria, order, at) {
            return Ok(false);
        }
        found.extend(look.summary(id)?);
        Ok(found.len() < limit as usize)
    })?;
    Ok(found)
}

/// How many instances there are in each group, the largest first.
pub(crate) fn counts(tx: &Tx<'_>, criteria: &Criteria, group: Group) -> Result<Vec<(String, u64)>> {
    let look = Look::new(tx, criteria)?;
    counted(tx, |id| {
        if !look.may_admit(id) {
            return Ok(None);
        }
        let one = look.only(id);
        if let Some(counts) = unless_damaged(super::counts(tx, Source::Prefix, &one, group))? {
            return Ok(counts.into_iter().next().map(|(key, _)| key));
        }
        Ok(look.part(id)?.map(|summary| match group {
            Group::Nothing => String::new(),
            Group::Status => summary.status.as_str().to_owned(),
            Group::Name => summary.name,
            Group::Version => summary.version,
        }))
    })
}

/// How many of the admitted instances have each value of a label, the largest group first.
pub(crate) fn counts_by_label(
    tx: &Tx<'_>,
    criteria: &Criteria,
    key: &str,
) -> Result<Vec<(String, u64)>> {
    let look = Look::new(tx, criteria)?;
    counted(tx, |id| {
        let summary = look.summary(id)?;
        Ok(summary.and_then(|mut summary| summary.labels.remove(key)))
    })
}

fn counted(
    tx: &Tx<'_>,
    key_of: impl Fn(&str) -> Result<Option<String>>,
) -> Result<Vec<(String, u64)>> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    walk(tx, PageOrder::CreatedUp, (i64::MIN, ""), |_, id| {
        if let Some(key) = key_of(id)? {
            *counts.entry(key).or_default() += 1;
        }
        Ok(true)
    })?;
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(counts)
}

/// Where a walk begins: beyond the page before, and not before the range of times that is asked for.
fn within<'a>(criteria: &Criteria, order: PageOrder, (at, id): Beyond<'a>) -> Beyond<'a> {
    match order {
        PageOrder::CreatedDown if criteria.created.1 < at => (criteria.created.1, ""),
        PageOrder::UpdatedDown if criteria.updated.1 < at => (criteria.updated.1, ""),
        PageOrder::CreatedUp if criteria.created.0 > at => (criteria.created.0, ""),
        PageOrder::UpdatedUp if criteria.updated.0 > at => (criteria.updated.0, ""),
        _ => (at, id),
    }
}

/// Whether the range of times that is asked for ends before.
fn is_past(criteria: &Criteria, order: PageOrder, at: i64) -> bool {
    match order {
        PageOrder::CreatedDown => at < criteria.created.0,
        PageOrder::UpdatedDown => at < criteria.updated.0,
        PageOrder::CreatedUp => at >= criteria.created.1,
        PageOrder::UpdatedUp => at >= criteria.updated.1,
    }
}

/// Shows times and ids to `visit`, from an index that holds both, until it returns `false`.
fn walk(
    tx: &Tx<'_>,
    order: PageOrder,
    (at, id): Beyond<'_>,
    mut visit: impl FnMut(i64, &str) -> Result<bool>,
) -> Result<()> {
    let sql = match order {
        PageOrder::CreatedDown => {
            "SELECT created_at, instance_id FROM instances INDEXED BY idx_instances_created
             WHERE (created_at, instance_id) < (?1, ?2) ORDER BY created_at DESC, instance_id DESC"
        }
        PageOrder::CreatedUp => {
            "SELECT created_at, instance_id FROM instances INDEXED BY idx_instances_created
             WHERE (created_at, instance_id) > (?1, ?2) ORDER BY created_at, instance_id"
        }
        PageOrder::UpdatedDown => {
            "SELECT updated_at, instance_id FROM instances INDEXED BY idx_instances_updated
             WHERE (updated_at, instance_id) < (?1, ?2) ORDER BY updated_at DESC, instance_id DESC"
        }
        PageOrder::UpdatedUp => {
            "SELECT updated_at, instance_id FROM instances INDEXED BY idx_instances_updated
             WHERE (updated_at, instance_id) > (?1, ?2) ORDER BY updated_at, instance_id"
        }
    };
    tx.walk(sql, (at, id), |row| {
        let id: String = row.get(1)?;
        visit(row.get(0)?, &id)
    })
}

/// What of an instance is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    /// Its history.
    History,
    /// Its history and its execution.
    Execution,
    /// Its history and its parent.
    Parent,
}

/// Instances looked at one by one.
struct Look<'t, 'c> {
    tx: &'t Tx<'c>,
    criteria: &'t Criteria,
    /// Those of the family that is asked for.
    family: Option<HashSet<String>>,
}

impl<'t, 'c> Look<'t, 'c> {
    fn new(tx: &'t Tx<'c>, criteria: &'t Criteria) -> Result<Self> {
        let family = criteria.root.as_ref().map(|root| family(tx, root));
        Ok(Self {
            tx,
            criteria,
            family: family.transpose()?,
        })
    }

    /// What the id alone says.
    fn may_admit(&self, id: &str) -> bool {
        let family = self.family.as_ref();
        id.starts_with(&self.criteria.prefix) && family.is_none_or(|family| family.contains(id))
    }

    /// The criteria for this instance alone: no text is between an id and the id with a NUL behind it.
    fn only(&self, id: &str) -> Criteria {
        let mut one = self.criteria.clone();
        id.clone_into(&mut one.prefix);
        one.prefix_end = Some(format!("{id}\0"));
        one
    }

    /// One instance, if it is admitted, as much of it as can be read.
    fn summary(&self, id: &str) -> Result<Option<InstanceSummary>> {
        if !self.may_admit(id) {
            return Ok(None);
        }
        let order = PageOrder::CreatedDown;
        let whole = super::page(
            self.tx,
            Source::Prefix,
            &self.only(id),
            order,
            (i64::MAX, ""),
            1,
        );
        match unless_damaged(whole)? {
            Some(mut found) => Ok(found.pop()),
            None => self.part(id),
        }
    }

    /// The same of an instance that cannot be read as a whole.
    fn part(&self, id: &str) -> Result<Option<InstanceSummary>> {
        for left_out in [LeftOut::History, LeftOut::Execution, LeftOut::Parent] {
            match self.read(id, left_out) {
                Err(SqliteError::Damaged { .. }) => {}
                Ok(Some(found)) if !self.admits_blocked(&found.instance_id)? => return Ok(None),
                found => return found,
            }
        }
        self.as_indexed(id)
    }

    fn read(&self, id: &str, left_out: LeftOut) -> Result<Option<InstanceSummary>> {
        let mut one = self.only(id);
        // Whether a note holds says the history.
        one.blocked = None;
        let sql = match left_out {
            LeftOut::History => WITHOUT_HISTORY,
            LeftOut::Execution => WITHOUT_EXECUTION,
            LeftOut::Parent => {
                one.parent = None;
                one.roots_only = false;
                WITHOUT_PARENT
            }
        };
        let mut values = one.values();
        values.extend([&i64::MAX as &dyn rusqlite::ToSql, &"", &1]);
        let found = self
            .tx
            .first(sql, rusqlite::params_from_iter(values), summary)?;
        let asked = self.criteria;
        Ok(found.filter(|found| {
            left_out != LeftOut::Parent
                || (asked.parent.is_none() || found.parent == asked.parent)
                    && !(asked.roots_only && found.parent.is_some())
        }))
    }

    /// Of what cannot be read a note that is kept holds.
    fn admits_blocked(&self, id: &str) -> Result<bool> {
        let Some(asked) = self.criteria.blocked else {
            return Ok(true);
        };
        Ok(blocked::kept(self.tx, id)?.is_some() == asked)
    }

    /// An instance whose row cannot be read, as far as indexes know it. It is not admitted by what only its row says.
    fn as_indexed(&self, id: &str) -> Result<Option<InstanceSummary>> {
        let (tx, criteria) = (self.tx, self.criteria);
        let unknown = || ("unknown".to_owned(), "unknown".to_owned(), 0);
        let handler = tx.first(
            "SELECT orchestration_name, COALESCE(orchestration_version, 'unknown'), created_at
             FROM instances INDEXED BY idx_instances_handler WHERE instance_id = ?1",
            [id],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        );
        let handler: Option<(String, String, i64)> = unless_damaged(handler)?.flatten();
        let (name, version, created) = handler.unwrap_or_else(unknown);
        let updated = tx.first(
            "SELECT updated_at FROM instances INDEXED BY idx_instances_updated WHERE instance_id = ?1",
            [id],
            |row| row.get(0),
        );
        let updated: i64 = unless_damaged(updated)?.flatten().unwrap_or(created);
        let paused_at = pauses::since(tx, id)?;
        let is_within = |at: i64, (from, until): (i64, i64)| at >= from && at < until;
        let asks_for_its_row =
            criteria.parent.is_some() || criteria.ended.is_some() || criteria.labels.is_some();
        let is_admitted = !asks_for_its_row
            && criteria.status_bits & status_bit(InstanceStatus::Unknown) != 0
            && criteria.name.as_ref().is_none_or(|asked| *asked == name)
            && criteria
                .version
                .as_ref()
                .is_none_or(|asked| *asked == version)
            && is_within(created, criteria.created)
            && is_within(updated, criteria.updated)
            && criteria
                .paused
                .is_none_or(|asked| asked == paused_at.is_some())
            && self.admits_blocked(id)?
            && (!criteria.has_dead_letters || !dead_letters::list_of(tx, id, 1)?.is_empty());
        if !is_admitted {
            return Ok(None);
        }
        let mut found = InstanceSummary::new(id, name, version);
        found.status = InstanceStatus::Unknown;
        found.custom_status = Some("cannot be read: a page of the database is damaged".to_owned());
        found.execution_id = unless_damaged(executions::latest_id(tx, id))?.unwrap_or(1);
        found.created_at_ms = shown_ms(created);
        found.updated_at_ms = shown_ms(updated);
        found.paused_at_ms = paused_at.map(shown_ms);
        Ok(Some(found))
    }
}

/// An instance and its descendants. One that cannot be read belongs to the family that its parent is of.
fn family(tx: &Tx<'_>, root: &str) -> Result<HashSet<String>> {
    let mut family = HashSet::from([root.to_owned()]);
    let mut open = vec![root.to_owned()];
    while let Some(id) = open.pop() {
        let rows: Vec<i64> = tx.all(
            "SELECT rowid FROM instances INDEXED BY idx_instances_parent WHERE parent_instance_id = ?1",
            [&id],
            |row| row.get(0),
        )?;
        for row in rows {
            if let Some(child) = child(tx, row)?
                && family.insert(child.clone())
            {
                open.push(child);
            }
        }
    }
    Ok(family)
}

/// The instance in this row, unless its parent is an earlier life of the one there is.
fn child(tx: &Tx<'_>, row: i64) -> Result<Option<String>> {
    let readable = tx.first(
        "SELECT c.instance_id FROM instances AS c LEFT JOIN instances AS p ON p.instance_id = c.parent_instance_id
         WHERE c.rowid = ?1
             AND (c.parent_incarnation IS NULL OR p.incarnation IS NULL OR c.parent_incarnation = p.incarnation)",
        [row],
        |row| row.get(0),
    );
    match unless_damaged(readable)? {
        Some(found) => Ok(found),
        None => tx.first(
            "SELECT instance_id FROM instances INDEXED BY sqlite_autoindex_instances_1 WHERE rowid = ?1",
            [row],
            |row| row.get(0),
        ),
    }
}

macro_rules! one {
    ($executions:literal, $parent:literal) => {
        page!(
            "(SELECT * FROM instances INDEXED BY sqlite_autoindex_instances_1
                 WHERE instance_id >= ?4 AND instance_id < ?5) AS i",
            $executions,
            "0",
            $parent,
            "i.",
            "created_at",
            "DESC",
            "<"
        )
    };
}

const WITHOUT_HISTORY: &str = one!(
    "executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id",
    "(SELECT p.instance_id FROM instances AS p WHERE p.instance_id = i.parent_instance_id
         AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation))"
);

const WITHOUT_EXECUTION: &str = one!(
    "(SELECT NULL AS status, NULL AS completed_at) AS e",
    "(SELECT p.instance_id FROM instances AS p WHERE p.instance_id = i.parent_instance_id
         AND (i.parent_incarnation IS NULL OR i.parent_incarnation = p.incarnation))"
);

const WITHOUT_PARENT: &str = one!(
    "executions AS e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id",
    "i.parent_instance_id"
);
