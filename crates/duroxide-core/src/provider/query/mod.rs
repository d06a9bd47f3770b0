//! Questions about many instances. In: an [`InstanceQuery`]. Out: a [`Page`] of [`InstanceSummary`], or counts. Pure
//! data and rules; the stores do the looking.

mod cursor;
mod select;
mod summary;
mod waiting;

use serde::{Deserialize, Serialize};

use crate::label::Labels;

pub use cursor::{PageCursor, PagePosition};
pub use select::Listed;
pub use summary::{InstanceCount, InstanceStatus, InstanceSummary, Page};
pub use waiting::WaitingFor;

/// The most instances that one page holds.
pub const PAGE_SIZE_MAX: u32 = 1_000;

/// How many instances a page holds if the query does not say.
pub const PAGE_SIZE_DEFAULT: u32 = 100;

/// Which instances, in which order, which page. Criteria are combined with "and"; a new query admits everything.
///
/// ```
/// use duroxide_core::provider::{InstanceQuery, InstanceStatus};
/// let failed_orders = InstanceQuery::new()
///     .with_status(InstanceStatus::Failed)
///     .with_name("order")
///     .with_id_prefix("eu-")
///     .with_page_size(20);
/// assert_eq!(failed_orders.page_size(), 20);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceQuery {
    /// One of these; any if empty.
    pub statuses: Vec<InstanceStatus>,
    /// Exactly this handler name.
    pub name: Option<String>,
    /// Exactly this handler version.
    pub version: Option<String>,
    /// Ids that begin with this text; letters count as they are, no character is a wildcard.
    pub id_prefix: Option<String>,
    /// Direct children of this instance.
    pub parent: Option<String>,
    /// This instance and all its descendants.
    pub root: Option<String>,
    /// Only instances without a parent.
    pub roots_only: bool,
    /// The time at which the instance was created.
    pub created: TimeRange,
    /// The time at which its last turn was committed. A turn that only drops what came after the end need not count.
    pub updated: TimeRange,
    /// Time at which its current execution completed or failed; a bound excludes what has not ended.
    pub ended: TimeRange,
    /// Only instances that a dead letter names.
    pub has_dead_letters: bool,
    /// Only instances that are paused, or only those that are not; both if `None`.
    pub paused: Option<bool>,
    /// Only instances that run and wait for this, by [`open_waits`](crate::open_waits). Stores have no index of it:
    /// they read the histories of what runs and is otherwise admitted, at most 1,000 for one page. A page of such a
    /// query may hold fewer instances than asked for, even none, and lead to another one.
    pub waiting_for: Option<WaitingFor>,
    /// Only instances that a node noted it cannot go on with ([`BlockNote`](super::BlockNote)), or only the others;
    /// both if `None`.
    pub blocked: Option<bool>,
    /// Only instances that have all of these labels, with these values.
    pub labels: Labels,
    /// The order.
    pub sort: InstanceSort,
    /// Size of a page; see [`page_size`](Self::page_size).
    pub limit: Option<u32>,
    /// End of the previous page; `None` for the first.
    pub after: Option<PageCursor>,
}

/// A range of times in milliseconds since the Unix epoch: `from` is included, `until` is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// The earliest time; no bound if `None`.
    pub from_ms: Option<u64>,
    /// The time that everything lies before; no bound if `None`.
    pub until_ms: Option<u64>,
}

/// The order of a query. Instances with the same time are ordered by their ids, so that no two pages share or lose one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InstanceSort {
    /// The time that decides.
    pub by: SortKey,
    /// The end that comes first.
    pub order: SortOrder,
}

/// Which time decides the order. Every store must answer each of these, so a match names them all: another one is a
/// breaking change for providers, and is meant to be seen by their authors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SortKey {
    /// When the instance was created. It never changes: paging meets each instance that exists throughout exactly once.
    #[default]
    Created,
    /// When its last turn was committed. An instance that moves while pages are read may be met twice.
    Updated,
}

/// Which end comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SortOrder {
    /// The latest time.
    #[default]
    NewestFirst,
    /// The earliest time.
    OldestFirst,
}

/// What instances are counted by. Closed like [`SortKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CountBy {
    /// All together.
    Nothing,
    /// By the status of the current execution.
    Status,
    /// By handler name.
    Name,
    /// By handler version.
    Version,
}

impl TimeRange {
    /// From this time on.
    #[must_use]
    pub fn from(ms: u64) -> Self {
        Self {
            from_ms: Some(ms),
            until_ms: None,
        }
    }

    /// Before this time.
    #[must_use]
    pub fn until(ms: u64) -> Self {
        Self {
            from_ms: None,
            until_ms: Some(ms),
        }
    }

    /// Whether the range has a bound.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.from_ms.is_some() || self.until_ms.is_some()
    }

    /// Whether a time lies in it.
    #[must_use]
    pub fn contains(&self, ms: u64) -> bool {
        self.from_ms.is_none_or(|from| ms >= from) && self.until_ms.is_none_or(|until| ms < until)
    }
}

impl InstanceQuery {
    /// A query that admits everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Admits one more status.
    #[must_use]
    pub fn with_status(mut self, status: InstanceStatus) -> Self {
        self.statuses.push(status);
        self
    }

    /// Only this handler name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only this handler version.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Only ids that begin with this text.
    #[must_use]
    pub fn with_id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Only direct children of this instance.
    #[must_use]
    pub fn with_parent(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Only this instance and its descendants.
    #[must_use]
    pub fn with_root(mut self, root: impl Into<String>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// Only instances without a parent.
    #[must_use]
    pub fn with_roots_only(mut self) -> Self {
        self.roots_only = true;
        self
    }

    /// Only instances that were created in this range.
    #[must_use]
    pub fn with_created(mut self, range: TimeRange) -> Self {
        self.created = range;
        self
    }

    /// Only instances whose last turn was committed in this range.
    #[must_use]
    pub fn with_updated(mut self, range: TimeRange) -> Self {
        self.updated = range;
        self
    }

    /// Only instances that ended in this range.
    #[must_use]
    pub fn with_ended(mut self, range: TimeRange) -> Self {
        self.ended = range;
        self
    }

    /// Only instances that a dead letter names.
    #[must_use]
    pub fn with_dead_letters(mut self) -> Self {
        self.has_dead_letters = true;
        self
    }

    /// Only instances that are paused, or only those that are not.
    #[must_use]
    pub fn with_paused(mut self, paused: bool) -> Self {
        self.paused = Some(paused);
        self
    }

    /// Only instances that wait for this.
    #[must_use]
    pub fn waiting_for(mut self, what: WaitingFor) -> Self {
        self.waiting_for = Some(what);
        self
    }

    /// Only instances that no node can go on with, as far as nodes have noted it, or only the others.
    #[must_use]
    pub fn with_blocked(mut self, blocked: bool) -> Self {
        self.blocked = Some(blocked);
        self
    }

    /// Only instances that have this label with this value; of several, all.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// In this order.
    #[must_use]
    pub fn sorted(mut self, by: SortKey, order: SortOrder) -> Self {
        self.sort = InstanceSort { by, order };
        self
    }

    /// So many on a page.
    #[must_use]
    pub fn with_page_size(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The page that follows the one with this cursor.
    #[must_use]
    pub fn after(mut self, cursor: PageCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// How many instances a page of this query holds: 100 unless asked, at least 1, at most 1,000.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.limit
            .unwrap_or(PAGE_SIZE_DEFAULT)
            .clamp(1, PAGE_SIZE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_between_one_and_a_thousand() {
        let size = |limit| InstanceQuery::new().with_page_size(limit).page_size();
        assert_eq!((size(0), size(7), size(u32::MAX)), (1, 7, 1_000));
        assert_eq!(InstanceQuery::new().page_size(), 100);
    }

    #[test]
    fn a_range_holds_its_beginning_and_not_its_end() {
        let range = TimeRange {
            from_ms: Some(5),
            until_ms: Some(7),
        };
        let held: Vec<u64> = (0..10).filter(|ms| range.contains(*ms)).collect();
        assert_eq!(held, [5, 6]);
        assert!(TimeRange::default().contains(0));
    }
}
