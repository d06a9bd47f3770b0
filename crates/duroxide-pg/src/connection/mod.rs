//! The way to the server. In: a url and options. Out: connections, calls and statements on them, and a schema of this
//! build's version. Never decides what to call.

pub(crate) mod call;
pub(crate) mod db;
pub(crate) mod limits;
pub(crate) mod migrate;
pub(crate) mod schema;
pub(crate) mod tls;
pub(crate) mod url;
