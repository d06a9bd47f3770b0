//! Queries for instances that wait for something, for stores that have no index of that. In: a query, and a store that
//! answers everything else that it asks. Out: a page or counts. The rule is core's: every store answers the same.
//!
//! Only what runs waits. Its instances are taken in the order of the query, and the history of each one's current
//! execution is read. One page looks at a bounded number of them, so that no call lasts long; it then leads to the next
//! page, though it is not full.

use std::collections::BTreeMap;

use super::ProviderAdmin;
use super::defaults::{largest_first, waits_in};
use crate::provider::{
    CountBy, InstanceCount, InstanceQuery, InstanceStatus, InstanceSummary, Listed, PAGE_SIZE_MAX,
    Page, PageCursor, PagePosition, ProviderError, WaitingFor,
};

/// How many histories one page reads at most.
pub const HISTORIES_MAX: u32 = PAGE_SIZE_MAX;

/// One page of a query that says what instances wait for. A store's
/// [`query_instances`](ProviderAdmin::query_instances) hands such a query over and is asked for the rest of it.
///
/// # Errors
///
/// What the store says.
pub async fn page<A: ProviderAdmin + ?Sized>(
    admin: &A,
    query: &InstanceQuery,
) -> Result<Page<InstanceSummary>, ProviderError> {
    query.position()?;
    let mut found = Vec::new();
    let Some((rest, waiting)) = apart(query) else {
        return Ok(query.cut(found));
    };
    let candidates = admin.query_instances(&rest).await?;
    let size = usize::try_from(query.page_size()).unwrap_or(usize::MAX);
    let mut left = candidates.items.into_iter();
    while let Some(one) = left.next() {
        let at = position(query, &one);
        if waits(admin, &one, &waiting).await? {
            found.push(one);
        }
        if found.len() == size {
            let has_more = left.len() > 0 || candidates.next.is_some();
            let next = has_more.then(|| PageCursor::at(&at));
            return Ok(Page { items: found, next });
        }
    }
    let (items, next) = (found, candidates.next);
    Ok(Page { items, next })
}

/// How many instances such a query admits, in groups; reads the history of everything that runs and that the rest of
/// the query admits.
///
/// # Errors
///
/// What the store says.
pub async fn count<A: ProviderAdmin + ?Sized>(
    admin: &A,
    query: &InstanceQuery,
    by: CountBy,
) -> Result<Vec<InstanceCount>, ProviderError> {
    let mut counts = BTreeMap::<String, u64>::new();
    if by == CountBy::Nothing {
        counts.entry(String::new()).or_default();
    }
    each(admin, query, |one| {
        let key = match by {
            CountBy::Nothing => String::new(),
            CountBy::Status => one.status.as_str().to_owned(),
            CountBy::Name => one.name,
            CountBy::Version => one.version,
        };
        *counts.entry(key).or_default() += 1;
    })
    .await?;
    Ok(largest_first(counts))
}

/// The same by the values of a label.
///
/// # Errors
///
/// What the store says.
pub async fn count_by_label<A: ProviderAdmin + ?Sized>(
    admin: &A,
    query: &InstanceQuery,
    key: &str,
) -> Result<Vec<InstanceCount>, ProviderError> {
    let mut counts = BTreeMap::<String, u64>::new();
    each(admin, query, |mut one| {
        if let Some(value) = one.labels.remove(key) {
            *counts.entry(value).or_default() += 1;
        }
    })
    .await?;
    Ok(largest_first(counts))
}

/// Hands over every instance that a query admits, page by page.
async fn each<A: ProviderAdmin + ?Sized>(
    admin: &A,
    query: &InstanceQuery,
    mut take: impl FnMut(InstanceSummary) + Send,
) -> Result<(), ProviderError> {
    let mut query = query.clone().with_page_size(HISTORIES_MAX);
    query.after = None;
    loop {
        let page = page(admin, &query).await?;
        page.items.into_iter().for_each(&mut take);
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(()),
        }
    }
}

/// What a query asks beside what instances wait for; `None` if nothing that it admits can wait.
fn apart(query: &InstanceQuery) -> Option<(InstanceQuery, WaitingFor)> {
    let mut rest = query.clone().with_page_size(HISTORIES_MAX);
    let waiting = rest.waiting_for.take().unwrap_or_default();
    let asked = &query.statuses;
    if !asked.is_empty() && !asked.contains(&InstanceStatus::Running) {
        return None;
    }
    rest.statuses = vec![InstanceStatus::Running];
    Some((rest, waiting))
}

fn position(query: &InstanceQuery, one: &InstanceSummary) -> PagePosition {
    let (at_ms, id) = one.key(query.sort.by);
    PagePosition {
        sort: query.sort,
        at_ms,
        instance_id: id.to_owned(),
    }
}

async fn waits<A: ProviderAdmin + ?Sized>(
    admin: &A,
    one: &InstanceSummary,
    waiting: &WaitingFor,
) -> Result<bool, ProviderError> {
    waits_in(admin, &one.instance_id, one.execution_id, waiting).await
}
