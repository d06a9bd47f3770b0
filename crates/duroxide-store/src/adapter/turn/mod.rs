//! Turns: claim an instance with its messages, load what the turn needs, commit what it decided.

pub(super) mod claim;
pub(super) mod commit;
mod kv;
mod load;
mod orphan;
mod plan;
pub(super) mod set_aside;

pub(super) use plan::append;
