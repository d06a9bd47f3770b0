//! All rows of one instance, whatever table they are in, for export and restore: beside the tables' own files the one
//! room that writes many of them. In: an id, or a snapshot. Out: a snapshot, or rows. Leases, sessions and rests are
//! neither read nor written.

mod held;
mod read;
mod write;

pub(crate) use held::{Position, held};
pub(crate) use read::read;
pub(crate) use write::{is_held, write, write_event, write_execution};
