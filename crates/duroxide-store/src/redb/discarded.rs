//! Deleted events that are still in the file. A deletion removes a bounded number of events and lists the rest here;
//! the writer removes those between its other jobs, so that no deletion holds them up. In: deletions and appends inside
//! a write transaction. Out: which partitions readers pass by. Never: an event of a listed range that is alive, because
//! an append into such a range waits until little is left of it, and removes that first.

use ::redb::ReadableTable;

use super::error::{Result, Trouble};
use super::tables::{Listed, Tables};

/// Partitions of an entity whose events are all dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    first: u64,
    pub(super) last: u64,
    /// Events of it that are still in the file.
    left: u64,
}

/// The listed range that a partition lies in.
pub(super) fn covering(
    listed: &impl ReadableTable<(&'static str, u64), Listed>,
    entity: &str,
    partition: u64,
) -> Result<Option<Range>> {
    let mut before = listed.range((entity, 0)..=(entity, partition))?;
    let Some(found) = before.next_back() else {
        return Ok(None);
    };
    let (place, value) = found?;
    let ((_, first), (last, left)) = (place.value(), value.value());
    Ok((partition <= last).then_some(Range { first, last, left }))
}

/// The listed range that a partition lies in, if anything is listed at all.
pub(super) fn hiding(tables: &Tables<'_>, entity: &str, partition: u64) -> Result<Option<Range>> {
    if !tables.has_remains {
        return Ok(None);
    }
    covering(&tables.discarded, entity, partition)
}

/// Refuses an append into a listed range until one step can remove the rest, and removes some of it, so that it need
/// not wait for other names; returns whether there is one.
pub(super) fn expect_little(tables: &mut Tables<'_>, entity: &str, partition: u64) -> Result<bool> {
    match hiding(tables, entity, partition)? {
        Some(range) if range.left > tables.step as u64 => {
            remove_some_listed(tables, entity, &range)?;
            Err(Trouble::Later)
        }
        found => Ok(found.is_some()),
    }
}

/// All dead events that are still in the file.
pub(super) fn left(listed: &impl ReadableTable<(&'static str, u64), Listed>) -> Result<u64> {
    let mut sum = 0;
    if !listed.is_empty()? {
        for found in listed.iter()? {
            sum += found?.1.value().1;
        }
    }
    Ok(sum)
}

/// Deletes the events of a range of partitions; returns how many were alive.
pub(super) fn delete(tables: &mut Tables<'_>, entity: &str, first: u64, last: u64) -> Result<u64> {
    if hiding(tables, entity, first)?.is_some_and(|range| last <= range.last) {
        return Ok(0);
    }
    let mut there = 0;
    for found in tables
        .events
        .range((entity, first, 0)..=(entity, last, u64::MAX))?
    {
        found?;
        there += 1;
    }
    let within = take_within(tables, entity, first, last)?;
    let removed = remove_some(tables, entity, first, last)?;
    if removed < there {
        let rest = (last, there - removed);
        tables.discarded.insert((entity, first), rest)?;
        tables.has_left_some();
    }
    Ok(there - within)
}

/// Takes the listed ranges within another one off the list; returns how many dead events they have.
fn take_within(tables: &mut Tables<'_>, entity: &str, first: u64, last: u64) -> Result<u64> {
    let mut ranges = Vec::new();
    if !tables.has_remains {
        return Ok(0);
    }
    for found in tables.discarded.range((entity, first)..=(entity, last))? {
        let (place, value) = found?;
        ranges.push((place.value().1, value.value().1));
    }
    for (first, _) in &ranges {
        tables.discarded.remove((entity, *first))?;
    }
    Ok(ranges.iter().map(|(_, left)| left).sum())
}

/// Makes room for an append: removes what is left of a listed range that the partition lies in.
pub(super) fn make_room(tables: &mut Tables<'_>, entity: &str, partition: u64) -> Result<()> {
    let Some(range) = hiding(tables, entity, partition)? else {
        return Ok(());
    };
    while remove_some(tables, entity, range.first, range.last)? > 0 {}
    tables.discarded.remove((entity, range.first))?;
    Ok(())
}

/// Removes some events of the first range on the list; returns whether there was one.
pub(super) fn sweep(tables: &mut Tables<'_>) -> Result<bool> {
    let Some(found) = tables.discarded.first()? else {
        return Ok(false);
    };
    let (entity, first) = (found.0.value().0.to_owned(), found.0.value().1);
    let (last, left) = found.1.value();
    drop(found);
    remove_some_listed(tables, &entity, &Range { first, last, left })?;
    Ok(true)
}

fn remove_some_listed(tables: &mut Tables<'_>, entity: &str, range: &Range) -> Result<()> {
    let removed = remove_some(tables, entity, range.first, range.last)?;
    if removed < tables.step as u64 {
        tables.discarded.remove((entity, range.first))?;
    } else {
        let rest = (range.last, range.left.saturating_sub(removed));
        tables.discarded.insert((entity, range.first), rest)?;
    }
    Ok(())
}

fn remove_some(tables: &mut Tables<'_>, entity: &str, first: u64, last: u64) -> Result<u64> {
    let mut places = Vec::new();
    let range = (entity, first, 0)..=(entity, last, u64::MAX);
    for found in tables.events.range(range)?.take(tables.step) {
        let (_, partition, number) = found?.0.value();
        places.push((partition, number));
    }
    for (partition, number) in &places {
        tables.events.remove((entity, *partition, *number))?;
    }
    Ok(places.len() as u64)
}

#[cfg(test)]
mod tests {
    use ::redb::{Database, ReadableDatabase as _, ReadableTableMetadata as _};

    use super::super::answer;
    use super::super::commit;
    use super::super::in_memory::{self, file};
    use super::super::tables::{STEP, Views};
    use super::*;
    use crate::atomic::{Batch, Operation, Query};
    use crate::record::Record;

    fn write<T>(db: &Database, act: impl FnOnce(&mut Tables<'_>) -> Result<T>) -> T {
        in_memory::write(db, act).unwrap()
    }

    fn run(db: &Database, operation: Operation) -> u64 {
        let batch = Batch {
            operations: vec![operation],
            ..Batch::default()
        };
        write(db, |tables| commit::batch(tables, &batch, 1)).counts[0]
    }

    fn append(db: &Database, partition: u64, count: u64) {
        let events = (1..=count).map(|number| Record {
            number,
            data: vec![7; 20],
        });
        let operation = Operation::Append {
            entity: "e".to_owned(),
            partition,
            events: events.collect(),
        };
        assert_eq!(run(db, operation), count);
    }

    fn delete_entity(db: &Database) -> u64 {
        let entity = "e".to_owned();
        run(db, Operation::DeleteEntity { entity })
    }

    fn delete_partition(db: &Database, partition: u64) -> u64 {
        let entity = "e".to_owned();
        run(db, Operation::DeletePartition { entity, partition })
    }

    /// Partitions, their events, and the count of all events, as a reader sees them.
    fn seen(db: &Database) -> (Vec<u64>, Vec<usize>, u64) {
        let views = Views::open(&db.begin_read().unwrap()).unwrap();
        let ask = |query: Query| answer::run(&views, &query, 1).unwrap();
        let entity = || "e".to_owned();
        let partitions = ask(Query::Partitions { entity: entity() });
        let partitions = partitions.into_partitions().unwrap();
        let of = |partition: u64| {
            let (entity, from, limit) = (entity(), 0, usize::MAX);
            let events = ask(Query::Events {
                entity,
                partition,
                from,
                limit,
            });
            let partition_info = ask(Query::Partition {
                entity: "e".to_owned(),
                partition,
            });
            let events = events.into_events().unwrap().len();
            assert_eq!(
                partition_info.into_partition().unwrap().events,
                events as u64
            );
            events
        };
        let events = (1..=3).map(of).collect();
        let all = ask(Query::EventCount).into_count().unwrap();
        (partitions, events, all)
    }

    fn in_file(db: &Database) -> u64 {
        let views = Views::open(&db.begin_read().unwrap()).unwrap();
        views.events.len().unwrap()
    }

    #[test]
    fn one_transaction_removes_a_bounded_number_of_events_and_readers_see_none() {
        let db = file();
        append(&db, 1, 2_000);
        append(&db, 2, 10);
        assert_eq!(delete_entity(&db), 2_010);
        assert_eq!(in_file(&db), 2_010 - STEP as u64);
        assert_eq!(seen(&db), (vec![], vec![0, 0, 0], 0));
        let mut steps = 0;
        while write(&db, sweep) {
            steps += 1;
            assert_eq!(seen(&db), (vec![], vec![0, 0, 0], 0), "step {steps}");
        }
        assert_eq!((in_file(&db), steps), (0, 3));
    }

    #[test]
    fn a_short_log_goes_at_once() {
        let db = file();
        append(&db, 1, STEP as u64);
        assert_eq!(delete_entity(&db), STEP as u64);
        assert_eq!(in_file(&db), 0);
        assert!(!write(&db, sweep), "nothing is listed");
    }

    #[test]
    fn what_is_appended_after_a_deletion_is_alone() {
        let db = file();
        append(&db, 1, 2_000);
        delete_entity(&db);
        let mut tries = 0;
        let must_wait = |tables: &mut Tables<'_>| {
            Ok(matches!(expect_little(tables, "e", 1), Err(Trouble::Later)))
        };
        let mut before = in_file(&db);
        while write(&db, must_wait) {
            assert_eq!(before - in_file(&db), STEP as u64, "a try goes one step");
            before = in_file(&db);
            tries += 1;
        }
        append(&db, 1, 3);
        assert_eq!(tries, 2);
        assert_eq!(seen(&db), (vec![1], vec![3, 0, 0], 3));
        assert!(!write(&db, sweep));
        assert_eq!(seen(&db), (vec![1], vec![3, 0, 0], 3));
    }

    #[test]
    fn a_partition_is_deleted_between_others() {
        let db = file();
        for (partition, count) in [(1, 5), (2, 1_500), (3, 7)] {
            append(&db, partition, count);
        }
        assert_eq!(delete_partition(&db, 2), 1_500);
        assert_eq!(seen(&db), (vec![1, 3], vec![5, 0, 7], 12));
        assert_eq!(delete_partition(&db, 2), 0, "a second time");
        assert_eq!(delete_entity(&db), 12, "what was dead is not counted again");
        assert_eq!(seen(&db), (vec![], vec![0, 0, 0], 0));
        while write(&db, sweep) {}
        assert_eq!(in_file(&db), 0);
    }
}
