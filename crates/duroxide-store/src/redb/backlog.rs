//! What is ready and not leased, by kind.

use std::collections::BTreeMap;

use ::redb::ReadableTableMetadata as _;

use super::dead_messages;
use super::error::{Result, in_order};
use super::grouped::above;
use super::messages;
use super::role;
use super::tables::Views;
use crate::message::{Backlog, Delivery, Queue};

/// Due rows that are looked at one by one at most; the next claim moves them to where they are found at once.
const DUE_MAX: usize = 10_000;

#[derive(Debug, Default)]
struct Tally {
    kinds: BTreeMap<Option<String>, (u64, u64)>,
}

impl Tally {
    fn add(&mut self, kind: Option<&str>, count: u64, since_ms: u64, count_max: u64) {
        let kind = kind.map(str::to_owned);
        let (total, oldest) = self.kinds.entry(kind).or_insert((0, since_ms));
        *total = (*total + count).min(count_max);
        *oldest = (*oldest).min(since_ms);
    }
}

pub(super) fn run(
    views: &Views,
    queue: &Queue,
    limit: usize,
    count_max: u64,
    now_ms: u64,
) -> Result<Vec<Backlog>> {
    let mut tally = Tally::default();
    match queue.delivery {
        Delivery::Grouped => groups(views, &queue.name, count_max, now_ms, &mut tally)?,
        Delivery::Single => singles(views, &queue.name, count_max, now_ms, &mut tally)?,
    }
    let mut all: Vec<_> = tally
        .kinds
        .into_iter()
        .map(|(kind, (count, since_ms))| Backlog {
            kind,
            count,
            since_ms,
        })
        .collect();
    all.sort_by_key(|one| one.since_ms);
    all.truncate(limit);
    Ok(all)
}

fn groups(
    views: &Views,
    queue: &str,
    count_max: u64,
    now_ms: u64,
    tally: &mut Tally,
) -> Result<()> {
    let mut from: (Option<String>, Option<String>) = (None, None);
    loop {
        let start = (queue, from.0.as_deref(), from.1.as_deref(), 0, 0, "");
        let (mut count, mut oldest, mut line) = (0, 0, None);
        for slot in views.schedule.range(start..)? {
            let slot = slot?.0;
            in_order(&slot.value(), &start)?;
            let (found, label, kind, since_ms, ..) = slot.value();
            let here = (label.map(str::to_owned), kind.map(str::to_owned));
            if found != queue || line.as_ref().is_some_and(|line| *line != here) {
                break;
            }
            if line.is_none() {
                (oldest, line) = (since_ms, Some(here));
            }
            count += 1;
            if count >= count_max {
                break;
            }
        }
        let Some((label, kind)) = line else {
            break;
        };
        tally.add(kind.as_deref(), count, oldest, count_max);
        from = (label, Some(above(kind.as_deref())));
    }
    let due = (queue, 0, "")..(queue, now_ms.saturating_add(1), "");
    for slot in views.resting.range(due)?.take(DUE_MAX) {
        let slot = slot?.0;
        let (_, at, name) = slot.value();
        let Some(row) = views.groups.get((queue, name))? else {
            continue;
        };
        let (_, kind, _, _, ready, ..) = row.value();
        if ready.is_none() {
            let kind = match kind {
                Some(kind) => Some(kind.to_owned()),
                None => kind_of_lead(views, queue, name)?,
            };
            tally.add(kind.as_deref(), 1, at, count_max);
        }
    }
    Ok(())
}

fn kind_of_lead(views: &Views, queue: &str, name: &str) -> Result<Option<String>> {
    let Some(lead) = role::find_lead(&views.roles, queue, name, |_| Ok(true))? else {
        return Ok(None);
    };
    let row = views.messages.get((queue, lead))?;
    Ok(row.and_then(|row| row.value().4.map(str::to_owned)))
}

fn singles(
    views: &Views,
    queue: &str,
    count_max: u64,
    now_ms: u64,
    tally: &mut Tally,
) -> Result<()> {
    let has_remains = !views.discarded_names.is_empty()?;
    let mut from: (Option<String>, Option<String>) = (None, None);
    loop {
        let start = (queue, from.0.as_deref(), from.1.as_deref(), None, 0);
        let (mut count, mut line) = (0, None);
        let mut oldest = u64::MAX;
        for slot in views.ready.range(start..)? {
            let slot = slot?.0;
            in_order(&slot.value(), &start)?;
            let (found, label, kind, _, id) = slot.value();
            let here = (label.map(str::to_owned), kind.map(str::to_owned));
            if found != queue || line.as_ref().is_some_and(|line| *line != here) {
                break;
            }
            line = Some(here);
            if has_remains && is_hidden(views, queue, id)? {
                continue;
            }
            count += 1;
            oldest = oldest.min(id);
            if count >= count_max {
                break;
            }
        }
        let Some((label, kind)) = line else {
            break;
        };
        if count > 0 {
            let since_ms = since(views, queue, oldest)?;
            tally.add(kind.as_deref(), count, since_ms, count_max);
        }
        from = (label, Some(above(kind.as_deref())));
    }
    for slot in views
        .waiting
        .range((queue, 0, 0)..=(queue, now_ms, u64::MAX))?
        .take(DUE_MAX)
    {
        let (_, at, id) = slot?.0.value();
        let row = views.messages.get((queue, id))?;
        let Some(row) = row else {
            continue;
        };
        let (group, _, _, _, kind, ..) = row.value();
        if !dead_messages::is_hidden(views, queue, group)? {
            tally.add(kind, 1, at, count_max);
        }
    }
    Ok(())
}

/// Whether a ready message is dead.
fn is_hidden(views: &Views, queue: &str, id: u64) -> Result<bool> {
    match views.messages.get((queue, id))? {
        Some(row) => dead_messages::is_hidden(views, queue, row.value().0),
        None => Ok(false),
    }
}

fn since(views: &Views, queue: &str, id: u64) -> Result<u64> {
    let enqueued_at = views.messages.get((queue, id))?.map(|row| row.value().8);
    let visible_at = messages::load_state(&views.states, id)?.visible_at;
    Ok(visible_at.max(enqueued_at.unwrap_or_default()))
}
