//! What the executor knows of a task besides its future: what it is about, and what it gives up when it takes too long.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::provider::Incarnation;

/// Kinds of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Dispatchers and what else belongs to no instance. Leases are kept from the moment in which a dispatcher takes up
    /// the answer to its claim.
    Dispatch,
    /// Turns, which others wait for.
    Engine,
    /// Activities, which may take their time.
    Work,
}

/// What is known of a task while it is polled.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(super) kind: TaskKind,
    /// The task in words, before its subject.
    words: &'static str,
    subject: Option<Arc<str>>,
    incarnation: Option<Incarnation>,
    pub(super) forfeit: Option<Arc<Forfeit>>,
}

impl Task {
    /// A task of the engine itself.
    pub(crate) fn engine(words: &'static str) -> Self {
        Self {
            kind: TaskKind::Dispatch,
            words,
            subject: None,
            incarnation: None,
            forfeit: None,
        }
    }

    /// A task that runs an author's code for an instance.
    pub(crate) fn of(kind: TaskKind, words: &'static str, subject: Arc<str>) -> Self {
        Self {
            kind,
            words,
            subject: Some(subject),
            incarnation: None,
            forfeit: None,
        }
    }

    /// The same, for one life of the instance.
    pub(crate) fn in_incarnation(mut self, incarnation: Option<Incarnation>) -> Self {
        self.incarnation = incarnation;
        self
    }

    /// The same, with something that it gives up when one poll of it takes too long.
    pub(crate) fn forfeits(mut self, forfeit: Arc<Forfeit>) -> Self {
        self.forfeit = Some(forfeit);
        self
    }

    /// Whether these are its words, and it is about this life of an instance.
    pub(super) fn is(&self, words: &str, subject: &str, incarnation: Option<Incarnation>) -> bool {
        self.words == words
            && self.subject.as_deref() == Some(subject)
            && self.incarnation == incarnation
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words)?;
        match &self.subject {
            Some(subject) => write!(f, " {subject}"),
            None => Ok(()),
        }
    }
}

/// Something that a task holds and that others get when one poll of the task takes too long: code that never returns
/// keeps its thread, and nothing else.
pub(crate) struct Forfeit {
    pub(super) after: Duration,
    what: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Forfeit {
    pub(crate) fn new(after: Duration, what: impl Any + Send) -> Arc<Self> {
        Arc::new(Self {
            after,
            what: Mutex::new(Some(Box::new(what))),
        })
    }

    /// Gives it up, if that has not happened yet.
    pub(crate) fn release(&self) {
        let what = self
            .what
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(what);
    }
}

impl fmt::Debug for Forfeit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forfeit")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_of_an_earlier_life_is_not_one_of_a_later_life() {
        let (first, second) = (
            Some(Incarnation::from_random(10)),
            Some(Incarnation::from_random(20)),
        );
        let turn = Task::of(TaskKind::Engine, "a turn of", Arc::from("i")).in_incarnation(first);
        assert!(turn.is("a turn of", "i", first));
        assert!(!turn.is("a turn of", "i", second));
    }
}
