//! Tests of the SQLite store, by flow.

mod support;

mod admin;
mod bad_days;
mod group;
mod opening;
mod orphans;
mod processes;
mod turns;
mod wake;
mod work;
