//! One file per subject, one method of [`Store`](crate::store::Store) per operation. In: arguments of the contract.
//! Out: its answer. Operations call the server or ask the group; the trait impls only delegate here.

pub(crate) mod admin_sql;
mod append;
mod blocked;
mod commit;
mod dead_letter;
mod dead_letters;
mod delete;
mod enqueue;
mod heartbeats;
pub(crate) mod inspect;
mod labels;
mod list;
mod nodes;
mod pause;
mod pending;
mod query;
mod read;
mod ready;
mod requeue;
mod sessions;
mod snapshot;
mod submit;
mod turn_leases;
mod work_leases;
