//! Deletes instances. All checks happen inside the transaction that deletes. Removing the lease makes a commit that
//! is under way fail, so that a deleted instance cannot come back.
//!
//! One transaction deletes all that makes the instances visible, and what else fits: messages, executions and events
//! have one budget, in which a large payload counts for more than one row. The rest goes afterwards, a bounded number
//! of rows at a time, so that turns are not held up behind it; if the process dies meanwhile, the next one that opens
//! the store goes on with it, and so does a claim that meets a new instance of the id. Messages that came after the
//! deletion are for that one and stay.

use std::collections::HashSet;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{DeleteInstanceResult, InstanceFilter};

use crate::error::Result;
use crate::ops::inspect::{descend, descend_up_to};
use crate::ops::steps::{INSTANCE_ROWS, STEP_INSTANCES, STEP_ROWS};
use crate::tables::{
    deletions, executions, history, instance_locks, instances, kv, orchestrator_queue, pauses,
    rests, worker_queue,
};
use crate::tx::{InstanceChange, Tx, stored_ms};
use crate::writer_tx::WriterTx;

/// Deletes these instances together or not at all.
pub(crate) fn atomic(
    tx: &mut WriterTx<'_>,
    ids: &[String],
    force: bool,
) -> Result<DeleteInstanceResult> {
    let listed: HashSet<&str> = ids.iter().map(String::as_str).collect();
    for id in ids {
        if !force && instances::is_live(tx, id)? {
            return Err(Refusal::StillRunning {
                instance: id.clone(),
            }
            .into());
        }
        for child in instances::children(tx, id)? {
            if !listed.contains(child.as_str()) {
                return Err(Refusal::ChildLeftBehind {
                    parent: id.clone(),
                    child,
                }
                .into());
            }
        }
    }
    let mut left = STEP_ROWS;
    remove(tx, ids, &mut left)
}

/// Roots that match the filter, oldest first; those of a tree in which something runs included.
pub(crate) fn bulk_roots(tx: &Tx<'_>, filter: &InstanceFilter) -> Result<Vec<String>> {
    let completed_before = filter.completed_before.map(stored_ms);
    let Some(ids) = &filter.instance_ids else {
        return instances::finished_roots(tx, completed_before);
    };
    let mut roots = Vec::new();
    for id in ids {
        // One that cannot be read is left alone.
        let is_one = instances::is_finished_root(tx, id, completed_before);
        if crate::tables::readable::unless_damaged(is_one)?.unwrap_or(false) {
            roots.push(id.clone());
        }
    }
    Ok(roots)
}

/// What one step of a bulk deletion did.
#[derive(Debug, Default)]
pub(crate) struct BulkStep {
    /// How many of the roots are done with, deleted or left alone.
    pub(crate) looked_at: usize,
    /// How many of them went.
    pub(crate) deleted: usize,
    pub(crate) counts: DeleteInstanceResult,
    /// The first root that was not looked at has a family too large for one transaction: it goes by
    /// [`delete_family`](super::delete_family).
    pub(crate) is_too_large: bool,
}

/// Deletes some of these roots with their trees, at most `limit` of them, until the rows of one transaction are used
/// up. A tree in which anything is live is left alone, and so is a root that came back to life since it was chosen, or
/// is another one by now that ended later than asked for.
pub(crate) fn bulk_step(
    tx: &mut WriterTx<'_>,
    roots: &[String],
    ended_before: Option<i64>,
    limit: usize,
) -> Result<BulkStep> {
    let mut done = BulkStep::default();
    let mut left = STEP_ROWS;
    for root in roots {
        if done.deleted == limit || left == 0 {
            break;
        }
        if !instances::is_finished_root(tx, root, ended_before)? {
            done.looked_at += 1;
            continue;
        }
        let Some(tree) = descend_up_to(tx, root, STEP_INSTANCES)? else {
            done.is_too_large = true;
            break;
        };
        done.looked_at += 1;
        if any_live(tx, &tree)? {
            continue;
        }
        add(&mut done.counts, &remove(tx, &tree, &mut left)?);
        done.deleted += 1;
    }
    Ok(done)
}

/// Deletes these instances and as much of what they hold as fits; the caller has made sure that they can go.
pub(super) fn some(tx: &mut WriterTx<'_>, ids: &[String]) -> Result<DeleteInstanceResult> {
    let mut left = STEP_ROWS;
    remove(tx, ids, &mut left)
}

/// Deletes an instance that has ended with its tree; `false` and nothing, if anything of the tree is live or its parent
/// is there.
pub(crate) fn finished_tree(tx: &mut WriterTx<'_>, root: &str) -> Result<bool> {
    if !instances::is_finished_root(tx, root, None)? {
        return Ok(false);
    }
    let tree = descend(tx, root)?;
    if any_live(tx, &tree)? {
        return Ok(false);
    }
    let mut left = STEP_ROWS;
    remove(tx, &tree, &mut left)?;
    Ok(true)
}

fn any_live(tx: &Tx<'_>, ids: &[String]) -> Result<bool> {
    for id in ids {
        if instances::is_live(tx, id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What one sweep deleted.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) rows: usize,
    pub(crate) counts: DeleteInstanceResult,
}

/// Deletes some of what is left of an instance that was deleted before. Less than is allowed is the last of it.
///
/// Looks inside the transaction whether anything is left: the caller read that before, and by now another sweep may be
/// through, and the rows under this id may belong to the next instance of the id or to one that was restored.
pub(crate) fn sweep(tx: &mut Tx<'_>, instance: &str, rows_max: usize) -> Result<Swept> {
    if !deletions::contains(tx, instance)? {
        return Ok(Swept::default());
    }
    let mut left = rows_max;
    let mut counts = DeleteInstanceResult::default();
    if let Some(last) = deletions::queued_to(tx, instance)? {
        let (messages, is_all) = orchestrator_queue::delete_up_to(tx, instance, last, &mut left)?;
        if is_all {
            deletions::messages_are_gone(tx, instance)?;
        }
        counts.queue_messages_deleted = as_u64(messages);
    }
    add(&mut counts, &records(tx, instance, &mut left)?);
    if left > 0 {
        deletions::remove(tx, instance)?;
        // A new instance of this id may wait for it.
        let now = tx.now;
        tx.effects.turn_claimable_at(now);
    }
    Ok(Swept {
        rows: rows_max - left,
        counts,
    })
}

/// Deletes some of what is left of an instance, if anything is; returns whether nothing is then.
pub(crate) fn sweep_left(tx: &mut Tx<'_>, instance: &str, rows_max: usize) -> Result<bool> {
    sweep(tx, instance, rows_max)?;
    Ok(!deletions::contains(tx, instance)?)
}

/// Deletes executions and events of an instance, as many as are left to the transaction.
fn records(tx: &Tx<'_>, instance: &str, left: &mut usize) -> Result<DeleteInstanceResult> {
    let executions = executions::delete_instance(tx, instance, left)?;
    let events = history::delete_instance(tx, instance, left)?;
    Ok(DeleteInstanceResult {
        executions_deleted: as_u64(executions),
        events_deleted: as_u64(events),
        ..DeleteInstanceResult::default()
    })
}

/// Deletes these instances; `left` is how many rows the transaction may still delete. What makes an instance visible,
/// what it gave others to do and its key-values go in any case, of its messages, executions and events as many as are
/// left.
fn remove(tx: &mut WriterTx<'_>, ids: &[String], left: &mut usize) -> Result<DeleteInstanceResult> {
    let mut total = DeleteInstanceResult::default();
    for id in ids {
        deletions::end_restore(tx, id)?;
        let given = unborn_children(tx, id)? + worker_queue::delete_instance(tx, id)?;
        instance_locks::revoke(tx, id)?;
        rests::end(tx, id)?;
        pauses::remove(tx, id)?;
        kv::delete_instance(tx, id)?;
        *left = left.saturating_sub(INSTANCE_ROWS + given);
        // Nothing counts it as running any more.
        let current = match instances::current_execution(tx, id)? {
            Some(current) => executions::delete(tx, id, current)?,
            None => 0,
        };
        let mut queued_to = orchestrator_queue::last_id(tx, id)?;
        let mut messages = 0;
        if let Some(last) = queued_to {
            let (deleted, is_all) = orchestrator_queue::delete_up_to(tx, id, last, left)?;
            queued_to = queued_to.filter(|_| !is_all);
            messages = deleted;
        }
        add(&mut total, &records(tx, id, left)?);
        if *left == 0 {
            deletions::add(tx, id, queued_to)?;
        }
        add(
            &mut total,
            &DeleteInstanceResult {
                executions_deleted: as_u64(current),
                queue_messages_deleted: as_u64(given + messages),
                instances_deleted: u64::from(instances::delete(tx, id)?),
                ..DeleteInstanceResult::default()
            },
        );
        tx.writer().memory.forget(id);
        tx.effects.instance_changed(id, InstanceChange::Unknown);
    }
    Ok(total)
}

/// Deletes the starts of children that have not begun yet: they would come to life without a parent. A first turn of
/// one that is under way cannot commit any more. Returns how many starts went.
fn unborn_children(tx: &mut Tx<'_>, instance: &str) -> Result<usize> {
    let Some(incarnation) = instances::incarnation(tx, instance)? else {
        return Ok(0);
    };
    let children = orchestrator_queue::unborn_children(tx, incarnation)?;
    for child in &children {
        if instances::incarnation(tx, child)?.is_none() {
            instance_locks::revoke(tx, child)?;
            rests::end(tx, child)?;
        }
    }
    let deleted = orchestrator_queue::delete_sent_by(tx, incarnation)?;
    // A start may have stood for its instance: one that ran before under this id, or one that others sent messages to.
    for child in &children {
        if orchestrator_queue::settle_head(tx, child)? {
            let now = tx.now;
            tx.effects.turn_claimable_at(now);
        }
    }
    Ok(deleted)
}

pub(crate) fn add(total: &mut DeleteInstanceResult, one: &DeleteInstanceResult) {
    total.instances_deleted += one.instances_deleted;
    total.executions_deleted += one.executions_deleted;
    total.events_deleted += one.events_deleted;
    total.queue_messages_deleted += one.queue_messages_deleted;
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::database::open_memory;
    use crate::connection::statements::Statements;
    use crate::writer_tx::testing::Writer;

    fn count(conn: &rusqlite::Connection, table: &str) -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        conn.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_instance_with_many_messages_and_executions_is_deleted_in_bounded_steps() {
        let conn = open_memory().unwrap();
        conn.execute_batch(
            "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)
                 SELECT x FROM n;
             INSERT INTO instances (instance_id, orchestration_name, current_execution_id, created_at, updated_at)
                 VALUES ('i', 'o', 2500, 0, 0);
             INSERT INTO executions (instance_id, execution_id, status, started_at)
                 SELECT 'i', x, CASE x WHEN 2500 THEN 'Running' ELSE 'ContinuedAsNew' END, 0 FROM n WHERE x <= 2500;
             INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
                 SELECT 'i', 'QueueMessage', '{}', 5000 - x, 0 FROM n;",
        )
        .unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let bound = STEP_ROWS as u64 * 11 / 10;
        let changed = |step: &mut dyn FnMut(&mut WriterTx<'_>)| {
            let before = conn.total_changes();
            step(&mut writer.tx(&statements, 1));
            let changes = conn.total_changes() - before;
            assert!(changes <= bound, "{changes} rows");
        };
        let mut total = DeleteInstanceResult::default();
        changed(&mut |tx| total = atomic(tx, &["i".to_owned()], true).unwrap());
        assert_eq!(
            executions::count_running(&Tx::new(&statements, 1)).unwrap(),
            0
        );
        // What comes for a new instance of the id stays, whatever number it gets.
        conn.execute_batch(
            "INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
                 VALUES ('i', 'StartOrchestration', '{}', 0, 0)",
        )
        .unwrap();
        while let Some(left) = deletions::next(&Tx::new(&statements, 1), None).unwrap() {
            changed(&mut |tx| add(&mut total, &sweep(tx, &left, STEP_ROWS).unwrap().counts));
        }
        assert_eq!(total.queue_messages_deleted, 5_000);
        assert_eq!(total.executions_deleted, 2_500);
        let left = (
            count(&conn, "executions"),
            count(&conn, "orchestrator_queue"),
        );
        assert_eq!(left, (0, 1));
    }

    #[test]
    fn a_sweep_that_comes_late_leaves_the_next_instance_of_the_id_alone() {
        let conn = open_memory().unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        deletions::add(&writer.tx(&statements, 1), "i", None).unwrap();
        // Two sweepers read the id; the first one is through before the second one has its turn to write.
        let first = sweep(&mut writer.tx(&statements, 1), "i", STEP_ROWS).unwrap();
        assert_eq!(first.rows, 0);
        conn.execute_batch(
            "INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at) VALUES ('i', 'o', 0, 0);
             INSERT INTO executions (instance_id, execution_id, status, started_at) VALUES ('i', 1, 'Running', 0);
             INSERT INTO history VALUES ('i', 1, 1, 'e', '{}', 0), ('i', 1, 2, 'e', '{}', 0);",
        )
        .unwrap();

        let second = sweep(&mut writer.tx(&statements, 1), "i", STEP_ROWS).unwrap();

        assert_eq!(second.rows, 0);
        let left = (count(&conn, "executions"), count(&conn, "history"));
        assert_eq!(left, (1, 2), "the next instance lost its history");
    }

    #[test]
    fn an_instance_with_huge_rows_is_deleted_in_steps_of_bounded_bytes() {
        let conn = open_memory().unwrap();
        conn.execute_batch(
            "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 40)
                 SELECT x FROM n;
             INSERT INTO instances (instance_id, orchestration_name, current_execution_id, created_at, updated_at)
                 VALUES ('i', 'o', 10, 0, 0);
             INSERT INTO executions (instance_id, execution_id, status, output, started_at)
                 SELECT 'i', x, 'Completed', printf('%.*c', 500000, 'o'), 0 FROM n WHERE x <= 10;
             INSERT INTO history SELECT 'i', x, 1, 'e', printf('%.*c', 500000, 'h'), 0 FROM n;
             INSERT INTO orchestrator_queue (instance_id, kind, work_item, visible_at, created_at)
                 SELECT 'i', 'QueueMessage', printf('%.*c', 500000, 'q'), 0, 0 FROM n;",
        )
        .unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let bytes = || -> i64 {
            let sql = "SELECT (SELECT TOTAL(octet_length(work_item)) FROM orchestrator_queue)
                 + (SELECT TOTAL(octet_length(event_data)) FROM history)
                 + (SELECT TOTAL(octet_length(output)) FROM executions)";
            let total: f64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
            total as i64
        };
        let bound = (STEP_ROWS as i64 + 300) * 4_096;
        let mut before = bytes();
        let mut shrinks_little = || {
            let now = bytes();
            assert!(before - now <= bound, "{} bytes", before - now);
            before = now;
        };
        atomic(&mut writer.tx(&statements, 1), &["i".to_owned()], true).unwrap();
        shrinks_little();
        while let Some(left) = deletions::next(&Tx::new(&statements, 1), None).unwrap() {
            sweep(&mut writer.tx(&statements, 1), &left, STEP_ROWS).unwrap();
            shrinks_little();
        }
        assert_eq!(bytes(), 0);
    }

    #[test]
    fn one_step_of_a_bulk_deletion_deletes_a_bounded_number_of_rows() {
        let conn = open_memory().unwrap();
        conn.execute_batch(
            "CREATE TEMP TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300)
                 SELECT x FROM n;
             INSERT INTO instances (instance_id, orchestration_name, created_at, updated_at)
                 SELECT 'i' || x, 'o', 0, 0 FROM n WHERE x <= 20;
             INSERT INTO executions (instance_id, execution_id, status, started_at, completed_at)
                 SELECT 'i' || x, 1, 'Completed', 0, 0 FROM n WHERE x <= 20;
             INSERT INTO history SELECT 'i' || a.x, 1, b.x, 'e', '{}', 0 FROM n AS a, n AS b WHERE a.x <= 20;",
        )
        .unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let all: Vec<String> = (1..=20).map(|n| format!("i{n}")).collect();
        let mut roots = all.as_slice();
        let mut events = 0;
        while !roots.is_empty() {
            let before = conn.total_changes();
            let mut tx = writer.tx(&statements, 1);
            let done = bulk_step(&mut tx, roots, None, usize::MAX).unwrap();
            let changes = conn.total_changes() - before;
            assert!(changes <= STEP_ROWS as u64 * 11 / 10, "{changes} rows");
            roots = &roots[done.looked_at..];
            events += done.counts.events_deleted;
            while let Some(left) = deletions::next(&tx, None).unwrap() {
                let swept = sweep(&mut tx, &left, STEP_ROWS).unwrap();
                events += swept.counts.events_deleted;
            }
        }
        assert_eq!(events, 20 * 300);
        assert_eq!(
            instances::list(&Tx::new(&statements, 1)).unwrap(),
            Vec::<String>::new()
        );
    }
}
