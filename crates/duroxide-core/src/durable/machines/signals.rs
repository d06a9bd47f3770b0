//! Positional signals: which wait gets the next signal of a name.
//!
//! A signal goes to the oldest recorded wait of its name that has no value yet. Without one it is lost, which is what
//! "positional" means; queues are for messages that must not be lost. (What the code
//! decides before a signal is recorded before it, so a wait of the same turn counts as well; see `turn.rs`.)

use std::collections::{HashMap, VecDeque};

/// Recorded waits without a value, by name, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    waiting: HashMap<String, VecDeque<usize>>,
}

impl Signals {
    /// A wait was recorded.
    pub(crate) fn subscribe(&mut self, name: &str, wait: usize) {
        self.waiting
            .entry(name.to_owned())
            .or_default()
            .push_back(wait);
    }

    /// A signal arrived; returns the wait it resolves.
    pub(crate) fn accept(&mut self, name: &str) -> Option<usize> {
        self.waiting.get_mut(name)?.pop_front()
    }

    /// The wait that would get the next signal of this name.
    pub(crate) fn next(&self, name: &str) -> Option<usize> {
        self.waiting.get(name)?.front().copied()
    }

    /// Whether a wait would get the next signal of this name.
    pub(crate) fn is_awaited(&self, name: &str) -> bool {
        self.waiting
            .get(name)
            .is_some_and(|waits| !waits.is_empty())
    }

    /// A wait was dropped; its slot is free for the next signal.
    pub(crate) fn unsubscribe(&mut self, name: &str, wait: usize) {
        if let Some(waits) = self.waiting.get_mut(name) {
            waits.retain(|w| *w != wait);
        }
    }
}
