//! Tests of the generic store, its implementations and the adapter.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails should fail its test"
)]

mod adapter;
mod conformance;
#[cfg(feature = "redb")]
mod crash;
#[cfg(feature = "redb")]
mod differential;
mod example;
mod faults;
mod faulty;
#[cfg(feature = "redb")]
mod older_files;
mod store_conformance;
mod store_mutants;
mod submissions;
mod support;
mod words;
