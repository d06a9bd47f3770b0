//! One group of a grouped queue: its messages by when they are due, and where it belongs in the lines.

use ::redb::ReadableTable;

use super::error::Result;
use super::messages;
use super::role;
use super::tables::Tables;
use crate::lease::UNDISTURBED;
use crate::message::{Claim, Followers, Role};

/// Messages that one step turns from due into ripe at most, so that no step grows with what is due.
const RIPEN_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) label: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) lease: Option<String>,
    pub(super) quiet_until: u64,
    /// In the ready line: since when, and its oldest message.
    pub(super) ready: Option<(u64, u64)>,
    /// In the ready line of which kind.
    pub(super) line: Option<String>,
    /// Among the resting: until when.
    pub(super) waiting: Option<u64>,
    /// Among the alarms: when it was enqueued, and its number.
    pub(super) alarm: Option<(u64, u64)>,
}

pub(super) fn load(tables: &Tables<'_>, queue: &str, name: &str) -> Result<Group> {
    let Some(row) = tables.groups.get((queue, name))? else {
        return Ok(Group::default());
    };
    let (label, kind, lease, quiet_until, ready, line, waiting, alarm) = row.value();
    Ok(Group {
        label: label.map(str::to_owned),
        kind: kind.map(str::to_owned),
        lease: lease.map(str::to_owned),
        quiet_until,
        ready,
        line: line.map(str::to_owned),
        waiting,
        alarm,
    })
}

fn is_ripe(tables: &Tables<'_>, queue: &str, name: &str, id: u64) -> Result<bool> {
    Ok(tables.by_group.get((queue, name, 0, id))?.is_some())
}

pub(super) fn has_lead_to_come(tables: &Tables<'_>, queue: &str, name: &str) -> Result<bool> {
    let unripe = |id| Ok(!is_ripe(tables, queue, name, id)?);
    Ok(role::find_lead(&tables.roles, queue, name, unripe)?.is_some())
}

/// The first message that is due at this time or later.
pub(super) fn first_due(
    tables: &Tables<'_>,
    queue: &str,
    name: &str,
    from_ms: u64,
) -> Result<Option<(u64, u64)>> {
    let all = (queue, name, from_ms, 0)..=(queue, name, u64::MAX, u64::MAX);
    let Some(first) = tables.by_group.range(all)?.next() else {
        return Ok(None);
    };
    let (_, _, visible_at, id) = first?.0.value();
    Ok(Some((visible_at, id)))
}

/// Notes what has become visible: it stays so. An end to any rest.
pub(super) fn ripen(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    group: &mut Group,
    now_ms: u64,
) -> Result<()> {
    let due = (queue, name, 1, 0)..=(queue, name, now_ms.max(1), u64::MAX);
    let mut visible = Vec::new();
    for found in tables.by_group.range(due)?.take(RIPEN_MAX) {
        visible.push(found?.0.value().3);
    }
    for id in visible {
        let mut state = messages::load_state(&tables.states, id)?;
        messages::set_due(tables, queue, name, id, &mut state, 0)?;
        messages::save_state(tables, id, &state)?;
        group.quiet_until = 0;
    }
    Ok(())
}

/// Whether nothing arrived or became visible since the claim.
pub(super) fn is_undisturbed(
    tables: &Tables<'_>,
    queue: &str,
    name: &str,
    group: &Group,
    now_ms: u64,
) -> Result<bool> {
    let due = first_due(tables, queue, name, 1)?;
    Ok(group.quiet_until == UNDISTURBED && due.is_none_or(|(at, _)| at > now_ms))
}

/// The messages a claim takes, ascending.
pub(super) fn choose(
    tables: &Tables<'_>,
    queue: &str,
    name: &str,
    claim: &Claim,
) -> Result<Vec<u64>> {
    let ripe = |id| is_ripe(tables, queue, name, id);
    let (mut lead, mut alarm, mut alone) = (None, None, false);
    if !role::none(&tables.roles, queue, name)? {
        lead = role::find_lead(&tables.roles, queue, name, ripe)?;
        alarm = role::find_alarm(&tables.roles, queue, name, ripe)?;
        if let Some(lead) = lead {
            let row = tables.messages.get((queue, lead))?;
            let role = row.map(|row| role::of_code(row.value().5));
            alone = role == Some(Role::Successor(Followers::Stay));
        }
    }
    let mut chosen = prefix(tables, queue, name, claim, alone)?;
    for special in lead.into_iter().chain(alarm) {
        if let Err(position) = chosen.binary_search(&special) {
            chosen.insert(position, special);
        }
    }
    Ok(chosen)
}

/// The oldest messages within the bounds of the claim, without followers if they have to stay.
fn prefix(
    tables: &Tables<'_>,
    queue: &str,
    name: &str,
    claim: &Claim,
    followers_stay: bool,
) -> Result<Vec<u64>> {
    let mut chosen: Vec<u64> = Vec::new();
    let mut bytes = 0_usize;
    let ripe = (queue, name, 0, 0)..=(queue, name, 0, u64::MAX);
    for found in tables.by_group.range(ripe)?.take(claim.messages_max.max(1)) {
        let id = found?.0.value().3;
        if claim.bytes_max < usize::MAX || followers_stay {
            let row = tables.messages.get((queue, id))?;
            let row = row.as_ref().map(|row| row.value());
            if followers_stay && row.is_some_and(|row| role::of_code(row.5) == Role::Follower) {
                continue;
            }
            bytes = bytes.saturating_add(row.map_or(0, |row| row.7.len()));
        }
        if bytes > claim.bytes_max && !chosen.is_empty() {
            break;
        }
        chosen.push(id);
    }
    Ok(chosen)
}

/// The group's own kind, else that of its oldest successor, else that of its oldest lead.
fn kind_of(tables: &Tables<'_>, queue: &str, name: &str, group: &Group) -> Result<Option<String>> {
    if group.kind.is_some() {
        return Ok(group.kind.clone());
    }
    let Some(lead) = role::find_lead(&tables.roles, queue, name, |_| Ok(true))? else {
        return Ok(None);
    };
    let row = tables.messages.get((queue, lead))?;
    Ok(row.and_then(|row| row.value().4.map(str::to_owned)))
}

pub(super) fn unplace(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    group: &Group,
) -> Result<()> {
    let label = group.label.as_deref();
    if let Some((since, id)) = group.ready {
        let slot = (queue, label, group.line.as_deref(), since, id, name);
        tables.schedule.remove(slot)?;
    }
    if let Some(at) = group.waiting {
        tables.resting.remove((queue, at, name))?;
    }
    if let Some((at, id)) = group.alarm {
        tables.alarms.remove((queue, label, at, id, name))?;
    }
    Ok(())
}

/// Puts the group where it belongs now and saves it, or forgets it if nothing is known about it.
pub(super) fn place(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    mut group: Group,
    now_ms: u64,
) -> Result<()> {
    unplace(tables, queue, name, &group)?;
    find_place(tables, queue, name, &mut group, now_ms)?;
    let label = group.label.as_deref();
    if let Some((since, id)) = group.ready {
        let slot = (queue, label, group.line.as_deref(), since, id, name);
        tables.schedule.insert(slot, ())?;
    }
    if let Some(at) = group.waiting {
        tables.resting.insert((queue, at, name), ())?;
    }
    if let Some((at, id)) = group.alarm {
        tables.alarms.insert((queue, label, at, id, name), ())?;
    }
    let placed = group.ready.is_some() || group.waiting.is_some();
    if !placed && label.is_none() && group.kind.is_none() && group.lease.is_none() {
        tables.groups.remove((queue, name))?;
        return Ok(());
    }
    let row = (
        label,
        group.kind.as_deref(),
        group.lease.as_deref(),
        group.quiet_until,
        group.ready,
        group.line.as_deref(),
        group.waiting,
        group.alarm,
    );
    tables.groups.insert((queue, name), row)?;
    Ok(())
}

fn find_place(
    tables: &mut Tables<'_>,
    queue: &str,
    name: &str,
    group: &mut Group,
    now_ms: u64,
) -> Result<()> {
    ripen(tables, queue, name, group, now_ms)?;
    (group.ready, group.line, group.waiting, group.alarm) = (None, None, None, None);
    let leased_until = match &group.lease {
        Some(token) => messages::lease(&tables.leases, token, 0)?.map_or(0, |lease| lease.until_ms),
        None => 0,
    };
    let Some((first_at, oldest)) = first_due(tables, queue, name, 0)? else {
        return Ok(());
    };
    if leased_until > now_ms {
        group.waiting = Some(leased_until);
        return Ok(());
    }
    let next_due = first_due(tables, queue, name, 1)?.map(|(at, _)| at);
    if first_at > 0 {
        group.waiting = next_due;
        return Ok(());
    }
    if group.quiet_until > now_ms && group.quiet_until != UNDISTURBED {
        let until = next_due.map_or(group.quiet_until, |due| due.min(group.quiet_until));
        group.waiting = Some(until);
        return Ok(());
    }
    let since = messages::since_ms(tables, queue, oldest)?;
    group.ready = Some((since.max(leased_until), oldest));
    group.line = group.kind.clone();
    if role::none(&tables.roles, queue, name)? {
        return Ok(());
    }
    group.line = kind_of(tables, queue, name, group)?;
    let ripe = |id| is_ripe(tables, queue, name, id);
    match role::find_alarm(&tables.roles, queue, name, ripe)? {
        Some(alarm) => {
            let row = tables.messages.get((queue, alarm))?;
            let rings_from = row.map(|row| match role::of_code(row.value().5) {
                Role::UrgentAlarm => 0,
                _ => row.value().8,
            });
            group.alarm = rings_from.map(|at| (at, alarm));
        }
        None => {
            let any = role::find_alarm(&tables.roles, queue, name, |_| Ok(true))?;
            group.waiting = next_due.filter(|due| any.is_some() && *due > now_ms);
        }
    }
    Ok(())
}
