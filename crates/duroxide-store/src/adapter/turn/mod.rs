//! Turns: claim an instance with its messages, load what the turn needs, commit what it decided.

pub(super) mod claim;
pub(super) mod commit;
pub(super) mod dead_letter;
pub(super) mod input;
mod kv;
mod load;
mod open;
mod plan;
mod resolve;
mod unclaimable;

pub(super) use plan::{append, labels};
