//! A generic event store and the adapter that makes a Duroxide provider of it.
//!
//! In: guarded batches, claims and queries over opaque bytes. Out: events, messages under leases, entries. A store
//! never knows what its bytes mean; only [`adapter`] does.
//!
//! Everything written goes through [`AtomicOps::commit`], everything read through [`AtomicOps::query`], work is taken
//! with [`MessageQueue::claim`]. The four traits are views on these three calls.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapter;
mod atomic;
mod budget;
mod clock;
pub mod conformance;
mod error;
mod guard;
mod lease;
mod log;
pub mod memory;
mod message;
mod metadata;
mod poll;
mod queue;
mod queue_name;
mod record;
#[cfg(feature = "redb")]
pub mod redb;
mod wake;

pub use adapter::StoreProvider;
pub use atomic::{Answer, AtomicOps, Batch, Guard, Operation, Query};
pub use clock::{ManualClock, StoreClock, TokioClock};
pub use error::StoreError;
pub use lease::{After, Lease, LeaseToken, Owner};
pub use log::EventLog;
pub use memory::MemoryProvider;
pub use message::{
    Backlog, Claim, Claimed, Delivery, Depth, Followers, Labels, Message, NewMessage, Queue, Role,
    Visible, later_ms,
};
pub use metadata::MetadataStore;
pub use poll::Attempt;
pub use queue::MessageQueue;
pub use record::{Entry, PartitionInfo, Record};
#[cfg(feature = "redb")]
pub use redb::RedbProvider;
pub use wake::{TopicWatch, Wakeups};

/// A complete store: all four traits. Implemented for whatever implements [`MessageQueue`].
///
/// ```
/// use duroxide_store::{EventStore, memory::MemoryStore};
/// fn complete(_: &impl EventStore) {}
/// complete(&MemoryStore::new());
/// ```
pub trait EventStore: EventLog + MessageQueue + MetadataStore + AtomicOps {}

impl<S: MessageQueue + ?Sized> EventStore for S {}

/// The guide's programs are compiled and run with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-store.md")]
mod guide {}
