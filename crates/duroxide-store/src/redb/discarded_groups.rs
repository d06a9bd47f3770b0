//! Groups of deleted messages that are still in the file. A deletion removes a bounded number of messages and lists the
//! group; the writer removes the rest between its other jobs, so that no deletion holds them up. In: deletions inside a
//! write transaction. Out: fewer messages in the file. Never: a message of a listed group that is alive, because what
//! comes for the group waits until nothing is left of it. `dead_messages.rs` says who passes by what is listed.

use ::redb::ReadableTable;

use super::dead_messages::has;
use super::error::{Result, Trouble};
use super::tables::Tables;
use super::{grouped, single};

/// Refuses what is to be added to a listed group until nothing is left of it, and removes some of it, so that it need
/// not wait for other names.
pub(super) fn expect_none(tables: &mut Tables<'_>, queue: &str, group: &str) -> Result<()> {
    if has(tables, queue, group)? {
        remove_some_listed(tables, queue, group)?;
        return Err(Trouble::Later);
    }
    Ok(())
}

/// Deletes a group without its row and its lease; returns how many messages were alive.
pub(super) fn delete(
    tables: &mut Tables<'_>,
    queue: &str,
    group: &str,
    is_grouped: bool,
) -> Result<u64> {
    if has(tables, queue, group)? {
        return Ok(0);
    }
    let mut there = 0;
    for found in tables.by_group.range(all_of(queue, group))? {
        found?;
        there += 1;
    }
    let removed = remove_some(tables, queue, group, is_grouped)?;
    if removed < there {
        tables.discarded_names.insert((Some(queue), group), ())?;
        tables.has_left_some();
    }
    Ok(there)
}

/// Makes room for what follows the deletion of its group in one batch: the rest goes in this transaction, too.
pub(super) fn make_room(tables: &mut Tables<'_>, queue: &str, group: &str) -> Result<()> {
    if !has(tables, queue, group)? {
        return Ok(());
    }
    let is_grouped = delivers_groups(tables, queue)?;
    while remove_some(tables, queue, group, is_grouped)? > 0 {}
    tables.discarded_names.remove((Some(queue), group))?;
    Ok(())
}

/// Removes some messages of the first group on the list; returns whether there was one. Scopes stand before groups.
pub(super) fn sweep(tables: &mut Tables<'_>) -> Result<bool> {
    let Some(found) = tables.discarded_names.first()? else {
        return Ok(false);
    };
    let (Some(queue), group) = found.0.value() else {
        return Ok(false);
    };
    let (queue, group) = (queue.to_owned(), group.to_owned());
    drop(found);
    remove_some_listed(tables, &queue, &group)?;
    Ok(true)
}

fn remove_some_listed(tables: &mut Tables<'_>, queue: &str, group: &str) -> Result<()> {
    let is_grouped = delivers_groups(tables, queue)?;
    if remove_some(tables, queue, group, is_grouped)? < tables.step as u64 {
        tables.discarded_names.remove((Some(queue), group))?;
    }
    Ok(())
}

fn delivers_groups(tables: &Tables<'_>, queue: &str) -> Result<bool> {
    let grouped = tables.queues.get(queue)?;
    Ok(grouped.is_some_and(|grouped| grouped.value()))
}

type Place<'n> = (&'n str, &'n str, u64, u64);

fn all_of<'n>(queue: &'n str, group: &'n str) -> std::ops::RangeInclusive<Place<'n>> {
    (queue, group, 0, 0)..=(queue, group, u64::MAX, u64::MAX)
}

fn remove_some(tables: &mut Tables<'_>, queue: &str, group: &str, is_grouped: bool) -> Result<u64> {
    let mut ids = Vec::new();
    for found in tables
        .by_group
        .range(all_of(queue, group))?
        .take(tables.step)
    {
        ids.push(found?.0.value().3);
    }
    if is_grouped {
        for id in &ids {
            grouped::forget(tables, queue, *id)?;
        }
    } else {
        single::remove(tables, queue, &ids)?;
    }
    Ok(ids.len() as u64)
}

#[cfg(test)]
mod tests {
    use ::redb::{Database, ReadableDatabase as _, ReadableTableMetadata as _};

    use super::super::in_memory::{file, write};
    use super::super::tables::{STEP, Views};
    use super::super::{answer, commit};
    use super::*;
    use crate::atomic::{Batch, Guard, Operation, Query};
    use crate::error::StoreError;
    use crate::lease::LeaseToken;
    use crate::message::{Claim, NewMessage, Queue, Role, Visible};
    use crate::poll::Attempt;

    const MAIL: Queue = Queue::grouped("mail");
    const WORK: Queue = Queue::single("work");
    const NOW: u64 = 1_000;

    fn run(db: &Database, operations: Vec<Operation>) -> Result<Vec<u64>> {
        let batch = Batch::of(operations);
        write(db, |tables| Ok(commit::batch(tables, &batch, NOW)?.counts))
    }

    fn enqueue(queue: &Queue, message: NewMessage) -> Operation {
        let queue = queue.clone();
        Operation::Enqueue { queue, message }
    }

    fn delete_group(queue: &Queue) -> Operation {
        let (queue, group) = (queue.clone(), "gone".to_owned());
        Operation::DeleteGroup { queue, group }
    }

    /// Two thousand messages of a group in each queue, some of them not due, and one of another group behind them.
    fn filled() -> Database {
        let db = file();
        for queue in [MAIL, WORK] {
            let many = (0..2_000).map(|n| NewMessage {
                key: Some(format!("{}", n % 3)),
                affinity: (n % 5 == 4).then(|| "bound".to_owned()),
                role: if n == 7 { Role::Lead } else { Role::Plain },
                visible: match n % 4 {
                    3 => Visible::AfterMs(60_000),
                    _ => Visible::Now,
                },
                ..NewMessage::new("gone", "dead")
            });
            let other = NewMessage::new("other", "alive");
            let all = many.chain([other]);
            run(&db, all.map(|message| enqueue(&queue, message)).collect()).unwrap();
        }
        db
    }

    fn rows(db: &Database) -> u64 {
        let views = Views::open(&db.begin_read().unwrap()).unwrap();
        views.messages.len().unwrap()
    }

    fn claimed(db: &Database, queue: &Queue) -> Vec<String> {
        let claim = Claim {
            max: 10,
            ..Claim::one(queue.clone(), 30_000)
        };
        loop {
            let before = rows(db);
            let (attempt, _) = write(db, |tables| commit::claim(tables, &claim, NOW)).unwrap();
            assert!(
                before - rows(db) <= STEP as u64,
                "a claim removes no more than a step"
            );
            match attempt {
                Attempt::Found(claimed) => {
                    return claimed.into_iter().map(|one| one.group).collect();
                }
                Attempt::Nothing {
                    due_ms: single::AT_ONCE,
                } => {}
                Attempt::Nothing { .. } => return Vec::new(),
            }
        }
    }

    /// Messages that a reader sees of the group and of all, by number and by key, and how many are counted.
    fn seen(db: &Database, queue: &Queue) -> (usize, usize, usize, usize, u64, u64) {
        let views = Views::open(&db.begin_read().unwrap()).unwrap();
        let ask = |query: Query| answer::run(&views, &query, NOW).unwrap();
        let queue = || queue.clone();
        let page = |group: Option<&str>| {
            let query = Query::Messages {
                queue: queue(),
                group: group.map(str::to_owned),
                after: 0,
                limit: 5_000,
            };
            ask(query).into_messages().unwrap().len()
        };
        let ids = Query::MessagesById {
            queue: queue(),
            ids: (1..5_000).collect(),
        };
        let by_key = Query::MessagesByKey {
            queue: queue(),
            group: "gone".to_owned(),
            key: "1".to_owned(),
        };
        let depths = ask(Query::Depths { queue: queue() }).into_depths().unwrap();
        let backlog = Query::Backlog {
            queue: queue(),
            limit: 9,
            count_max: 9_000,
        };
        let backlog = ask(backlog).into_backlog().unwrap();
        (
            page(Some("gone")),
            page(None),
            ask(ids).into_messages().unwrap().len(),
            ask(by_key).into_messages().unwrap().len(),
            depths
                .iter()
                .map(|one| one.ready + one.delayed + one.leased)
                .sum(),
            backlog.iter().map(|one| one.count).sum(),
        )
    }

    #[test]
    fn one_transaction_removes_a_bounded_number_of_messages() {
        for queue in [MAIL, WORK] {
            let db = filled();
            let before = rows(&db);
            assert_eq!(run(&db, vec![delete_group(&queue)]).unwrap(), [2_000]);
            assert_eq!(before - rows(&db), STEP as u64, "the deletion");
            assert_eq!(
                run(&db, vec![delete_group(&queue)]).unwrap(),
                [0],
                "a second time"
            );
            let mut steps = 0;
            loop {
                assert_eq!(seen(&db, &queue), (0, 1, 1, 0, 1, 1), "after {steps} steps");
                let before = rows(&db);
                if !write(&db, sweep).unwrap() {
                    break;
                }
                assert!(before - rows(&db) <= STEP as u64, "step {steps}");
                steps += 1;
            }
            assert_eq!((before - rows(&db), steps), (2_000, 3));
            assert_eq!(claimed(&db, &queue), ["other"]);
        }
    }

    #[test]
    fn nothing_of_a_deleted_group_is_handed_out() {
        for queue in [MAIL, WORK] {
            let db = filled();
            run(&db, vec![delete_group(&queue)]).unwrap();
            assert_eq!(claimed(&db, &queue), ["other"]);
        }
    }

    #[test]
    fn a_lease_on_a_deleted_group_is_lost_at_once() {
        for queue in [MAIL, WORK] {
            let db = filled();
            let claim = Claim {
                max: 700,
                ..Claim::one(queue.clone(), 30_000)
            };
            let (attempt, _) = write(&db, |tables| commit::claim(tables, &claim, NOW)).unwrap();
            let Attempt::Found(claimed) = attempt else {
                panic!("{attempt:?}");
            };
            let mut held = claimed.iter().filter(|one| one.group == "gone");
            // The last one is not among the first that are removed.
            let token: LeaseToken = held.next_back().unwrap().token.clone();
            run(&db, vec![delete_group(&queue)]).unwrap();
            let batch = Batch::default().guarded_by(Guard::Lease(token.clone()));
            let refused = write(&db, |tables| commit::batch(tables, &batch, NOW));
            let refused = refused.unwrap_err().into_store_error();
            assert!(matches!(refused, StoreError::LeaseLost(_)), "{refused:?}");
            let views = Views::open(&db.begin_read().unwrap()).unwrap();
            let lease = answer::run(&views, &Query::Lease { token }, NOW).unwrap();
            assert_eq!(lease.into_lease().unwrap(), None);
        }
    }

    #[test]
    fn what_comes_for_a_deleted_group_waits_until_nothing_is_left_of_it() {
        for queue in [MAIL, WORK] {
            let db = filled();
            run(&db, vec![delete_group(&queue)]).unwrap();
            let new = || vec![enqueue(&queue, NewMessage::new("gone", "new"))];
            let mut steps = 0;
            while let Err(trouble) = run(&db, new()) {
                assert!(matches!(trouble, Trouble::Later), "{trouble:?}");
                assert!(write(&db, sweep).unwrap());
                steps += 1;
            }
            assert_eq!(steps, 3);
            assert_eq!(seen(&db, &queue).0, 1);
            assert_eq!(claimed(&db, &queue).len(), 2);
        }
    }

    #[test]
    fn a_batch_that_deletes_a_group_may_fill_it_again() {
        for queue in [MAIL, WORK] {
            let db = filled();
            let new = enqueue(&queue, NewMessage::new("gone", "new"));
            run(&db, vec![delete_group(&queue), new]).unwrap();
            assert_eq!(seen(&db, &queue).0, 1);
            assert_eq!(claimed(&db, &queue).len(), 2);
        }
    }
}
