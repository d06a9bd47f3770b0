//! Questions about many instances. In: a query of the contract. Out: one page or counts, read as one snapshot. This
//! file chooses which rows to begin with; the statements are in `tables/instance_pages.rs`.

use std::collections::BTreeMap;

use duroxide_core::Labels;
use duroxide_core::provider::{
    CountBy, InstanceCount, InstanceQuery, InstanceStatus, InstanceSummary, Page, PagePosition,
    SortKey, SortOrder, TimeRange,
};

use crate::error::Result;
use crate::tables::instance_pages::{
    self, Beyond, Criteria, Group, Handler, PageOrder, Source, one_by_one, status_bit,
};
use crate::tables::readable;
use crate::tx::{Tx, stored_ms};

/// So many rows are sorted rather than walking an index from its end in search of them.
const FEW: u32 = 4_000;
/// More handlers than this are not looked at in turn.
const HANDLERS_MAX: usize = 100;
/// The bounds of a range that has none.
const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);

/// One page. The caller has checked that the position belongs to the query.
pub(crate) fn page(
    tx: &Tx<'_>,
    query: &InstanceQuery,
    position: Option<&PagePosition>,
) -> Result<Page<InstanceSummary>> {
    let mut criteria = criteria(query);
    let order = match (query.sort.by, query.sort.order) {
        (SortKey::Created, SortOrder::NewestFirst) => PageOrder::CreatedDown,
        (SortKey::Created, SortOrder::OldestFirst) => PageOrder::CreatedUp,
        (SortKey::Updated, SortOrder::NewestFirst) => PageOrder::UpdatedDown,
        (SortKey::Updated, SortOrder::OldestFirst) => PageOrder::UpdatedUp,
    };
    let beyond = match (position, query.sort.order) {
        (Some(position), _) => (stored_ms(position.at_ms), position.instance_id.as_str()),
        (None, SortOrder::NewestFirst) => (i64::MAX, ""),
        (None, SortOrder::OldestFirst) => (i64::MIN, ""),
    };
    // The index is entered where the page begins, and not where the range of times does.
    if let Some(position) = position {
        let at = stored_ms(position.at_ms);
        let range = match query.sort.by {
            SortKey::Created => &mut criteria.created,
            SortKey::Updated => &mut criteria.updated,
        };
        match query.sort.order {
            SortOrder::NewestFirst => range.1 = range.1.min(at.saturating_add(1)),
            SortOrder::OldestFirst => range.0 = range.0.max(at),
        }
    }
    // One more than asked for tells whether there is another page.
    let size = query.page_size() + 1;
    let items = items(tx, query, &criteria, order, beyond, size);
    let items = readable::or_one_by_one(items, || {
        one_by_one::page(tx, &criteria, order, beyond, size)
    })?;
    Ok(query.cut(items))
}

fn items(
    tx: &Tx<'_>,
    query: &InstanceQuery,
    criteria: &Criteria,
    order: PageOrder,
    beyond: Beyond<'_>,
    size: u32,
) -> Result<Vec<InstanceSummary>> {
    let mut criteria = criteria.clone();
    choose_label(tx, query, &mut criteria)?;
    let Some(handlers) = handlers(tx, &criteria)? else {
        return Ok(Vec::new());
    };
    let source = source(tx, &criteria, &handlers, query.sort.by)?;
    if source != Source::Handler {
        return instance_pages::page(tx, source, &criteria, order, beyond, size);
    }
    let mut items = Vec::new();
    for handler in handlers {
        run_by(&mut criteria, handler);
        let some = instance_pages::page(tx, source, &criteria, order, beyond, size)?;
        items.extend(some);
    }
    sort(&mut items, order);
    items.truncate(size as usize);
    Ok(items)
}

/// Narrows the criteria to one handler.
fn run_by(criteria: &mut Criteria, handler: Handler) {
    criteria.name = Some(handler.name);
    criteria.version = Some(handler.version);
}

/// Puts pages that were read one after the other into one order.
fn sort(items: &mut [InstanceSummary], order: PageOrder) {
    items.sort_by(|a, b| {
        let by_created = || a.created_at_ms.cmp(&b.created_at_ms);
        let by_updated = || a.updated_at_ms.cmp(&b.updated_at_ms);
        let by_id = || a.instance_id.cmp(&b.instance_id);
        match order {
            PageOrder::CreatedUp => by_created().then_with(by_id),
            PageOrder::CreatedDown => by_created().then_with(by_id).reverse(),
            PageOrder::UpdatedUp => by_updated().then_with(by_id),
            PageOrder::UpdatedDown => by_updated().then_with(by_id).reverse(),
        }
    });
}

pub(crate) fn counts(
    tx: &Tx<'_>,
    query: &InstanceQuery,
    by: CountBy,
) -> Result<Vec<InstanceCount>> {
    let mut criteria = criteria(query);
    let asked = criteria.clone();
    let group = match by {
        CountBy::Nothing => Group::Nothing,
        CountBy::Status => Group::Status,
        CountBy::Name => Group::Name,
        CountBy::Version => Group::Version,
    };
    let counted = match (by, asks_for_all(query)) {
        (CountBy::Nothing, true) => {
            instance_pages::all(tx).map(|count| vec![(String::new(), count)])
        }
        (CountBy::Status, true) => instance_pages::by_status(tx),
        (CountBy::Name, true) => instance_pages::by_name(tx),
        (CountBy::Version, true) => instance_pages::by_version(tx),
        _ => counted(tx, &mut criteria, group),
    };
    let counted = readable::or_one_by_one(counted, || one_by_one::counts(tx, &asked, group))?;
    let count = |(key, count)| InstanceCount { key, count };
    let mut counts: Vec<_> = counted.into_iter().map(count).collect();
    if by == CountBy::Nothing && counts.is_empty() {
        counts.push(count((String::new(), 0)));
    }
    Ok(counts)
}

/// Counts of what is asked for, the largest first.
fn counted(tx: &Tx<'_>, criteria: &mut Criteria, group: Group) -> Result<Vec<(String, u64)>> {
    let Some(handlers) = handlers(tx, criteria)? else {
        return Ok(Vec::new());
    };
    let source = counting_source(tx, criteria, &handlers)?;
    if source != Source::Handler {
        return instance_pages::counts(tx, source, criteria, group);
    }
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for handler in handlers {
        run_by(criteria, handler);
        for (key, count) in instance_pages::counts(tx, source, criteria, group)? {
            *sums.entry(key).or_default() += count;
        }
    }
    let mut counts: Vec<_> = sums.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(counts)
}

pub(crate) fn counts_by_label(
    tx: &Tx<'_>,
    query: &InstanceQuery,
    key: &str,
) -> Result<Vec<InstanceCount>> {
    let criteria = criteria(query);
    let counted = instance_pages::counts_by_label(tx, &criteria, key);
    let counted =
        readable::or_one_by_one(counted, || one_by_one::counts_by_label(tx, &criteria, key))?;
    let count = |(key, count)| InstanceCount { key, count };
    Ok(counted.into_iter().map(count).collect())
}

/// Of several labels, one that few instances have is the one to begin with.
fn choose_label(tx: &Tx<'_>, query: &InstanceQuery, criteria: &mut Criteria) -> Result<()> {
    if query.labels.len() < 2 {
        return Ok(());
    }
    for (key, value) in &query.labels {
        criteria.label = (key.clone(), value.clone());
        if instance_pages::few_of_label(tx, criteria, FEW)? {
            return Ok(());
        }
    }
    Ok(())
}

/// The code that is asked about: none if the query does not ask, or if there is too much of it to look at in turn;
/// `None` if no instance runs it.
fn handlers(tx: &Tx<'_>, criteria: &Criteria) -> Result<Option<Vec<Handler>>> {
    let found = match (&criteria.name, &criteria.version) {
        (None, None) => return Ok(Some(Vec::new())),
        (Some(name), Some(version)) => {
            let (name, version) = (name.clone(), version.clone());
            return Ok(Some(vec![Handler { name, version }]));
        }
        (Some(name), None) => instance_pages::versions_of(tx, name, HANDLERS_MAX)?,
        (None, Some(version)) => instance_pages::names_with(tx, version, HANDLERS_MAX)?,
    };
    Ok(match found {
        Some(found) if found.is_empty() => None,
        Some(found) => Some(found),
        None => Some(Vec::new()),
    })
}

/// Whether few instances run any of this code; not if there is none that could be looked at in turn.
fn few_of(tx: &Tx<'_>, handlers: &[Handler]) -> Result<bool> {
    for handler in handlers {
        if !instance_pages::few_of_handler(tx, handler, FEW)? {
            return Ok(false);
        }
    }
    Ok(!handlers.is_empty())
}

/// The narrowest rows to begin with.
fn source(tx: &Tx<'_>, criteria: &Criteria, handlers: &[Handler], by: SortKey) -> Result<Source> {
    if criteria.root.is_some() {
        return Ok(Source::Root);
    }
    if criteria.parent.is_some() {
        return Ok(Source::Parent);
    }
    if criteria.has_dead_letters {
        return Ok(Source::DeadLetters);
    }
    if criteria.paused == Some(true) {
        return Ok(Source::Paused);
    }
    if criteria.blocked == Some(true) {
        return Ok(Source::Blocked);
    }
    let has_prefix = criteria.prefix_end.is_some();
    if has_prefix && instance_pages::few_of_prefix(tx, criteria, FEW)? {
        return Ok(Source::Prefix);
    }
    let closed = status_bit(InstanceStatus::Completed) | status_bit(InstanceStatus::Unknown);
    let is_open = criteria.status_bits & closed == 0;
    if is_open && instance_pages::few_open(tx, criteria.status_bits, FEW)? {
        return Ok(Source::Open);
    }
    // A range of times that few lie in is sorted, whatever the order.
    if let Some(ended) = criteria.ended
        && instance_pages::few_ended(tx, ended, FEW)?
    {
        return Ok(Source::Ended);
    }
    if criteria.updated != ALWAYS && instance_pages::few_updated(tx, criteria, FEW)? {
        return Ok(Source::Updated);
    }
    if criteria.created != ALWAYS && instance_pages::few_created(tx, criteria, FEW)? {
        return Ok(Source::Created);
    }
    // In the order of creation the index of labels is walked, however many there are.
    if criteria.labels.is_some()
        && (by == SortKey::Created || instance_pages::few_of_label(tx, criteria, FEW)?)
    {
        return Ok(Source::Label);
    }
    Ok(match by {
        SortKey::Created if !handlers.is_empty() => Source::Handler,
        SortKey::Created => Source::Created,
        // A rare handler would be looked for through the whole index.
        SortKey::Updated if few_of(tx, handlers)? => Source::Handler,
        SortKey::Updated => Source::Updated,
    })
}

/// The same where the order does not matter: a range of times bounds the walk along its index.
fn counting_source(tx: &Tx<'_>, criteria: &Criteria, handlers: &[Handler]) -> Result<Source> {
    let found = source(tx, criteria, handlers, SortKey::Created)?;
    let is_bounded = criteria.updated.0 != ALWAYS.0 && criteria.created.0 == ALWAYS.0;
    Ok(match found {
        Source::Created if is_bounded => Source::Updated,
        found => found,
    })
}

/// Whether a query leaves nothing out; order and page do not matter.
fn asks_for_all(query: &InstanceQuery) -> bool {
    let mut everything = InstanceQuery::new();
    everything.sort = query.sort;
    everything.limit = query.limit;
    everything.after.clone_from(&query.after);
    *query == everything
}

fn criteria(query: &InstanceQuery) -> Criteria {
    let wanted = if query.statuses.is_empty() {
        &InstanceStatus::ALL[..]
    } else {
        &query.statuses
    };
    let bits = wanted.iter().fold(0, |bits, one| bits | status_bit(*one));
    let prefix = query.id_prefix.clone().unwrap_or_default();
    let (created, updated) = (bounds(query.created), bounds(query.updated));
    let ended = bounds(query.ended);
    Criteria {
        status_bits: bits,
        name: query.name.clone(),
        version: query.version.clone(),
        prefix_end: beyond_prefix(&prefix),
        prefix,
        parent: query.parent.clone(),
        roots_only: query.roots_only,
        // Nothing is updated or ends before it is created: a walk by age begins there.
        created: (created.0, created.1.min(updated.1).min(ended.1)),
        // What has ended was updated in that moment, or later.
        updated: (updated.0.max(ended.0), updated.1),
        ended: query.ended.is_bounded().then_some(ended),
        root: query.root.clone(),
        has_dead_letters: query.has_dead_letters,
        paused: query.paused,
        blocked: query.blocked,
        labels: labels_json(&query.labels),
        label: first_of(&query.labels),
    }
}

fn labels_json(labels: &Labels) -> Option<String> {
    let json = || serde_json::to_string(labels).expect("a map of texts is JSON");
    (!labels.is_empty()).then(json)
}

fn first_of(labels: &Labels) -> (String, String) {
    let first = labels.iter().next();
    let own = |(key, value): (&String, &String)| (key.clone(), value.clone());
    first.map(own).unwrap_or_default()
}

fn bounds(range: TimeRange) -> (i64, i64) {
    let from = range.from_ms.map_or(ALWAYS.0, stored_ms);
    let until = range.until_ms.map_or(ALWAYS.1, stored_ms);
    (from, until)
}

/// The first text that does not begin with the prefix and comes after all that do. SQLite compares texts by their
/// bytes, which is the order of their characters.
fn beyond_prefix(prefix: &str) -> Option<String> {
    let mut text: Vec<char> = prefix.chars().collect();
    while let Some(last) = text.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            text.push(next);
            return Some(text.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_text() {
        assert_eq!(beyond_prefix("ab").as_deref(), Some("ac"));
        assert_eq!(beyond_prefix("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(beyond_prefix("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(beyond_prefix("\u{10ffff}"), None);
        assert_eq!(beyond_prefix(""), None);
    }
}
