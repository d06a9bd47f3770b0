//! The rules of a query over instances that are already in memory. Stores with an index of their own need only
//! [`InstanceQuery::position`] and [`InstanceQuery::cut`].

use std::cmp::Ordering;

use super::{
    InstanceQuery, InstanceSort, InstanceStatus, InstanceSummary, Page, PageCursor, PagePosition,
    SortKey, SortOrder,
};
use crate::provider::{InstanceInfo, ProviderError};

impl InstanceQuery {
    /// Where the page begins.
    ///
    /// # Errors
    ///
    /// A permanent error if no store made the cursor, or if it was made for another order.
    pub fn position(&self) -> Result<Option<PagePosition>, ProviderError> {
        let Some(cursor) = &self.after else {
            return Ok(None);
        };
        let refuse = |why: &str| ProviderError::permanent("query_instances", why);
        let position = cursor
            .position()
            .ok_or_else(|| refuse("the page cursor was not made by a store"))?;
        if position.sort != self.sort {
            return Err(refuse("the page cursor belongs to another order"));
        }
        Ok(Some(position))
    }

    /// Whether an instance is admitted by everything but the end of its execution, its root, its labels, its pause,
    /// what it waits for, whether it is blocked, and its dead letters.
    #[must_use]
    pub fn admits(&self, info: &InstanceInfo) -> bool {
        let status = InstanceStatus::of_stored(&info.status);
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|w| w == value);
        let parent = info.parent_instance_id.as_deref();
        (self.statuses.is_empty() || self.statuses.contains(&status))
            && is(&self.name, &info.orchestration_name)
            && is(&self.version, &info.orchestration_version)
            && self.admits_id(&info.instance_id)
            && self.parent.as_ref().is_none_or(|p| parent == Some(p))
            && (!self.roots_only || parent.is_none())
            && self.created.contains(info.created_at)
            && self.updated.contains(info.updated_at)
    }

    /// Whether an id begins as asked.
    #[must_use]
    pub fn admits_id(&self, id: &str) -> bool {
        let prefix = self.id_prefix.as_deref().unwrap_or_default();
        id.starts_with(prefix)
    }

    /// Sorts admitted instances and cuts out the page.
    ///
    /// # Errors
    ///
    /// As [`position`](Self::position).
    pub fn page_of(
        &self,
        mut admitted: Vec<InstanceInfo>,
    ) -> Result<Page<InstanceInfo>, ProviderError> {
        if let Some(position) = self.position()? {
            let last = (position.at_ms, position.instance_id.as_str());
            admitted.retain(|info| self.sort.compare(info.key(self.sort.by), last).is_gt());
        }
        admitted.sort_unstable_by(|a, b| {
            let by = self.sort.by;
            self.sort.compare(a.key(by), b.key(by))
        });
        Ok(self.cut(admitted))
    }

    /// The page at the head of sorted answers. Another page follows if there are more answers than one page holds; a
    /// store need not read more than one beyond that.
    ///
    /// ```
    /// use duroxide_core::provider::{InstanceQuery, InstanceSummary};
    /// let query = InstanceQuery::new().with_page_size(1);
    /// let found = ["b", "a"].map(|id| InstanceSummary::new(id, "order", "1.0.0"));
    /// let page = query.cut(found.to_vec());
    /// assert_eq!(page.items.len(), 1);
    /// assert!(page.next.is_some());
    /// ```
    #[must_use]
    pub fn cut<T: Listed>(&self, mut sorted: Vec<T>) -> Page<T> {
        let size = usize::try_from(self.page_size()).unwrap_or(usize::MAX);
        let has_more = sorted.len() > size;
        sorted.truncate(size);
        let next = sorted.last().filter(|_| has_more).map(|last| {
            let (at_ms, id) = last.key(self.sort.by);
            let instance_id = id.to_owned();
            PageCursor::at(&PagePosition {
                sort: self.sort,
                at_ms,
                instance_id,
            })
        });
        Page {
            items: sorted,
            next,
        }
    }
}

/// An answer that has a place in the order of a query.
pub trait Listed {
    /// The time that it is sorted by, and the id of its instance.
    fn key(&self, by: SortKey) -> (u64, &str);
}

impl Listed for InstanceInfo {
    fn key(&self, by: SortKey) -> (u64, &str) {
        let at = match by {
            SortKey::Created => self.created_at,
            SortKey::Updated => self.updated_at,
        };
        (at, &self.instance_id)
    }
}

impl Listed for InstanceSummary {
    fn key(&self, by: SortKey) -> (u64, &str) {
        let at = match by {
            SortKey::Created => self.created_at_ms,
            SortKey::Updated => self.updated_at_ms,
        };
        (at, &self.instance_id)
    }
}

impl InstanceSort {
    /// The order of two instances, each as its time and its id.
    #[must_use]
    pub fn compare(self, a: (u64, &str), b: (u64, &str)) -> Ordering {
        match self.order {
            SortOrder::NewestFirst => b.cmp(&a),
            SortOrder::OldestFirst => a.cmp(&b),
        }
    }
}
