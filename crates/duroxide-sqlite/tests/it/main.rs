//! Tests of the SQLite store, by flow.

#![expect(
    clippy::unwrap_used,
    reason = "a step that fails ends the test that took it"
)]

mod support;

mod admin;
mod checkpoints;
mod clocks;
mod conformance;
mod damage;
mod dead_letters;
mod files;
mod group_commit;
mod incarnations;
mod io_faults;
mod lanes;
mod large_histories;
mod opening;
mod outages;
mod processes;
mod readings;
mod turns;
mod waiting;
mod within;
mod work;
