//! Roles of messages as they are stored, and the messages of a group by role.

use ::redb::ReadableTable;

use super::error::Result;
use super::tables::Tables;
use crate::message::{Followers, Message, Role};

pub(super) fn code(role: Role) -> u8 {
    match role {
        Role::Plain => 0,
        Role::Lead => 1,
        Role::Alarm => 2,
        Role::Successor(Followers::Come) => 3,
        Role::Successor(Followers::Stay) => 4,
        Role::Follower => 5,
        Role::UrgentAlarm => 6,
    }
}

pub(super) fn of_code(code: u8) -> Role {
    match code {
        1 => Role::Lead,
        2 => Role::Alarm,
        3 => Role::Successor(Followers::Come),
        4 => Role::Successor(Followers::Stay),
        5 => Role::Follower,
        6 => Role::UrgentAlarm,
        _ => Role::Plain,
    }
}

/// Under what a message is listed within its group, with the number of that list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listed {
    Lead = 1,
    Alarm = 2,
    Successor = 3,
    UrgentAlarm = 4,
}

fn listed(role: Role) -> Option<Listed> {
    match role {
        Role::Plain | Role::Follower => None,
        Role::Lead => Some(Listed::Lead),
        Role::Alarm => Some(Listed::Alarm),
        Role::UrgentAlarm => Some(Listed::UrgentAlarm),
        Role::Successor(_) => Some(Listed::Successor),
    }
}

/// Lists a message under its role, within its group.
pub(super) fn note(tables: &mut Tables<'_>, queue: &str, message: &Message) -> Result<()> {
    if let Some(list) = listed(message.role) {
        let place = (queue, message.group.as_str(), list as u8, message.id);
        tables.roles.insert(place, ())?;
    }
    Ok(())
}

pub(super) fn forget(tables: &mut Tables<'_>, queue: &str, message: &Message) -> Result<()> {
    if let Some(list) = listed(message.role) {
        let place = (queue, message.group.as_str(), list as u8, message.id);
        tables.roles.remove(place)?;
    }
    Ok(())
}

/// Whether no message of the group is listed: most groups need no further look.
pub(super) fn none(
    roles: &impl ReadableTable<(&'static str, &'static str, u8, u64), ()>,
    queue: &str,
    name: &str,
) -> Result<bool> {
    let all = (queue, name, 0, 0)..=(queue, name, u8::MAX, u64::MAX);
    Ok(roles.range(all)?.next().is_none())
}

/// Messages of the group in this list, ascending, up to the first that the search wants.
pub(super) fn find(
    roles: &impl ReadableTable<(&'static str, &'static str, u8, u64), ()>,
    queue: &str,
    name: &str,
    list: Listed,
    wanted: impl Fn(u64) -> Result<bool>,
) -> Result<Option<u64>> {
    let list = list as u8;
    let all = (queue, name, list, 0)..=(queue, name, list, u64::MAX);
    for found in roles.range(all)? {
        let id = found?.0.value().3;
        if wanted(id)? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The successor that the search wants, else the lead.
pub(super) fn find_lead(
    roles: &impl ReadableTable<(&'static str, &'static str, u8, u64), ()>,
    queue: &str,
    name: &str,
    wanted: impl Fn(u64) -> Result<bool>,
) -> Result<Option<u64>> {
    match find(roles, queue, name, Listed::Successor, &wanted)? {
        Some(successor) => Ok(Some(successor)),
        None => find(roles, queue, name, Listed::Lead, wanted),
    }
}

/// Whether the group has a lead that is no successor.
pub(super) fn has_lead(
    roles: &impl ReadableTable<(&'static str, &'static str, u8, u64), ()>,
    queue: &str,
    name: &str,
) -> Result<bool> {
    Ok(find(roles, queue, name, Listed::Lead, |_| Ok(true))?.is_some())
}

/// The urgent alarm that the search wants, else the alarm.
pub(super) fn find_alarm(
    roles: &impl ReadableTable<(&'static str, &'static str, u8, u64), ()>,
    queue: &str,
    name: &str,
    wanted: impl Fn(u64) -> Result<bool>,
) -> Result<Option<u64>> {
    match find(roles, queue, name, Listed::UrgentAlarm, &wanted)? {
        Some(urgent) => Ok(Some(urgent)),
        None => find(roles, queue, name, Listed::Alarm, wanted),
    }
}
