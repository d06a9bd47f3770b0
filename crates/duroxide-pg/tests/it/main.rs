//! Tests against a real PostgreSQL server.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod conformance;
mod crowds;
mod roles;
mod schema;
mod support;
mod within;
