//! One group of a grouped queue: its messages by when they are due, and where it belongs in the lines.

use ::redb::ReadableTable;

use super::error::Result;
use super::messages;
use super::role;
use super::tables::Tables;
use crate::lease::UNDISTURBED;
use crate::message::{Claim, Followers, LAST_MS, Role};

/// Messages that one step turns from due into ripe at most, so that no step grows with what is due.
const RIPEN_MAX: usize = 1_000;

/// Stands in `by_group` for the time of a follower that is ripe. It is no time; ripe messages of other roles have 0.
pub(super) const FOLLOWING: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) label: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) lease: Option<String>,
    pub(super) quiet_until: u64,
    /// Whether followers are held back.
    pub(super) holds: bool,
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
    let (label, kind, lease, quiet, ready, line, waiting, alarm) = row.value();
    let (quiet_until, holds) = quiet_of_stored(quiet);
    Ok(Group {
        label: label.map(str::to_owned),
        kind: kind.map(str::to_owned),
        lease: lease.map(str::to_owned),
        quiet_until,
        holds,
        ready,
        line: line.map(str::to_owned),
        waiting,
        alarm,
    })
}

/// A group that holds its followers back has the first bit set in the end of its rest, which is a time without it.
const HOLDS: u64 = 1 << 63;
/// The end of rest of a leased group that holds followers back.
const UNDISTURBED_AND_HOLDS: u64 = UNDISTURBED - 1;

fn quiet_to_stored(quiet_until: u64, holds: bool) -> u64 {
    match (quiet_until, holds) {
        (quiet_until, false) => quiet_until,
        (UNDISTURBED, true) => UNDISTURBED_AND_HOLDS,
        (quiet_until, true) => quiet_until.min(LAST_MS - 2) | HOLDS,
    }
}

fn quiet_of_stored(stored: u64) -> (u64, bool) {
    match stored {
        UNDISTURBED => (UNDISTURBED, false),
        UNDISTURBED_AND_HOLDS => (UNDISTURBED, true),
        stored => (stored & !HOLDS, stored & HOLDS != 0),
    }
}

/// The time in `by_group` of a message of this role that is due at a time; 0 for one that is ripe.
pub(super) fn slot_of(due_ms: u64, role: Role) -> u64 {
    match (due_ms, role) {
        (0, Role::Follower) => FOLLOWING,
        _ => due_ms,
    }
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
    let all = (queue, name, from_ms, 0)..=(queue, name, LAST_MS, u64::MAX);
    let Some(first) = tables.by_group.range(all)?.next() else {
        return Ok(None);
    };
    let (_, _, visible_at, id) = first?.0.value();
    Ok(Some((visible_at, id)))
}

/// The oldest follower that is ripe.
pub(super) fn first_follower(tables: &Tables<'_>, queue: &str, name: &str) -> Result<Option<u64>> {
    let following = (queue, name, FOLLOWING, 0)..=(queue, name, FOLLOWING, u64::MAX);
    let Some(first) = tables.by_group.range(following)?.next() else {
        return Ok(None);
    };
    Ok(Some(first?.0.value().3))
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
        let role = tables.messages.get((queue, id))?.map(|row| row.value().5);
        let slot = slot_of(0, role.map_or(Role::Plain, role::of_code));
        messages::set_due(tables, queue, name, id, &mut state, slot)?;
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
    holds: bool,
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
    let followers = match (holds, alone) {
        (true, _) => InPrefix::Absent,
        (false, true) => InPrefix::Pass,
        (false, false) => InPrefix::Come,
    };
    let mut chosen = prefix(tables, queue, name, claim, followers)?;
    for special in lead.into_iter().chain(alarm) {
        if let Err(position) = chosen.binary_search(&special) {
            chosen.insert(position, special);
        }
    }
    Ok(chosen)
}

/// What becomes of followers in a prefix of their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InPrefix {
    Come,
    /// They stay, but count.
    Pass,
    /// They are not looked at.
    Absent,
}

/// The oldest messages within the bounds of the claim.
fn prefix(
    tables: &Tables<'_>,
    queue: &str,
    name: &str,
    claim: &Claim,
    kept: InPrefix,
) -> Result<Vec<u64>> {
    let mut chosen: Vec<u64> = Vec::new();
    let (mut bytes, mut followers) = (0_usize, 0);
    let max = claim.messages_max.max(1);
    let followers_max = match kept {
        InPrefix::Come => max.min(claim.followers_max.saturating_add(1)),
        InPrefix::Pass => max,
        InPrefix::Absent => 0,
    };
    for (id, follows) in oldest(tables, queue, name, max, followers_max)? {
        if follows && kept == InPrefix::Pass {
            continue;
        }
        followers += usize::from(follows);
        if claim.bytes_max < usize::MAX {
            let row = tables.messages.get((queue, id))?;
            bytes = bytes.saturating_add(row.map_or(0, |row| row.value().7.len()));
        }
        let is_full = bytes > claim.bytes_max || followers > claim.followers_max;
        if is_full && !chosen.is_empty() {
            break;
        }
        chosen.push(id);
    }
    Ok(chosen)
}

/// The oldest ripe messages, at most `max`, and whether each is a follower. Two lines become one.
fn oldest(
    tables: &Tables<'_>,
    queue: &str,
    name: &str,
    max: usize,
    followers_max: usize,
) -> Result<Vec<(u64, bool)>> {
    let mut found = Vec::new();
    let line = |slot: u64| (queue, name, slot, 0)..=(queue, name, slot, u64::MAX);
    for other in tables.by_group.range(line(0))?.take(max) {
        found.push((other?.0.value().3, false));
    }
    if followers_max == 0 {
        return Ok(found);
    }
    let others = found.len();
    for follower in tables.by_group.range(line(FOLLOWING))?.take(followers_max) {
        found.push((follower?.0.value().3, true));
    }
    if found.len() > others {
        found.sort_unstable();
        found.truncate(max);
    }
    Ok(found)
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
    let is_known = label.is_some() || group.kind.is_some() || group.lease.is_some();
    if !placed && !is_known && !group.holds {
        tables.groups.remove((queue, name))?;
        return Ok(());
    }
    let row = (
        label,
        group.kind.as_deref(),
        group.lease.as_deref(),
        quiet_to_stored(group.quiet_until, group.holds),
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
    let first = first_due(tables, queue, name, 0)?;
    let follower = if group.holds {
        None
    } else {
        first_follower(tables, queue, name)?
    };
    if first.is_none() && follower.is_none() {
        return Ok(());
    }
    if leased_until > now_ms {
        group.waiting = Some(leased_until);
        return Ok(());
    }
    let next_due = first_due(tables, queue, name, 1)?.map(|(at, _)| at);
    let ripe = first.filter(|(at, _)| *at == 0).map(|(_, id)| id);
    let Some(oldest) = ripe.into_iter().chain(follower).min() else {
        group.waiting = next_due;
        return Ok(());
    };
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
