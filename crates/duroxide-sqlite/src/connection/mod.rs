//! Connections to the database. In: a url and options. Out: configured connections, their prepared statements, and what
//! the linked SQLite allows. Knows no table and no thread.

pub(crate) mod busy;
pub(crate) mod database;
pub(crate) mod exclusive;
pub(crate) mod linked_sqlite;
pub(crate) mod log_policy;
pub(crate) mod migrate;
pub(crate) mod page_cache;
pub(crate) mod statements;
pub(crate) mod url;

pub(crate) use database::{Database, LastShutdown};
