//! Tests against a real PostgreSQL server.

mod conformance;
mod crowds;
mod roles;
mod schema;
mod support;
mod within;
