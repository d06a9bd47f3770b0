pub(crate) mod database;
pub(crate) mod driver;
pub(crate) mod exclusive;
pub(crate) mod migrate;
pub(crate) mod statements;
pub(crate) mod url;
