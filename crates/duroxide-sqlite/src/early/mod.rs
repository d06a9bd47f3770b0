//! Turns that the writer hands out before it commits their claim. This text is the protocol; everything else links
//! here.
//!
//! # Why
//!
//! A step of an orchestration is three writes: a message is enqueued, a dispatcher claims the turn, the dispatcher
//! commits it. Each would need a commit, and a commit is a sync to disk. A turn only decides: nothing outside the
//! process sees what it decided before its own commit. So the writer hands the turn out while the transaction that
//! holds message and claim is still open, keeps the transaction open for a moment, and runs the turn's commit in it.
//! The three writes share one sync, and a lease that begins and ends in one transaction is never written at all.
//!
//! The caller asks for it ([`HandOut::BeforeCommit`]); its rules for any provider are in the contract. This module is
//! how this store keeps them.
//!
//! # States
//!
//! An instance is in one of three states while a transaction is open ([`InFlight`]):
//!
//! ```text
//!                claim                   commit of the turn, or its lease is written
//!  Written ────────────────► InFlight(lease) ───────────────────────────────────────► Written
//!     │                                                                                │
//!     └────────── a turn was committed or abandoned, and its execution goes on ────────┴──► TurnOver
//! ```
//!
//! - **Written**: the tables say all there is to know. Every instance that the transaction did not touch is in this
//!   state.
//! - **InFlight**: the dispatcher works on the turn. Its lease exists only in memory. Claims pass over the instance.
//! - **TurnOver**: a turn of the instance was committed or abandoned in this transaction, and its execution goes on.
//!   The dispatcher learns that only after the transaction is committed; a claim before that would load the history for
//!   nothing. So claims leave the instance to the next transaction.
//!
//! Only the writer thread moves an instance from state to state:
//!
//! - Written to InFlight, in `ops/fetch_turn`: a claim takes an instance that [`CrashCaution`] allows.
//! - InFlight to Written, in `ops/commit_turn`: the commit of the turn joins the transaction. It deletes the messages,
//!   and no lease is ever written.
//! - InFlight to Written, in [`InFlight::write_leases`]: the group is about to commit, or a request needs to see leases
//!   (`LeaseView::Needed`). The lease goes into the tables and the attempt is counted, as for any claim.
//! - Written to TurnOver, in `ops/commit_turn` and `ops/abandon_turn`: a turn is over and its execution goes on.
//! - All to Written, in `writer/`: the transaction ends, committed or rolled back. The next one begins with an empty
//!   [`InFlight`].
//!
//! # What goes wrong
//!
//! - **The transaction is rolled back.** Its claims never happened. [`InFlight::forget`] drops their leases, so a
//!   commit that comes later finds none and is refused as a lost lease. If a job failed after it had written, the group
//!   runs the jobs again that it has not answered, and the writer tries the waiting claims again. If the commit or the
//!   disk failed, all jobs and waiting claims fail with the error. The turn itself may have been the cause, so
//!   [`CrashCaution::distrust`] keeps its instance from being handed out early until a turn of it is committed.
//! - **The process crashes.** Nothing of the open transaction is on disk. A message that was enqueued in it has a
//!   sender without an answer, which sends it again; one that was stored before is claimed again. The attempt was not
//!   counted, so a turn that ends the process could do so for ever; [`CrashCaution`] prevents that (see below).
//! - **Another process commits.** It cannot while the transaction is open: the writer holds SQLite's write lock from
//!   its first statement. Before a transaction hands anything out,
//!   [`WriterMemory::check`](crate::writer_memory::WriterMemory::check) has compared the file's change counter; if
//!   another process wrote since, everything remembered is dropped and instances are read from the tables.
//! - **The caller drops its call.** A claim whose caller is gone takes nothing. If the caller goes away with the answer
//!   on its way, the reply gives the turn back by a job of its own (`claims/claim.rs`), which is an abandon like any
//!   other.
//! - **The turn takes long.** The writer does not wait beyond the limits below. It writes the lease, commits, and the
//!   turn commits in a later transaction as any turn does.
//! - **The turn asks the store something.** Readers do not see the open transaction. While [`Uncommitted::any`] holds,
//!   `Store::read` as of a claim (`ReadView::OpenTransaction`) goes to the writer.
//!
//! # Which turns
//!
//! A turn that ends the process must be counted before it is tried again. An early turn is not counted, so
//! [`CrashCaution`] allows only turns that cannot have ended a process before:
//!
//! - all their messages were enqueued after this process opened the store, and no claim has tried them;
//! - the instance is new, or a turn of it was committed by this process
//!   ([`WriterMemory`](crate::writer_memory::WriterMemory));
//! - it holds no queue messages back: the claim may have to hide some;
//! - no transaction that had handed it out was rolled back since its last commit;
//! - for [`AFTER_UNCLEAN_SHUTDOWN`] after the store was opened on a file that its last user did not close, none at all:
//!   the request that ended that process may be sent again.
//!
//! A claim is handed out as a whole, before or after the commit. The first instance it takes decides; instances that
//! cannot go with it are left to the next claim.
//!
//! **Activities never.** An activity acts on the world. If it ran and its claim were rolled back, no record would show
//! that it ran. So work is handed out after the commit, and its claims are tried last in a transaction.
//!
//! # Time limits
//!
//! The first three are in `writer/fill.rs`.
//!
//! - `HOLD`, 150 µs: how long the writer waits for the next turn in flight. A short turn takes less; a turn that takes
//!   longer commits with a later transaction.
//! - `HOLD_MAX`, 2 ms: how long a transaction stays open for turns in flight in all. Other requests, and other
//!   processes, wait for its end.
//! - `HOLD_JOBS_MAX`, 8 jobs: with more than this the writer does not wait. Many share the commit already, and waiting
//!   would delay them all.
//! - [`AFTER_UNCLEAN_SHUTDOWN`], 60 s: time for the request that ended the last process to be sent again, and counted.
//!
//! [`HandOut::BeforeCommit`]: duroxide_core::provider::HandOut::BeforeCommit
//! [`AFTER_UNCLEAN_SHUTDOWN`]: crash_caution::AFTER_UNCLEAN_SHUTDOWN

mod crash_caution;
mod in_flight;
mod uncommitted;

pub(crate) use crash_caution::CrashCaution;
pub(crate) use in_flight::{EarlyLease, InFlight};
pub(crate) use uncommitted::Uncommitted;

#[cfg(test)]
mod tests;
