//! One file per table; only that file names it. In: values. Out: rows. No rules beyond those of one statement.

pub(crate) mod budget;
pub(crate) mod closing;
pub(crate) mod dead_letters;
pub(crate) mod deletions;
pub(crate) mod duties;
pub(crate) mod executions;
pub(crate) mod heartbeats;
pub(crate) mod held_queue_messages;
pub(crate) mod history;
pub(crate) mod instance_locks;
pub(crate) mod instance_pages;
pub(crate) mod instances;
pub(crate) mod kv;
pub(crate) mod labels;
mod latest_time;
pub(crate) mod nodes;
pub(crate) mod orchestrator_queue;
pub(crate) mod pauses;
pub(crate) mod rests;
pub(crate) mod sessions;
pub(crate) mod whole_instance;
pub(crate) mod worker_queue;

pub(crate) use latest_time::{latest_time, store_time};
