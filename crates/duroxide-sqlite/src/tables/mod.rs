//! One file or folder owns each table, and only it writes the table; others may join the table when they read. In:
//! values. Out: rows.
//!
//! Two files write a table that another file owns: `labels.rs` keeps the labels of an instance in its row of
//! `instances` beside the table that finds instances by label, and `whole_instance/write.rs` restores all rows of an
//! instance from a snapshot. Four rooms own no table: `instance_pages/` (lists, from many tables), `readable.rs` (lists
//! where a page cannot be read), `whole_instance/`, and `budget.rs` (how much one transaction may still delete or
//! write). `latest_time.rs` owns `store_time`.
//!
//! What must hold whoever writes a row stands with its table: a message for an instance ends its rest
//! (`orchestrator_queue/enqueue.rs`), a closed store refuses (`closing.rs`). What one operation decides stands in
//! `ops/`.

pub(crate) mod blocked;
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
pub(crate) mod readable;
pub(crate) mod rests;
pub(crate) mod sessions;
pub(crate) mod whole_instance;
pub(crate) mod worker_queue;

pub(crate) use latest_time::{latest_time, latest_time_but_of_queues, store_time, take_write_lock};
