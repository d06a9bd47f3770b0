//! Messages that were enqueued in the open transaction and that no table holds yet. In: messages, from the table of the
//! orchestrator queue. Out: the same, for the claim that hands them out, the commit that ends them, or the table. Never
//! a statement. `early/mod.rs` has the protocol.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// A message that no table holds yet. It is due, and the only one of its instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnwrittenMessage {
    /// The number that its row gets, if one is written.
    pub(crate) id: i64,
    pub(crate) instance: String,
    pub(crate) kind: &'static str,
    pub(crate) json: String,
    pub(crate) visible_at: i64,
    pub(crate) created_at: i64,
    pub(crate) lane: String,
    /// Whether it begins an execution.
    pub(crate) begins: bool,
    /// Execution and scheduling event of the operation that waits for it.
    pub(crate) answers: Option<(i64, i64)>,
    /// The parent, if it starts a child.
    pub(crate) starts_child_of: Option<String>,
    /// Whether it carries unread queue messages.
    pub(crate) carries: bool,
}

/// The unwritten messages of one transaction, one of an instance at most.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    messages: RefCell<HashMap<String, UnwrittenMessage>>,
    /// The highest number that was given to a message since the first one that is unwritten.
    last_id: Cell<i64>,
    changes: Cell<u64>,
}

impl Unwritten {
    /// Keeps a message. Its number is higher than that of any row, and of any message that is kept.
    pub(crate) fn keep(&self, message: UnwrittenMessage) {
        self.changed();
        self.last_id.set(message.id);
        let mut messages = self.messages.borrow_mut();
        messages.insert(message.instance.clone(), message);
    }

    /// The number for another message, whether or not it is kept; `None` if the table knows the last one itself,
    /// because every message is written.
    pub(crate) fn give_id(&self) -> Option<i64> {
        if self.is_empty() {
            return None;
        }
        let id = self.last_id.get().checked_add(1)?;
        self.last_id.set(id);
        Some(id)
    }

    /// Ends the message of an instance, if it is one of those with these numbers. Returns whether it was.
    pub(crate) fn end(&self, instance: &str, ids: &[i64]) -> bool {
        let mut messages = self.messages.borrow_mut();
        let is_among = |message: &UnwrittenMessage| ids.contains(&message.id);
        if !messages.get(instance).is_some_and(is_among) {
            return false;
        }
        messages.remove(instance);
        self.changed();
        true
    }

    /// The message of an instance.
    pub(crate) fn get(&self, instance: &str) -> Option<UnwrittenMessage> {
        self.messages.borrow().get(instance).cloned()
    }

    pub(crate) fn contains(&self, instance: &str) -> bool {
        self.messages.borrow().contains_key(instance)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.borrow().is_empty()
    }

    /// Shows each of them to `visit`, in no order.
    pub(crate) fn each(&self, visit: impl FnMut(&UnwrittenMessage)) {
        self.messages.borrow().values().for_each(visit);
    }

    /// Takes all of them, in the order of their numbers.
    pub(crate) fn take_all(&self) -> Vec<UnwrittenMessage> {
        self.changed();
        let mut all: Vec<_> = self.messages.take().into_values().collect();
        all.sort_unstable_by_key(|message| message.id);
        all
    }

    /// Grows with every message that is kept, ended or taken: if the request fails that did so, only a rollback of
    /// everything undoes it.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    fn changed(&self) {
        self.changes.set(self.changes.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: i64, instance: &str) -> UnwrittenMessage {
        UnwrittenMessage {
            id,
            instance: instance.to_owned(),
            kind: "StartOrchestration",
            json: String::new(),
            visible_at: 0,
            created_at: 0,
            lane: String::new(),
            begins: true,
            answers: None,
            starts_child_of: None,
            carries: false,
        }
    }

    #[test]
    fn while_a_message_is_unwritten_numbers_go_on_after_it() {
        let unwritten = Unwritten::default();
        assert_eq!(unwritten.give_id(), None, "the table knows");
        unwritten.keep(message(7, "a"));
        assert_eq!(unwritten.give_id(), Some(8));
        assert_eq!(unwritten.give_id(), Some(9), "of a row");
        unwritten.keep(message(10, "b"));
        let written: Vec<i64> = unwritten.take_all().iter().map(|it| it.id).collect();
        assert_eq!(written, [7, 10]);
        assert_eq!(unwritten.give_id(), None);
    }

    #[test]
    fn only_the_turn_that_was_claimed_with_a_message_ends_it() {
        let unwritten = Unwritten::default();
        unwritten.keep(message(7, "a"));
        let before = unwritten.changes();
        assert!(!unwritten.end("a", &[6]) && !unwritten.end("b", &[7]));
        assert_eq!(unwritten.changes(), before);
        assert!(unwritten.end("a", &[6, 7]) && unwritten.is_empty());
        assert!(unwritten.changes() > before);
    }
}
