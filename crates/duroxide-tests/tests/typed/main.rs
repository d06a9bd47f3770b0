//! The typed interface, in virtual time.
#![allow(clippy::unwrap_used, reason = "tests")]

mod account;
mod asking_twice;
mod calls;
mod changing;
mod child_retries;
mod children;
mod definitions;
mod heartbeats;
mod in_place;
mod limits;
mod messages;
mod mixed;
mod parents;
mod patches;
mod reply_floods;
mod requests;
mod scopes;
mod starting;
mod stored_leases;
mod turn_times;
mod values;
mod views;
