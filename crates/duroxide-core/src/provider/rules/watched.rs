//! What the watches of one instance know of it. In: what commits did to the instance. Out: whether its watches are
//! notified, and whether one that waits for the end has it, reads the instance, or waits on. Never waits itself: a
//! store keeps the feed where its watches wait.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::provider::InstanceOutcome;

/// What a commit did to an instance, as far as its watches are concerned.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstanceChange {
    /// The commit enqueued its start; it did not exist before.
    Started,
    /// It ran a turn and has not ended.
    Progressed,
    /// It ended like this.
    Ended(InstanceOutcome),
    /// The commit changed it in a way that only a read can show.
    Unknown,
}

impl InstanceChange {
    /// Whether the instance is known to run after this change; `None` if that is as it was before.
    #[must_use]
    pub fn runs(&self) -> Option<bool> {
        match self {
            Self::Started => Some(true),
            Self::Progressed => None,
            Self::Ended(_) | Self::Unknown => Some(false),
        }
    }
}

/// What happened to an instance since its first watch was registered.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use duroxide_core::provider::rules::{InstanceChange, InstanceFeed};
///
/// let mut feed = InstanceFeed::default();
/// let mut seen = feed.seen();
/// assert!(feed.add(InstanceChange::Progressed));
/// assert_eq!(feed.end_since(&mut seen), ControlFlow::Continue(()), "it runs: wait on");
/// assert!(feed.add(InstanceChange::Unknown));
/// assert_eq!(feed.end_since(&mut seen), ControlFlow::Break(None), "read it");
/// assert_eq!(feed.end_since(&mut seen), ControlFlow::Continue(()), "it was read: wait on");
/// ```
#[derive(Debug, Clone, Default)]
pub struct InstanceFeed {
    /// Counts the changes that only a read of the instance can show.
    unknown_changes: u64,
    ended: Option<Arc<InstanceOutcome>>,
}

impl InstanceFeed {
    /// Adds a change. Returns whether the watches are to be notified.
    pub fn add(&mut self, change: InstanceChange) -> bool {
        match change {
            // Another instance under the same id: what is known is about the one before.
            InstanceChange::Started if self.ended.is_some() => self.forget(),
            InstanceChange::Started => return false,
            // What ended does not run again: another life of the id does, whose beginning was not seen here.
            InstanceChange::Progressed if self.ended.is_some() => self.forget(),
            InstanceChange::Progressed => {}
            InstanceChange::Unknown => self.forget(),
            InstanceChange::Ended(outcome) => self.ended = Some(Arc::new(outcome)),
        }
        true
    }

    fn forget(&mut self) {
        self.ended = None;
        self.unknown_changes = self.unknown_changes.wrapping_add(1);
    }

    /// How far a watch that is registered now knows the feed.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.unknown_changes
    }

    /// What a watch that waits for the end does next: break with the outcome; break with `None` and read the instance,
    /// because it changed in an unknown way since `seen`; or continue to wait.
    pub fn end_since(&self, seen: &mut u64) -> ControlFlow<Option<InstanceOutcome>> {
        if let Some(outcome) = &self.ended {
            return ControlFlow::Break(Some(InstanceOutcome::clone(outcome)));
        }
        if *seen != self.unknown_changes {
            *seen = self.unknown_changes;
            return ControlFlow::Break(None);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::OutcomeStatus;

    fn ended() -> InstanceChange {
        InstanceChange::Ended(InstanceOutcome {
            execution_id: 1,
            status: OutcomeStatus::Completed {
                output: "of the first life".to_owned(),
            },
            custom_status: None,
            custom_status_version: 0,
        })
    }

    #[test]
    fn an_instance_that_goes_on_after_its_end_is_another_one_whose_end_is_not_known() {
        for change in [InstanceChange::Progressed, InstanceChange::Started] {
            let mut feed = InstanceFeed::default();
            assert!(feed.add(ended()));
            assert!(feed.add(change));
            let mut seen = feed.seen();
            assert_eq!(feed.end_since(&mut seen), ControlFlow::Continue(()));
        }
    }
}
