//! One operation, one file. In: arguments of the contract. Out: its answer. Operations call the server or ask the
//! group; the trait impls only delegate here.

pub(crate) mod ask;
mod dead_letter;
mod delete;
mod hold;
pub(crate) mod inspect;
mod labels;
mod nodes;
mod pause;
mod pending;
mod query;
mod read;
mod ready;
mod requeue;
mod snapshot;
mod submit;
