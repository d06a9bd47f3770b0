//! How a call reaches a thread that owns a connection. In: a closure over a transaction. Out: a job in the inbox of
//! that thread, and its answer after the transaction has ended. Knows no table, and not which thread works on the jobs.

mod inbox;
mod job;

pub(crate) use inbox::{CloseOnDrop, Inbox, Took};
pub(crate) use job::{
    Answer, CallerState, ClaimQueue, ClaimState, Job, LeaseView, ReadJob, catch_panic, read_job,
    verdict, write_job,
};
