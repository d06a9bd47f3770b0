//! Flaws of questions about many instances.

use duroxide_core::provider::{
    CountBy, Incarnation, InstanceCount, InstanceQuery, InstanceSort, InstanceSummary, Page,
    PageCursor, PagePosition, ProviderError, SortKey, SortOrder,
};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

/// A cursor that stands one step before or after where it should.
fn moved(cursor: &PageCursor, instance_id: &str, at_ms: u64) -> PageCursor {
    let Some(position) = cursor.position() else {
        return cursor.clone();
    };
    PageCursor::at(&PagePosition {
        instance_id: instance_id.to_owned(),
        at_ms,
        ..position
    })
}

fn key(query: &InstanceQuery, summary: &InstanceSummary) -> u64 {
    match query.sort.by {
        SortKey::Created => summary.created_at_ms,
        SortKey::Updated => summary.updated_at_ms,
    }
}

impl Mutant {
    fn spoiled(&self, query: &InstanceQuery) -> InstanceQuery {
        let mut query = query.clone();
        match self.flaw {
            Flaw::EveryPageIsTheFirst => query.after = None,
            Flaw::QueriesAreUnsorted if query.after.is_none() => {
                query.sort = InstanceSort::default();
            }
            Flaw::PrefixIsAPattern => {
                if let Some(prefix) = &mut query.id_prefix {
                    *prefix = prefix.split('_').next().unwrap_or_default().to_owned();
                }
            }
            Flaw::QueryForgetsPauses => query.paused = None,
            Flaw::QueryForgetsBlocks => query.blocked = None,
            Flaw::QueryForgetsWaits => query.waiting_for = None,
            Flaw::WaitsHaveNoKind => {
                if let Some(what) = &mut query.waiting_for {
                    what.kind = None;
                }
            }
            Flaw::QueryForgetsLabels => query.labels.clear(),
            Flaw::QueryLooksAtOneLabel => {
                query.labels = query.labels.into_iter().take(1).collect();
            }
            Flaw::OnlyTheFirstStatus => query.statuses.truncate(1),
            Flaw::RangesAreClosed => {
                for range in [&mut query.created, &mut query.updated, &mut query.ended] {
                    range.until_ms = range.until_ms.map(|until| until + 1);
                }
            }
            _ => {}
        }
        query
    }

    pub(super) async fn query(&self, query: &InstanceQuery) -> Result<Page<InstanceSummary>> {
        let mut spoiled = self.spoiled(query);
        if let (Some(cursor), Flaw::PagesLoseTies) = (&query.after, self.flaw)
            && let Some(position) = cursor.position()
        {
            let second = position.at_ms - position.at_ms % 1_000;
            spoiled.after = Some(match query.sort.order {
                SortOrder::NewestFirst => moved(cursor, "", second),
                SortOrder::OldestFirst => moved(cursor, "", second + 1_000),
            });
        }
        let mut page = match (self.flaw, &spoiled.waiting_for, spoiled.blocked) {
            (Flaw::AnsweredWaitsAreOpen, Some(what), _) => {
                self.that_ever_asked(&spoiled, what).await?
            }
            (
                Flaw::BlockOutlivesTheTurn
                | Flaw::BlockOutlivesTheInstance
                | Flaw::BlockNeedsNoLease,
                _,
                Some(blocked),
            ) => self.blocked_page(&spoiled, blocked).await?,
            _ => self.reference().query_instances(&spoiled).await?,
        };
        match self.flaw {
            Flaw::ListsTellAnotherLife => {
                let lives = page
                    .items
                    .iter_mut()
                    .filter_map(|one| one.incarnation.as_mut());
                for life in lives {
                    *life = Incarnation::from_random(!life.to_stored().cast_unsigned());
                }
            }
            Flaw::WaitsEndWithAPage if query.waiting_for.is_some() => page.next = None,
            Flaw::PagesOverlap if page.items.len() > 1 => {
                let before = &page.items[page.items.len() - 2];
                let at_ms = key(query, before);
                page.next = page
                    .next
                    .map(|next| moved(&next, &before.instance_id, at_ms));
            }
            Flaw::AlwaysMore => {
                if let (None, Some(last)) = (&page.next, page.items.last()) {
                    page.next = Some(PageCursor::at(&PagePosition {
                        sort: query.sort,
                        at_ms: key(query, last),
                        instance_id: last.instance_id.clone(),
                    }));
                }
            }
            Flaw::RootsHaveNoDescendants => {
                if let Some(root) = &query.root {
                    let is_near = |one: &InstanceSummary| {
                        one.instance_id == *root || one.parent.as_ref() == Some(root)
                    };
                    page.items.retain(is_near);
                }
            }
            Flaw::MemosAreForgotten => page.items.iter_mut().for_each(|one| one.memo = None),
            Flaw::MemosAreCut => {
                for memo in page.items.iter_mut().filter_map(|one| one.memo.as_mut()) {
                    memo.truncate(256);
                }
            }
            Flaw::MemosOutliveTheInstance => {
                let mut notes = self.notes.lock();
                for one in &mut page.items {
                    match &one.memo {
                        Some(memo) => {
                            notes.memos.insert(one.instance_id.clone(), memo.clone());
                        }
                        None => one.memo = notes.memos.get(&one.instance_id).cloned(),
                    }
                }
            }
            Flaw::NothingEndsInQueries => {
                page.items.iter_mut().for_each(|one| one.ended_at_ms = None);
            }
            _ => {}
        }
        Ok(page)
    }

    pub(super) async fn count(
        &self,
        query: &InstanceQuery,
        by: CountBy,
    ) -> Result<Vec<InstanceCount>> {
        if self.has(Flaw::CountsThePage) && by == CountBy::Nothing {
            let page = self.reference().query_instances(query).await?;
            let count = page.items.len() as u64;
            let key = String::new();
            return Ok(vec![InstanceCount { key, count }]);
        }
        let mut counts = self.reference().count_instances(query, by).await?;
        if self.has(Flaw::CountsUnordered) {
            counts.sort_by_key(|one| one.count);
        }
        Ok(counts)
    }
}
