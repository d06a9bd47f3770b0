//! Scopes of deleted entries that are still in the file. A deletion removes a bounded number of entries and lists the
//! scope here; the writer removes the rest between its other jobs. In: deletions inside a write transaction. Out: which
//! scopes readers and guards take for empty. Never: an entry of a listed scope that is alive, because what comes for
//! the scope waits until nothing is left of it.

use ::redb::ReadableTable;

use super::error::{Result, Trouble};
use super::tables::{Tables, Views};

/// Whether all entries of a scope are dead.
pub(super) fn has(tables: &Tables<'_>, scope: &str) -> Result<bool> {
    Ok(tables.has_remains && tables.discarded_names.get((None, scope))?.is_some())
}

/// As [`has`], for a reader.
pub(super) fn is_hidden(views: &Views, scope: &str) -> Result<bool> {
    Ok(views.discarded_names.get((None, scope))?.is_some())
}

/// Refuses what is to be put into a listed scope until nothing is left of it, and removes some of it, so that it need
/// not wait for other names.
pub(super) fn expect_none(tables: &mut Tables<'_>, scope: &str) -> Result<()> {
    if has(tables, scope)? {
        remove_some_listed(tables, scope)?;
        return Err(Trouble::Later);
    }
    Ok(())
}

/// Deletes a scope; returns how many entries were alive.
pub(super) fn delete(tables: &mut Tables<'_>, scope: &str) -> Result<u64> {
    if has(tables, scope)? {
        return Ok(0);
    }
    let mut there = 0;
    for found in tables.entries.range((scope, "")..)? {
        if found?.0.value().0 != scope {
            break;
        }
        there += 1;
    }
    let removed = remove_some(tables, scope)?;
    if removed < there {
        tables.discarded_names.insert((None, scope), ())?;
        tables.has_left_some();
    }
    Ok(there)
}

/// Makes room for what follows the deletion of its scope in one batch: the rest goes in this transaction, too.
pub(super) fn make_room(tables: &mut Tables<'_>, scope: &str) -> Result<()> {
    if !has(tables, scope)? {
        return Ok(());
    }
    while remove_some(tables, scope)? > 0 {}
    tables.discarded_names.remove((None, scope))?;
    Ok(())
}

/// Removes some entries of the first scope on the list; returns whether there was one.
pub(super) fn sweep(tables: &mut Tables<'_>) -> Result<bool> {
    let Some(found) = tables.discarded_names.first()? else {
        return Ok(false);
    };
    let (None, scope) = found.0.value() else {
        return Ok(false);
    };
    let scope = scope.to_owned();
    drop(found);
    remove_some_listed(tables, &scope)?;
    Ok(true)
}

fn remove_some_listed(tables: &mut Tables<'_>, scope: &str) -> Result<()> {
    if remove_some(tables, scope)? < tables.step as u64 {
        tables.discarded_names.remove((None, scope))?;
    }
    Ok(())
}

fn remove_some(tables: &mut Tables<'_>, scope: &str) -> Result<u64> {
    let mut keys = Vec::new();
    for found in tables.entries.range((scope, "")..)?.take(tables.step) {
        let found = found?.0;
        let (found_scope, key) = found.value();
        if found_scope != scope {
            break;
        }
        keys.push(key.to_owned());
    }
    for key in &keys {
        tables.entries.remove((scope, key.as_str()))?;
    }
    Ok(keys.len() as u64)
}

#[cfg(test)]
mod tests {
    use ::redb::{Database, ReadableDatabase as _, ReadableTableMetadata as _};

    use super::super::in_memory::{file, write};
    use super::super::tables::STEP;
    use super::super::{answer, commit};
    use super::*;
    use crate::atomic::{Batch, Guard, Operation, Query};

    fn run(db: &Database, batch: &Batch) -> Result<Vec<u64>> {
        write(db, |tables| Ok(commit::batch(tables, batch, 1)?.counts))
    }

    fn put(scope: &str, key: &str) -> Operation {
        Operation::Put {
            scope: scope.to_owned(),
            key: key.to_owned(),
            value: vec![1],
        }
    }

    fn delete_scope() -> Operation {
        let scope = "gone".to_owned();
        Operation::DeleteScope { scope }
    }

    /// Two thousand entries in a scope, and one in the next scope and in the one before.
    fn filled() -> Database {
        let db = file();
        let many = (0..2_000).map(|n| put("gone", &format!("{n:04}")));
        let others = [put("gonf", "k"), put("gond", "k")];
        run(&db, &Batch::of(many.chain(others))).unwrap();
        db
    }

    fn rows(db: &Database) -> u64 {
        let views = Views::open(&db.begin_read().unwrap()).unwrap();
        views.entries.len().unwrap()
    }

    /// Entries of the scope as a reader sees them: listed, counted, one by its key.
    fn seen(db: &Database) -> (usize, u64, bool) {
        let views = Views::open(&db.begin_read().unwrap()).unwrap();
        let ask = |query: Query| answer::run(&views, &query, 1).unwrap();
        let scope = || "gone".to_owned();
        let entry = Query::Entry {
            scope: scope(),
            key: "1999".to_owned(),
        };
        (
            ask(Query::all_entries("gone"))
                .into_entries()
                .unwrap()
                .len(),
            ask(Query::Count { scope: scope() }).into_count().unwrap(),
            ask(entry).into_entry().unwrap().is_some(),
        )
    }

    #[test]
    fn one_transaction_removes_a_bounded_number_of_entries() {
        let db = filled();
        assert_eq!(seen(&db), (2_000, 2_000, true));
        assert_eq!(run(&db, &Batch::of([delete_scope()])).unwrap(), [2_000]);
        assert_eq!(rows(&db), 2_002 - STEP as u64);
        assert_eq!(
            run(&db, &Batch::of([delete_scope()])).unwrap(),
            [0],
            "again"
        );
        let scope = || "gone".to_owned();
        let nothing = Batch::of([Operation::Delete {
            scope: scope(),
            key: "1999".to_owned(),
        }]);
        let empty = nothing
            .guarded_by(Guard::Keys {
                scope: scope(),
                keys: Vec::new(),
            })
            .guarded_by(Guard::Absent {
                scope: scope(),
                key: "1999".to_owned(),
            });
        let mut steps = 0;
        loop {
            assert_eq!(seen(&db), (0, 0, false), "after {steps} steps");
            assert_eq!(run(&db, &empty).unwrap(), [0], "after {steps} steps");
            let before = rows(&db);
            if !write(&db, sweep).unwrap() {
                break;
            }
            assert!(before - rows(&db) <= STEP as u64, "step {steps}");
            steps += 1;
        }
        assert_eq!((rows(&db), steps), (2, 3));
    }

    #[test]
    fn what_comes_for_a_deleted_scope_waits_until_nothing_is_left_of_it() {
        let db = filled();
        run(&db, &Batch::of([delete_scope()])).unwrap();
        let mut steps = 0;
        while let Err(trouble) = run(&db, &Batch::of([put("gone", "1999")])) {
            assert!(matches!(trouble, Trouble::Later), "{trouble:?}");
            assert!(write(&db, sweep).unwrap());
            steps += 1;
        }
        assert_eq!((steps, seen(&db)), (3, (1, 1, true)));
    }

    #[test]
    fn a_batch_that_deletes_a_scope_may_fill_it_again() {
        let db = filled();
        let batch = Batch::of([delete_scope(), put("gone", "1999")]);
        run(&db, &batch).unwrap();
        assert_eq!(seen(&db), (1, 1, true));
    }
}
