//! Queues that deliver whole groups. A group that can be claimed stands in `schedule`, the ready line of its label and
//! kind; one that cannot stands in `resting` until it must be looked at again. Whatever changes a group places it anew.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use ::redb::ReadableTable;

use super::error::{Result, in_order};
use super::group::{self, Group};
use super::messages::{self, save_lease};
use super::role;
use super::tables::Tables;
use crate::budget::Budget;
use crate::lease::{After, Lease, LeaseToken, UNDISTURBED};
use crate::message::{Claim, Claimed, Message, later_ms, opens_at_ms};
use crate::poll::Attempt;

type Label = Option<String>;
type Slot = (u64, u64, String);

/// Which line a candidate stands in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Ready(Label, Label),
    Alarms(Label),
}

type Heads = BinaryHeap<Reverse<(u64, Slot, Line)>>;

pub(super) fn enqueue(
    tables: &mut Tables<'_>,
    queue: &str,
    message: &Message,
    now_ms: u64,
) -> Result<()> {
    let slot = group::slot_of(message.visible_at, message.role);
    messages::insert(tables, queue, message, slot)?;
    role::note(tables, queue, message)?;
    let mut group = group::load(tables, queue, &message.group)?;
    group.quiet_until = 0;
    group::place(tables, queue, &message.group, group, now_ms)
}

/// Returns what was found, and whether anything was written.
pub(super) fn claim(
    tables: &mut Tables<'_>,
    claim: &Claim,
    now_ms: u64,
) -> Result<(Attempt<Vec<Claimed>>, bool)> {
    let queue = claim.queue.name.as_ref();
    let promoted = promote(tables, queue, now_ms)?;
    let mut claimed: Vec<Claimed> = Vec::new();
    let mut budget = Budget::default();
    let mut heads = heads(tables, claim, now_ms)?;
    while claimed.len() < claim.max
        && !budget.is_spent(claim)
        && let Some(Reverse((_, (_, _, name), line))) = heads.pop()
    {
        if let Some(one) = take(tables, queue, &name, claim, now_ms)? {
            budget.spend(&one.messages);
            claimed.push(one);
        }
        heads.extend(head(tables, line, claim, now_ms)?);
    }
    Ok(if claimed.is_empty() {
        let due_ms = due_ms(tables, claim)?;
        (Attempt::Nothing { due_ms }, promoted)
    } else {
        (Attempt::Found(claimed), true)
    })
}

/// The first of every line that the claim may take from, found by skipping from line to line.
fn heads(tables: &Tables<'_>, claim: &Claim, now_ms: u64) -> Result<Heads> {
    let mut heads = Heads::new();
    for line in ready_lines(tables, claim)? {
        heads.extend(head(tables, line, claim, now_ms)?);
    }
    for label in alarm_labels(tables, claim)? {
        heads.extend(head(tables, Line::Alarms(label), claim, now_ms)?);
    }
    Ok(heads)
}

/// The least text above this one, or above none.
pub(super) fn above(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!("{text}\0"))
}

fn ready_lines(tables: &Tables<'_>, claim: &Claim) -> Result<Vec<Line>> {
    let queue = claim.queue.name.as_ref();
    let mut lines = Vec::new();
    let mut from: (Label, Label) = (None, None);
    loop {
        let start = (queue, from.0.as_deref(), from.1.as_deref(), 0, 0, "");
        let Some(slot) = tables.schedule.range(start..)?.next() else {
            return Ok(lines);
        };
        let slot = slot?.0;
        in_order(&slot.value(), &start)?;
        let (found, label, kind, ..) = slot.value();
        if found != queue {
            return Ok(lines);
        }
        if claim.labels.accepts(label) && claim.kinds.accepts(kind) {
            let (label, kind) = (label.map(str::to_owned), kind.map(str::to_owned));
            lines.push(Line::Ready(label, kind));
        }
        from = (label.map(str::to_owned), Some(above(kind)));
    }
}

fn alarm_labels(tables: &Tables<'_>, claim: &Claim) -> Result<Vec<Label>> {
    let queue = claim.queue.name.as_ref();
    let mut labels = Vec::new();
    let mut from: Label = None;
    while claim.any_kind_after_ms.is_some() {
        let start = (queue, from.as_deref(), 0, 0, "");
        let Some(slot) = tables.alarms.range(start..)?.next() else {
            break;
        };
        let slot = slot?.0;
        in_order(&slot.value(), &start)?;
        let (found, label, ..) = slot.value();
        if found != queue {
            break;
        }
        if claim.labels.accepts(label) {
            labels.push(label.map(str::to_owned));
        }
        from = Some(above(label));
    }
    Ok(labels)
}

fn head(
    tables: &Tables<'_>,
    line: Line,
    claim: &Claim,
    now_ms: u64,
) -> Result<Option<Reverse<(u64, Slot, Line)>>> {
    let queue = claim.queue.name.as_ref();
    let (rank, slot) = match &line {
        Line::Ready(label, kind) => {
            let (label, kind) = (label.as_deref(), kind.as_deref());
            let first = (queue, label, kind, 0, 0, "");
            let Some(slot) = tables.schedule.range(first..)?.next() else {
                return Ok(None);
            };
            let slot = slot?.0;
            let (found_queue, found_label, found_kind, since, id, name) = slot.value();
            if (found_queue, found_label, found_kind) != (queue, label, kind) {
                return Ok(None);
            }
            (since, (since, id, name.to_owned()))
        }
        Line::Alarms(label) => match first_alarm(tables, queue, label.as_deref())? {
            Some(slot) => (opens_at(&slot, claim), slot),
            None => return Ok(None),
        },
    };
    let eligible = matches!(line, Line::Ready(..)) || rank <= now_ms;
    Ok(eligible.then_some(Reverse((rank, slot, line))))
}

fn first_alarm(tables: &Tables<'_>, queue: &str, label: Option<&str>) -> Result<Option<Slot>> {
    let Some(slot) = tables.alarms.range((queue, label, 0, 0, "")..)?.next() else {
        return Ok(None);
    };
    let slot = slot?.0;
    let (found_queue, found_label, at, id, name) = slot.value();
    Ok(((found_queue, found_label) == (queue, label)).then(|| (at, id, name.to_owned())))
}

fn opens_at(alarm: &Slot, claim: &Claim) -> u64 {
    opens_at_ms(alarm.0, claim.any_kind_after_ms.unwrap_or(u64::MAX))
}

/// When something may become claimable by itself.
fn due_ms(tables: &Tables<'_>, claim: &Claim) -> Result<Option<u64>> {
    let queue = claim.queue.name.as_ref();
    let mut due = first_resting(tables, queue)?.map(|(at, _)| at);
    for label in alarm_labels(tables, claim)? {
        let alarm = first_alarm(tables, queue, label.as_deref())?;
        due = due
            .into_iter()
            .chain(alarm.map(|alarm| opens_at(&alarm, claim)))
            .min();
    }
    Ok(due)
}

fn first_resting(tables: &Tables<'_>, queue: &str) -> Result<Option<(u64, String)>> {
    let Some(slot) = tables.resting.range((queue, 0, "")..)?.next() else {
        return Ok(None);
    };
    let slot = slot?.0;
    let (found, at, name) = slot.value();
    Ok((found == queue).then(|| (at, name.to_owned())))
}

/// Groups or messages that one claim looks at again at most, so that no claim grows with what has become due.
pub(super) const PROMOTE_MAX: usize = 1_000;

fn promote(tables: &mut Tables<'_>, queue: &str, now_ms: u64) -> Result<bool> {
    let mut promoted = 0;
    while promoted < PROMOTE_MAX
        && let Some((at, name)) = first_resting(tables, queue)?
        && at <= now_ms
    {
        let group = group::load(tables, queue, &name)?;
        group::place(tables, queue, &name, group, now_ms)?;
        promoted += 1;
    }
    Ok(promoted > 0)
}

/// Takes a group; nothing if it was taken from another line just before.
fn take(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    claim: &Claim,
    now_ms: u64,
) -> Result<Option<Claimed>> {
    let mut group = group::load(tables, queue, name)?;
    if group.ready.is_none() {
        return Ok(None);
    }
    group::ripen(tables, queue, name, &mut group, now_ms)?;
    let ids = group::choose(tables, queue, name, claim, group.holds)?;
    let mut taken = Vec::with_capacity(ids.len());
    for id in &ids {
        let mut state = messages::load_state(&tables.states, *id)?;
        state.attempts = state.attempts.saturating_add(1);
        messages::save_state(tables, *id, &state)?;
        taken.extend(messages::load(
            &tables.messages,
            &tables.states,
            queue,
            *id,
        )?);
    }
    let token = LeaseToken::random();
    if let Some(lapsed) = group.lease.replace(token.to_string()) {
        tables.leases.remove(lapsed.as_str())?;
    }
    let lease = Lease {
        queue: queue.to_owned(),
        group: name.to_owned(),
        until_ms: later_ms(now_ms, claim.lease_ms.max(1)),
        valid: true,
        claimed: ids,
    };
    save_lease(tables, token.as_str(), &lease)?;
    group.quiet_until = UNDISTURBED;
    let lead_to_come = group::has_lead_to_come(tables, queue, name)?;
    group::place(tables, queue, name, group, now_ms)?;
    Ok(Some(Claimed {
        token,
        group: name.to_owned(),
        messages: taken,
        lead_to_come,
        attached: None,
    }))
}

/// Removes the claimed messages; returns how many, and whether others of the group remain.
pub(super) fn complete(
    tables: &mut Tables<'_>,
    token: &str,
    lease: &Lease,
    now_ms: u64,
) -> Result<(u64, bool)> {
    let (queue, name) = (lease.queue.as_str(), lease.group.as_str());
    let mut removed = 0;
    for id in &lease.claimed {
        removed += u64::from(forget(tables, queue, *id)?.is_some());
    }
    let mut group = end(tables, token, lease)?;
    group.holds = false;
    group::place(tables, queue, name, group, now_ms)?;
    let more = group::first_due(tables, queue, name, 0)?.is_some()
        || group::first_follower(tables, queue, name)?.is_some();
    Ok((removed, more))
}

/// Removes a message; where its group stands is for the caller to put right.
pub(super) fn forget(tables: &mut Tables<'_>, queue: &str, id: u64) -> Result<Option<Message>> {
    if tables.states.get(id)?.is_none() {
        return Ok(None);
    }
    let due_ms = messages::load_state(&tables.states, id)?.place;
    let message = messages::remove(tables, queue, id, due_ms.unwrap_or_default())?;
    if let Some(message) = &message {
        role::forget(tables, queue, message)?;
    }
    Ok(message)
}

pub(super) fn renew(
    tables: &mut Tables<'_>,
    token: &str,
    lease: &Lease,
    now_ms: u64,
) -> Result<()> {
    save_lease(tables, token, lease)?;
    let group = group::load(tables, &lease.queue, &lease.group)?;
    group::place(tables, &lease.queue, &lease.group, group, now_ms)
}

pub(super) fn release(
    tables: &mut Tables<'_>,
    token: &str,
    lease: &Lease,
    after: After,
    forgive: bool,
    now_ms: u64,
) -> Result<u64> {
    let (queue, name) = (lease.queue.as_str(), lease.group.as_str());
    let mut group = end(tables, token, lease)?;
    let rests = group::is_undisturbed(tables, queue, name, &group, now_ms)?;
    group::ripen(tables, queue, name, &mut group, now_ms)?;
    group.quiet_until = match after {
        After::QuietMs(rest) if rests => later_ms(now_ms, rest),
        _ => 0,
    };
    let mut released = 0;
    for id in &lease.claimed {
        if tables.states.get(*id)?.is_none() {
            continue;
        }
        released += 1;
        let mut state = messages::load_state(&tables.states, *id)?;
        if forgive {
            state.attempts = state.attempts.saturating_sub(1);
        }
        if let After::DelayMs(delay) = after {
            state.visible_at = later_ms(now_ms, delay);
            let due_ms = state.visible_at;
            messages::set_due(tables, queue, name, *id, &mut state, due_ms)?;
        }
        messages::save_state(tables, *id, &state)?;
    }
    group::place(tables, queue, name, group, now_ms)?;
    Ok(released)
}

fn end(tables: &mut Tables<'_>, token: &str, lease: &Lease) -> Result<Group> {
    tables.leases.remove(token)?;
    let mut group = group::load(tables, &lease.queue, &lease.group)?;
    group.lease = None;
    Ok(group)
}

/// Removes messages; the leases of their groups stay.
pub(super) fn remove(
    tables: &mut Tables<'_>,
    queue: &str,
    ids: &[u64],
    now_ms: u64,
) -> Result<u64> {
    let mut touched = BTreeSet::new();
    let mut removed = 0;
    for id in ids {
        let Some(message) = forget(tables, queue, *id)? else {
            continue;
        };
        removed += 1;
        touched.insert(message.group);
    }
    for name in touched {
        let group = group::load(tables, queue, &name)?;
        group::place(tables, queue, &name, group, now_ms)?;
    }
    Ok(removed)
}

/// Takes a group whose messages are deleted out of its line, with its row and its lease.
pub(super) fn forget_group(tables: &mut Tables<'_>, queue: &str, name: &str) -> Result<()> {
    let group = group::load(tables, queue, name)?;
    group::unplace(tables, queue, name, &group)?;
    tables.groups.remove((queue, name))?;
    if let Some(token) = group.lease {
        tables.leases.remove(token.as_str())?;
    }
    Ok(())
}

pub(super) fn hold_followers(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    now_ms: u64,
) -> Result<()> {
    let mut group = group::load(tables, queue, name)?;
    group.holds = true;
    group::place(tables, queue, name, group, now_ms)
}

pub(super) fn set_label(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    (label, kind): (Label, Label),
    now_ms: u64,
) -> Result<()> {
    let mut group = group::load(tables, queue, name)?;
    group::unplace(tables, queue, name, &group)?;
    group.ready = None;
    group.waiting = None;
    group.alarm = None;
    (group.label, group.kind) = (label, kind);
    // Of a leased group, it stays known whether it was disturbed.
    if group.quiet_until != UNDISTURBED {
        group.quiet_until = 0;
    }
    group::place(tables, queue, name, group, now_ms)
}
