//! Tests of the SQLite store, by flow.

#![expect(
    clippy::unwrap_used,
    reason = "a step that fails ends the test that took it"
)]

mod support;

mod admin;
mod bad_days;
mod checkpoints;
mod clocks;
mod conformance;
mod group;
mod io_faults;
mod lanes;
mod lives;
mod opening;
mod orphans;
mod processes;
mod turns;
mod wake;
mod work;
