//! The binary on stores that the engine made.

#![expect(
    clippy::unwrap_used,
    reason = "a step that fails ends the test that took it"
)]

mod bringing;
mod documented;
mod guarding;
mod holding;
mod importing;
mod looking;
mod losing;
mod moving;
mod refusing;
mod schema;
mod steering;
mod support;
mod telling;
mod through_postgres;
