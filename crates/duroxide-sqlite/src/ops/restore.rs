//! Brings an instance into the store as a snapshot has it: all of it or nothing, and only if nothing of the id is
//! there.
//!
//! A long history would block the writer, so a restore of one runs in steps. The first step adds the id to `deletions`
//! with a token, so that reads, claims and starts treat the instance as deleted. Each later step checks that the token
//! is still there. If the process dies, the next opener sweeps the partial instance and removes the token; a restore
//! that finds its token gone begins again. The last step removes the entry and writes the instance row.

use std::ops::Range;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{
    EventRecord, ExecutionRecord, ExecutionStatus, InstanceSnapshot, Restoring,
};

use crate::error::Result;
use crate::kill;
use crate::ops::steps::STEP_ROWS;
use crate::tables::deletions::{self, RestoreToken};
use crate::tables::{budget, closing, instances, whole_instance};
use crate::tx::{InstanceChange, Tx};
use crate::writer_tx::WriterTx;

/// A row that may be written before the last step.
#[derive(Clone, Copy)]
enum RestoreRow<'s> {
    /// Of an execution that is over.
    Execution(&'s ExecutionRecord),
    Event(u64, &'s EventRecord),
}

impl RestoreRow<'_> {
    /// What it costs of a step: a page of payload counts like a row.
    fn cost(self) -> usize {
        let bytes = match self {
            Self::Execution(it) => it.output.as_ref().map_or(0, String::len),
            Self::Event(_, it) => it.json.len(),
        };
        budget::cost(i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}

/// Everything of a snapshot that may come early, in the order of the tables.
fn early(snapshot: &InstanceSnapshot) -> impl Iterator<Item = RestoreRow<'_>> {
    let executions = snapshot.executions.iter();
    let over = executions.filter(|it| !is_late(snapshot, it));
    let over = over
        .filter(|it| it.status.is_some())
        .map(RestoreRow::Execution);
    let events = snapshot.executions.iter().flat_map(|it| {
        let id = it.execution_id;
        it.events
            .iter()
            .map(move |event| RestoreRow::Event(id, event))
    });
    over.chain(events)
}

/// Whether an execution comes with the last step: counted by its row, it would run, or be the current one.
fn is_late(snapshot: &InstanceSnapshot, execution: &ExecutionRecord) -> bool {
    let current = snapshot.record.as_ref().map(|it| it.execution_id);
    let is_over = execution
        .parsed_status()
        .is_some_and(|status| status != ExecutionStatus::Running);
    current == Some(execution.execution_id) || !is_over
}

/// The steps before the last one; none if everything fits into one transaction.
pub(crate) fn steps(snapshot: &InstanceSnapshot) -> Vec<Range<usize>> {
    let mut steps = Vec::new();
    let (mut from, mut at, mut cost) = (0, 0, 0);
    for row in early(snapshot) {
        at += 1;
        cost += row.cost();
        if cost >= STEP_ROWS {
            steps.push(from..at);
            (from, cost) = (at, 0);
        }
    }
    if !steps.is_empty() && from < at {
        steps.push(from..at);
    }
    steps
}

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next one may come.
    Done,
    /// Something is left of a deleted instance of the id, or of a restore: it goes first.
    LeftOver,
    /// A sweep removed what came so far: from the beginning.
    Lost,
    /// There is no next one.
    Over(Restoring),
}

/// All of it in one transaction.
pub(crate) fn whole(
    tx: &mut WriterTx<'_>,
    snapshot: &InstanceSnapshot,
    closed: Option<&str>,
) -> Result<Step> {
    if let Some(ended) = taken(tx, snapshot, closed)? {
        return Ok(ended);
    }
    for row in early(snapshot) {
        write(tx, snapshot, row)?;
    }
    finish(tx, snapshot).map(Step::Over)
}

/// The first step: the id is taken.
pub(crate) fn begin(
    tx: &mut WriterTx<'_>,
    snapshot: &InstanceSnapshot,
    closed: Option<&str>,
    token: RestoreToken,
) -> Result<Step> {
    if let Some(ended) = taken(tx, snapshot, closed)? {
        return Ok(ended);
    }
    deletions::note_restore(tx, &snapshot.instance_id, token)?;
    Ok(Step::Done)
}

/// Why nothing can come under this id.
fn taken(tx: &Tx<'_>, snapshot: &InstanceSnapshot, closed: Option<&str>) -> Result<Option<Step>> {
    check(snapshot)?;
    if let Some(other) = unexpected(tx, closed)? {
        return Ok(Some(Step::Over(other)));
    }
    let instance = &snapshot.instance_id;
    let has_begun = instances::current_execution(tx, instance)?.is_some();
    if !has_begun && deletions::contains(tx, instance)? {
        return Ok(Some(Step::LeftOver));
    }
    let is_held = whole_instance::is_held(tx, instance)?;
    Ok(is_held.then_some(Step::Over(Restoring::Exists)))
}

/// Some of what may come early.
pub(crate) fn part(
    tx: &mut WriterTx<'_>,
    snapshot: &InstanceSnapshot,
    closed: Option<&str>,
    token: RestoreToken,
    rows: &Range<usize>,
) -> Result<Step> {
    if let Some(ended) = ended(tx, snapshot, closed, token)? {
        return Ok(ended);
    }
    for row in early(snapshot).skip(rows.start).take(rows.len()) {
        write(tx, snapshot, row)?;
    }
    kill::point("restore_step");
    Ok(Step::Done)
}

/// The last step: the instance is there.
pub(crate) fn last(
    tx: &mut WriterTx<'_>,
    snapshot: &InstanceSnapshot,
    closed: Option<&str>,
    token: RestoreToken,
) -> Result<Step> {
    if let Some(ended) = ended(tx, snapshot, closed, token)? {
        return Ok(ended);
    }
    deletions::remove(tx, &snapshot.instance_id)?;
    finish(tx, snapshot).map(Step::Over)
}

fn ended(
    tx: &Tx<'_>,
    snapshot: &InstanceSnapshot,
    closed: Option<&str>,
    token: RestoreToken,
) -> Result<Option<Step>> {
    if !deletions::is_restored_by(tx, &snapshot.instance_id, token)? {
        return Ok(Some(Step::Lost));
    }
    Ok(unexpected(tx, closed)?.map(Step::Over))
}

fn check(snapshot: &InstanceSnapshot) -> Result<()> {
    snapshot.check().map_err(|why| {
        let what = format!("the snapshot of {}", snapshot.instance_id);
        Refusal::Unstorable { what, why }.into()
    })
}

fn unexpected(tx: &Tx<'_>, closed: Option<&str>) -> Result<Option<Restoring>> {
    let reason = closing::reason(tx)?;
    let is_other = reason.as_deref() != closed;
    Ok(is_other.then_some(Restoring::Unexpected(reason)))
}

fn write(tx: &Tx<'_>, snapshot: &InstanceSnapshot, row: RestoreRow<'_>) -> Result<()> {
    let instance = &snapshot.instance_id;
    match row {
        RestoreRow::Execution(it) => whole_instance::write_execution(tx, instance, it),
        RestoreRow::Event(execution, it) => {
            whole_instance::write_event(tx, instance, execution, it)
        }
    }
}

fn finish(tx: &mut WriterTx<'_>, snapshot: &InstanceSnapshot) -> Result<Restoring> {
    let instance = &snapshot.instance_id;
    tx.writer().memory.forget(instance);
    let late = snapshot.executions.iter();
    for execution in late.filter(|it| is_late(snapshot, it)) {
        whole_instance::write_execution(tx, instance, execution)?;
    }
    whole_instance::write(tx, snapshot)?;
    kill::point("before_restore");
    tx.effects
        .instance_changed(instance, InstanceChange::Unknown);
    Ok(Restoring::Done)
}

#[cfg(test)]
mod tests {
    use duroxide_core::provider::InstanceRecord;

    use super::*;
    use crate::connection::database::open_memory;
    use crate::connection::statements::Statements;
    use crate::ops::delete;
    use crate::writer_tx::testing::Writer;

    /// An instance with so many events in each of two executions.
    fn long(events: u64) -> InstanceSnapshot {
        let execution = |execution_id: u64, status: &str| ExecutionRecord {
            execution_id,
            status: Some(status.to_owned()),
            events: (1..=events)
                .map(|id| EventRecord {
                    id,
                    json: format!("{{\"event\":{id}}}"),
                })
                .collect(),
            ..ExecutionRecord::default()
        };
        InstanceSnapshot {
            record: Some(InstanceRecord {
                name: "o".to_owned(),
                execution_id: 2,
                ..InstanceRecord::default()
            }),
            executions: vec![execution(1, "ContinuedAsNew"), execution(2, "Running")],
            ..InstanceSnapshot::of("i")
        }
        .settled()
    }

    #[test]
    fn a_long_history_comes_in_bounded_steps_and_is_seen_with_the_last_one() {
        let conn = open_memory().unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let snapshot = long(2_600);
        let parts = steps(&snapshot);
        assert_eq!(parts.len(), 6, "{parts:?}");
        let token = RestoreToken::new();
        let nothing = |tx: &Tx<'_>| {
            assert!(whole_instance::read(tx, "i").unwrap().is_empty());
            assert!(whole_instance::is_held(tx, "i").unwrap());
            assert_eq!(instances::list(tx).unwrap(), Vec::<String>::new());
        };
        let mut tx = writer.tx(&statements, 1);
        let begun = begin(&mut tx, &snapshot, None, token).unwrap();
        assert_eq!(begun, Step::Done);
        nothing(&tx);
        for rows in &parts {
            let before = conn.total_changes();
            let done = part(&mut tx, &snapshot, None, token, rows).unwrap();
            assert_eq!(done, Step::Done);
            let changes = conn.total_changes() - before;
            assert!(changes <= STEP_ROWS as u64, "{changes} rows");
            nothing(&tx);
        }
        let before = conn.total_changes();
        let done = last(&mut tx, &snapshot, None, token).unwrap();
        assert_eq!(done, Step::Over(Restoring::Done));
        assert!(conn.total_changes() - before < 10, "the rest is little");
        assert_eq!(whole_instance::read(&tx, "i").unwrap(), snapshot);
        let twice = begin(&mut tx, &snapshot, None, RestoreToken::new()).unwrap();
        assert_eq!(twice, Step::Over(Restoring::Exists));
    }

    #[test]
    fn what_fits_into_one_transaction_has_no_steps() {
        assert!(steps(&long(400)).is_empty());
    }

    /// A sweep takes the token away with the first rows: the restore does not go on with a part of them missing.
    #[test]
    fn a_restore_that_somebody_sweeps_begins_anew() {
        let conn = open_memory().unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let snapshot = long(2_600);
        let parts = steps(&snapshot);
        let token = RestoreToken::new();
        let mut tx = writer.tx(&statements, 1);
        assert_eq!(begin(&mut tx, &snapshot, None, token).unwrap(), Step::Done);
        for rows in &parts[..3] {
            part(&mut tx, &snapshot, None, token, rows).unwrap();
        }
        // Whoever deleted the id before has nothing to do any more.
        let swept = delete::sweep_deleted(&mut tx, "i", 10).unwrap();
        assert_eq!((swept.rows, swept.still), (0, delete::Still::Nothing));
        let another = RestoreToken::new();
        let other = begin(&mut tx, &snapshot, None, another).unwrap();
        assert_eq!(other, Step::LeftOver);
        let swept = delete::sweep(&mut tx, "i", 10).unwrap();
        assert_eq!(swept.still, delete::Still::Some);
        assert_eq!(
            part(&mut tx, &snapshot, None, token, &parts[3]).unwrap(),
            Step::Lost
        );
        assert_eq!(last(&mut tx, &snapshot, None, token).unwrap(), Step::Lost);
        while delete::sweep(&mut tx, "i", STEP_ROWS).unwrap().still != delete::Still::Nothing {}
        assert!(!whole_instance::is_held(&tx, "i").unwrap());
        assert_eq!(
            begin(&mut tx, &snapshot, None, another).unwrap(),
            Step::Done
        );
    }

    #[test]
    fn a_sweep_that_comes_late_leaves_what_was_restored_alone() {
        let conn = open_memory().unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let snapshot = long(1_300);
        let token = RestoreToken::new();
        let mut tx = writer.tx(&statements, 1);
        assert_eq!(begin(&mut tx, &snapshot, None, token).unwrap(), Step::Done);
        for rows in &steps(&snapshot) {
            part(&mut tx, &snapshot, None, token, rows).unwrap();
        }
        // A process that opens the file reads the id here, and has to wait for the write lock.
        let done = last(&mut tx, &snapshot, None, token).unwrap();
        assert_eq!(done, Step::Over(Restoring::Done));

        delete::sweep(&mut tx, "i", STEP_ROWS).unwrap();

        assert_eq!(whole_instance::read(&tx, "i").unwrap(), snapshot);
    }

    #[test]
    fn a_restore_whose_id_is_deleted_meanwhile_begins_anew() {
        let conn = open_memory().unwrap();
        let statements = Statements::new(&conn);
        let writer = Writer::new();
        let snapshot = long(1_300);
        let parts = steps(&snapshot);
        let token = RestoreToken::new();
        let mut tx = writer.tx(&statements, 1);
        assert_eq!(begin(&mut tx, &snapshot, None, token).unwrap(), Step::Done);
        part(&mut tx, &snapshot, None, token, &parts[0]).unwrap();

        delete::atomic(&mut tx, &["i".to_owned()], true).unwrap();

        let next = part(&mut tx, &snapshot, None, token, &parts[1]).unwrap();
        assert_eq!(next, Step::Lost);
    }
}
