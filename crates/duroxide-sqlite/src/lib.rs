//! SQLite store for Duroxide: durable by default, no server, any number of processes on one file.
//!
//! One thread writes. It takes the requests that have queued up, runs them in one transaction and commits once, so
//! that a burst of requests shares one sync to disk while a lone one is not delayed. Reads have connections of their
//! own. The commit that brings work wakes the callers that wait for it.
//!
//! ```
//! use duroxide_core::provider::{Provider, WorkItem};
//! use duroxide_sqlite::SqliteProvider;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = SqliteProvider::new_in_memory().await?;
//! let start = WorkItem::StartOrchestration {
//!     instance: "order-7".into(),
//!     orchestration: "Order".into(),
//!     input: "{}".into(),
//!     version: None,
//!     parent_instance: None,
//!     parent_id: None,
//!     parent_execution_id: None,
//!     execution_id: 1,
//! };
//! store.enqueue_for_orchestrator(start, None).await?;
//! let claimed = store
//!     .fetch_orchestration_item(Duration::from_secs(5), Duration::from_secs(1), None)
//!     .await?;
//! assert_eq!(claimed.expect("a turn").0.orchestration_name, "Order");
//! # Ok(())
//! # }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod checkpoint;
mod claims;
mod codec;
mod connection;
mod counted;
mod damage;
mod deleting;
mod early;
mod error;
mod fetch;
mod files;
mod handle;
mod in_transaction;
mod kill;
mod large_histories;
mod ops;
mod options;
mod other_processes;
mod provider;
mod readers;
mod requests;
mod restoring;
mod store;
mod store_clock;
mod tables;
mod token;
mod tx;
mod unswept;
mod watch;
mod writer;
mod writer_memory;
mod writer_tx;

pub use connection::url::SqliteUrl;
pub use error::SqliteError;
pub use files::{
    BackupPace, Imported, Upgrade, Vacuumed, backup, backup_at, check_integrity, import_published,
    planned_upgrade, unfinished_copies, upgrade, vacuum,
};
pub use handle::SqliteProvider;
pub use in_transaction::Within;
#[doc(hidden)]
pub use options::Tuning;
pub use options::{Durability, OtherPrograms, SchemaUpgrade, SqliteOptions};
/// The release of rusqlite that [`Within`] takes: only one crate of a program may link SQLite.
pub use rusqlite;
