//! What a request did that others wait for. In: the request, as it runs. Out: facts for the writer, which tries waiting
//! claims in the same transaction and notifies watches after the commit.

use duroxide_core::provider::rules::InstanceChange;

/// What a request did, as far as waiting claims and watched instances are concerned.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Earliest time at which a turn may have become claimable.
    turns_at: Option<i64>,
    /// Earliest time at which an activity may have become claimable.
    work_at: Option<i64>,
    /// Instances that changed, and how.
    changes: Vec<(String, InstanceChange)>,
}

impl Effects {
    pub(crate) fn turn_claimable_at(&mut self, at: i64) {
        self.turns_at = Some(self.turns_at.map_or(at, |known| known.min(at)));
    }

    pub(crate) fn work_claimable_at(&mut self, at: i64) {
        self.work_at = Some(self.work_at.map_or(at, |known| known.min(at)));
    }

    pub(crate) fn instance_changed(&mut self, instance: &str, change: InstanceChange) {
        self.changes.push((instance.to_owned(), change));
    }

    pub(crate) fn turns_at(&self) -> Option<i64> {
        self.turns_at
    }

    pub(crate) fn work_at(&self) -> Option<i64> {
        self.work_at
    }

    pub(crate) fn changes(&self) -> &[(String, InstanceChange)] {
        &self.changes
    }

    pub(crate) fn take_changes(&mut self) -> Vec<(String, InstanceChange)> {
        std::mem::take(&mut self.changes)
    }
}
