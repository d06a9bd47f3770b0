//! Roles of messages as they are stored, and the messages of a group by role.

use ::redb::ReadableTable;

use super::error::Result;
use super::tables::Tables;
use crate::message::{Message, Role};

pub(super) fn code(role: Role) -> u8 {
    match role {
        Role::Plain => 0,
        Role::Lead => 1,
        Role::Alarm => 2,
    }
}

pub(super) fn of_code(code: u8) -> Role {
    match code {
        1 => Role::Lead,
        2 => Role::Alarm,
        _ => Role::Plain,
    }
}

/// Lists a message under its role, within its group.
pub(super) fn note(tables: &mut Tables<'_>, queue: &str, message: &Message) -> Result<()> {
    if message.role != Role::Plain {
        let place = (
            queue,
            message.group.as_str(),
            code(message.role),
            message.id,
        );
        tables.roles.insert(place, ())?;
    }
    Ok(())
}

pub(super) fn forget(tables: &mut Tables<'_>, queue: &str, message: &Message) -> Result<()> {
    if message.role != Role::Plain {
        let place = (
            queue,
            message.group.as_str(),
            code(message.role),
            message.id,
        );
        tables.roles.remove(place)?;
    }
    Ok(())
}

/// Messages of the group with this role, ascending, up to the first that the search wants.
pub(super) fn find(
    tables: &Tables<'_>,
    queue: &str,
    name: &str,
    role: Role,
    wanted: impl Fn(u64) -> Result<bool>,
) -> Result<Option<u64>> {
    let role = code(role);
    let all = (queue, name, role, 0)..=(queue, name, role, u64::MAX);
    for found in tables.roles.range(all)? {
        let id = found?.0.value().3;
        if wanted(id)? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}
