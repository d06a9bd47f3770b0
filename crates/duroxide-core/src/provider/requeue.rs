//! Whether a dead letter may go back into its queue. In: the letter, what the store knows of it, and the living
//! instance. Out: a reason to refuse, or none. The rules are the same for every store.

use super::Incarnation;
use crate::WorkItem;

/// What became of a dead letter that was to go back into its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requeue {
    /// The message is in its queue again, and the dead letter is gone.
    Done,
    /// There is no such dead letter.
    NoSuchDeadLetter,
    /// Nothing was changed.
    Refused {
        /// The reason, for an operator.
        why: String,
    },
}

/// What a store knows of a dead letter beside its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeadLetterOrigin {
    /// The life of the instance that the message was for, as far as that is known.
    pub incarnation: Option<Incarnation>,
    /// Whether the instance got a failure in place of the message.
    pub answered: bool,
}

impl DeadLetterOrigin {
    /// Why a message must stay a dead letter; `current` is the life of its instance, if that exists.
    ///
    /// A message that belongs to one operation (a result, a timer, an activity) must not reach another life of the id:
    /// numbers of executions and events repeat there. Signals, queue messages and requests to cancel are for the
    /// instance that has the id now, unless they are known to be for an earlier life.
    #[must_use]
    pub fn refusal(self, item: &WorkItem, current: Option<Incarnation>) -> Option<String> {
        let instance = item.target_instance();
        if self.answered {
            return Some(format!(
                "{instance} got a failure in its place, and went on without it"
            ));
        }
        match self.incarnation {
            Some(incarnation) if current != Some(incarnation) => Some(format!(
                "it is for an earlier instance {instance}, which was deleted"
            )),
            None if names_operation(item) => Some(format!(
                "it belongs to an operation of an instance {instance} that is not known to be the one of today"
            )),
            Some(_) | None => None,
        }
    }
}

/// Whether the message is about one operation of one execution.
fn names_operation(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::ActivityExecute { .. }
            | WorkItem::ActivityCompleted { .. }
            | WorkItem::ActivityFailed { .. }
            | WorkItem::TimerFired { .. }
            | WorkItem::SubOrchCompleted { .. }
            | WorkItem::SubOrchFailed { .. }
    )
}
