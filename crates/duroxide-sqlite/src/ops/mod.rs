//! One operation, one transaction, one file. In: decoded arguments. Out: rows. Knows no thread: the trait impls and
//! `fetch.rs` send each operation to one.

pub(crate) mod abandon_turn;
pub(crate) mod abandon_work;
pub(crate) mod ack_work;
pub(crate) mod claim_attempt;
pub(crate) mod closed;
pub(crate) mod commit_turn;
pub(crate) mod dead_letter;
pub(crate) mod delete;
pub(crate) mod delete_family;
pub(crate) mod dump;
pub(crate) mod enqueue;
pub(crate) mod fetch_turn;
pub(crate) mod fetch_work;
pub(crate) mod inspect;
pub(crate) mod label;
pub(crate) mod note_blocked;
pub(crate) mod outcome;
pub(crate) mod pause;
pub(crate) mod pending;
pub(crate) mod prune;
pub(crate) mod query;
pub(crate) mod read_history;
pub(crate) mod ready;
pub(crate) mod renew_turn;
pub(crate) mod renew_work;
pub(crate) mod requeue;
pub(crate) mod restore;
pub(crate) mod sessions;
pub(crate) mod snapshot;
pub(crate) mod space;
pub(crate) mod stats;
pub(crate) mod steps;
pub(crate) mod store_lease;
pub(crate) mod submit;
pub(crate) mod unknown_instances;
