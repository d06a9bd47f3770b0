//! PostgreSQL store for Duroxide: many machines, one database.
//!
//! The provider collects what the tasks of a process write and sends it in one transaction and one round trip; waiting
//! claims run in the same transaction. Every turn is fenced by its own lease inside it. The only clock is the server's.
//! Processes wake each other by LISTEN and NOTIFY, and poll from time to time in case a notification is lost.
//!
//! ```no_run
//! use duroxide_pg::PostgresProvider;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = PostgresProvider::new("postgres://app@localhost/orders").await?;
//! assert_eq!(store.schema_name(), "duroxide");
//! # Ok(())
//! # }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod calls;
mod codec;
mod connection;
mod error;
mod fetch;
mod group;
mod handle;
mod in_transaction;
mod news;
mod notify;
mod ops;
mod options;
mod provider;
mod published;
mod rests;
mod store;
mod text;
mod thread;
mod time;
mod token;
mod turns_to_look;
mod undelivered;
mod watch;

pub use error::PgError;
pub use handle::PostgresProvider;
pub use in_transaction::Within;
pub use options::{MigrationPolicy, PostgresOptions, ProviderConfig};
pub use published::{PublishedCounts, PublishedSchema};
