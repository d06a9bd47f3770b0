//! Instances and activities that SQLite cannot read. In: the first failed read of one. Out: what the writer must not
//! touch again, because SQLite refuses to commit a transaction that met a damaged page; and of what an operator has to
//! be told by a note, which a later transaction writes (`ops/note_damage.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use crate::error::{Result, SqliteError};

/// How many damaged instances, activities and messages are kept; with more than this, all are dropped and met anew.
const DAMAGED_MAX: usize = 8_192;

/// What of an instance cannot be read, in SQLite's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Damage {
    Messages(String),
    History(String),
}

/// How often the note of one damaged row is written: a transaction that wrote it may have been rolled back.
const NOTE_TRIES: u32 = 3;
/// How many notes one claim writes at most.
const NOTES_AT_ONCE: usize = 16;

/// What the note of a damaged row is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteFrom {
    /// The row of the instance and its history.
    Whole,
    /// The row alone: the history cannot be read.
    Row,
    /// The id alone: the row cannot be read either.
    Id,
}

/// A damaged row of which the store has no note yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unnoted {
    pub(crate) row: DamagedRow,
    /// What SQLite said.
    pub(crate) why: String,
    pub(crate) from: NoteFrom,
    tries_left: u32,
}

/// What is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DamagedRow {
    /// The messages of this instance, or its own row.
    Instance(String),
    /// The activity of this number.
    Activity(i64),
}

/// The damaged rows that this process has met. Belongs to the writer thread.
#[derive(Debug, Default)]
pub(crate) struct DamagedRows {
    instances: RefCell<HashMap<String, Damage>>,
    /// Numbers of activities.
    work: RefCell<HashSet<i64>>,
    /// Numbers of messages that are to go with a deleted instance.
    messages: RefCell<HashSet<i64>>,
    /// Deleted instances of which no sweep deletes more.
    leftovers: RefCell<HashSet<String>>,
    unnoted: RefCell<Vec<Unnoted>>,
    /// Whether the last row of a queue could not be read.
    last_row: Cell<bool>,
}

impl DamagedRows {
    pub(crate) fn get(&self, instance: &str) -> Option<Damage> {
        let damaged = self.instances.borrow();
        if damaged.is_empty() {
            return None;
        }
        damaged.get(instance).cloned()
    }

    pub(crate) fn has_unreadable_messages(&self, instance: &str) -> bool {
        let damaged = self.instances.borrow();
        matches!(damaged.get(instance), Some(Damage::Messages(_)))
    }

    /// A page of the instance could not be read.
    pub(crate) fn add(&self, instance: &str, damage: Damage) {
        let mut damaged = self.instances.borrow_mut();
        if damaged.len() >= DAMAGED_MAX {
            damaged.clear();
        }
        tracing::error!(target: "duroxide::providers::sqlite", instance_id = instance, ?damage, "part of an instance cannot be read; restore a backup");
        // A history that cannot be read is handed out as that, and the node notes it.
        if let Damage::Messages(why) = &damage {
            self.is_unnoted(DamagedRow::Instance(instance.to_owned()), why);
        }
        damaged.insert(instance.to_owned(), damage);
    }

    /// Whether any activity could not be read.
    pub(crate) fn has_work(&self) -> bool {
        !self.work.borrow().is_empty()
    }

    pub(crate) fn contains_work(&self, id: i64) -> bool {
        self.work.borrow().contains(&id)
    }

    /// An activity could not be read.
    pub(crate) fn add_work(&self, id: i64, detail: &str) {
        let mut damaged = self.work.borrow_mut();
        if damaged.len() >= DAMAGED_MAX {
            damaged.clear();
        }
        tracing::error!(target: "duroxide::providers::sqlite", row = id, detail, "an activity cannot be read; restore a backup");
        if damaged.insert(id) {
            self.is_unnoted(DamagedRow::Activity(id), detail);
        }
    }

    /// Whether a message that is to go with a deleted instance stays.
    pub(crate) fn contains_message(&self, id: i64) -> bool {
        self.messages.borrow().contains(&id)
    }

    /// Messages that are to go with a deleted instance could not be read or deleted.
    pub(crate) fn leave_messages(&self, ids: &[i64], detail: &str) {
        leave(&mut self.messages.borrow_mut(), ids);
        tracing::error!(target: "duroxide::providers::sqlite", rows = ids.len(), first = ids.first(), detail, "messages of a deleted instance cannot be deleted; restore a backup");
    }

    /// No claim looks at a child whose start is one of them: it never begins.
    pub(crate) fn leave_unborn(&self, child: &str, detail: &str) {
        let mut damaged = self.instances.borrow_mut();
        if damaged.len() >= DAMAGED_MAX {
            damaged.clear();
        }
        damaged.insert(child.to_owned(), Damage::Messages(detail.to_owned()));
    }

    /// Activities that are to go with a deleted instance could not be read or deleted. No operator waits for a note of
    /// them.
    pub(crate) fn leave_work(&self, ids: &[i64], detail: &str) {
        leave(&mut self.work.borrow_mut(), ids);
        tracing::error!(target: "duroxide::providers::sqlite", rows = ids.len(), first = ids.first(), detail, "activities of a deleted instance cannot be deleted; restore a backup");
    }

    /// Whether no sweep deletes more of what is left of this instance.
    pub(crate) fn contains_leftover(&self, instance: &str) -> bool {
        self.leftovers.borrow().contains(instance)
    }

    /// What is left of a deleted instance could not be read or deleted, whatever was passed over.
    pub(crate) fn add_leftover(&self, instance: &str, detail: &str) {
        let mut damaged = self.leftovers.borrow_mut();
        if damaged.len() >= DAMAGED_MAX {
            damaged.clear();
        }
        tracing::error!(target: "duroxide::providers::sqlite", instance_id = instance, detail, "what is left of a deleted instance cannot be deleted; restore a backup");
        damaged.insert(instance.to_owned());
    }

    /// Runs what remembers rows that it cannot read. If it fails because of a damaged page without having remembered
    /// one, `otherwise` remembers what the caller knows: the next transaction would meet the same.
    pub(crate) fn remembering<T>(
        &self,
        run: impl FnOnce() -> Result<T>,
        otherwise: impl FnOnce(&str),
    ) -> Result<T> {
        let before = self.known();
        let done = run();
        if let Err(SqliteError::Damaged { detail }) = &done
            && self.known() == before
        {
            otherwise(detail);
        }
        done
    }

    /// How much is remembered.
    fn known(&self) -> usize {
        self.instances.borrow().len()
            + self.work.borrow().len()
            + self.messages.borrow().len()
            + self.leftovers.borrow().len()
    }

    /// The last row of a queue, which tells the time of other processes, could not be read.
    pub(crate) fn add_last_row(&self) {
        self.last_row.set(true);
    }

    pub(crate) fn has_last_row(&self) -> bool {
        self.last_row.get()
    }

    fn is_unnoted(&self, row: DamagedRow, why: &str) {
        let mut unnoted = self.unnoted.borrow_mut();
        if unnoted.len() < DAMAGED_MAX && unnoted.iter().all(|known| known.row != row) {
            unnoted.push(Unnoted {
                row,
                why: why.to_owned(),
                from: NoteFrom::Whole,
                tries_left: NOTE_TRIES,
            });
        }
    }

    /// Some damaged rows of which a note is to be written. Each comes as often as it may be tried, until
    /// [`noted`](Self::noted) takes it out.
    pub(crate) fn to_note(&self) -> Vec<Unnoted> {
        let mut unnoted = self.unnoted.borrow_mut();
        unnoted.retain(|one| one.tries_left > 0);
        let mut some = Vec::new();
        for one in unnoted.iter_mut().take(NOTES_AT_ONCE) {
            one.tries_left -= 1;
            some.push(one.clone());
        }
        some
    }

    /// The store has a note of it, or there is nothing to note.
    pub(crate) fn noted(&self, row: &DamagedRow) {
        self.unnoted.borrow_mut().retain(|one| one.row != *row);
    }

    /// Its note cannot be taken from as much as was tried; the next one is taken from this.
    pub(crate) fn note_from(&self, row: &DamagedRow, from: NoteFrom) {
        let mut unnoted = self.unnoted.borrow_mut();
        for one in unnoted.iter_mut().filter(|one| one.row == *row) {
            one.from = from;
            one.tries_left = NOTE_TRIES;
        }
    }
}

fn leave(known: &mut HashSet<i64>, ids: &[i64]) {
    if known.len() >= DAMAGED_MAX {
        known.clear();
    }
    known.extend(ids);
}
