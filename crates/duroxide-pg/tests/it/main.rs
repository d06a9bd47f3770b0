//! Tests against a real PostgreSQL server.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod choices;
mod closing;
mod conformance;
mod crowds;
mod damage;
mod damaged_arrivals;
mod damaged_reads;
mod early;
mod early_leases;
mod held;
mod held_by_others;
mod histories;
mod letters;
mod marks;
mod meetings;
mod openings;
mod pages;
mod pauses;
mod plain;
mod pooler;
mod roles;
mod schema;
mod stress;
mod submitting;
mod support;
mod tls;
mod uncertain;
mod waits;
mod within;
