//! One instance as data, and back: what lies in entries, logs and queues under its id. In: an id, or a snapshot. Out: a
//! snapshot, read from one state, or one batch that writes it all.

mod family;
mod held;
mod message;
mod read;
mod write;

pub(super) use family::run as family;
pub(super) use held::held;
pub(super) use read::run as take;
pub(super) use write::run as restore;
