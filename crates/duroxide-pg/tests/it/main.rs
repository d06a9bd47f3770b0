//! Tests against a real PostgreSQL server.

mod conformance;
mod support;
