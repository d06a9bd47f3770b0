//! Turns that the writer hands out before it commits their claim. This text is the protocol; everything else links
//! here.
//!
//! # Why
//!
//! A step of an orchestration is three writes: a message is enqueued, a dispatcher claims the turn, the dispatcher
//! commits it. Each would need a commit, and a commit is a sync to disk. Most turns only decide: nothing outside the
//! process sees what they decided before their own commit. So the writer hands the turn out while the transaction that
//! holds message and claim is still open, keeps the transaction open for a moment, and runs the turn's commit in it.
//! The three writes share one sync, and what begins and ends in one transaction is never written at all: neither the
//! lease nor the message. SQLite writes every page that a transaction touched to the log, also when it is as before; a
//! message that comes and goes would cost the pages of a table and of its indexes.
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
//! - InFlight to Written, in [`InFlight::write`]: the group is about to commit, or a request needs to see leases
//!   (`LeaseView::Needed`). The lease goes into the tables and the attempt is counted, as for any claim.
//! - Written to TurnOver, in `ops/commit_turn` and `ops/abandon_turn`: a turn is over and its execution goes on.
//! - All to Written, in `writer/`: the transaction ends, committed or rolled back. The next one begins with an empty
//!   [`InFlight`].
//!
//! # Messages
//!
//! A message that is enqueued in the transaction is a row of the queue at once, or **unwritten**
//! ([`Unwritten`](crate::tx::Unwritten)): it is only in memory, with the number that the row would have got.
//!
//! ```text
//!  enqueued ──────► unwritten ──────► gone: the commit of its turn joins the transaction, and no row is ever written
//!      │                │
//!      └────────────────┴───────────► row
//! ```
//!
//! - **Which.** `tables/orchestrator_queue/enqueue.rs` keeps a message unwritten if it is due, its lane is certain, no
//!   other message is queued for its instance (due or not, written or not) and its instance is not leased; never a
//!   request to cancel, and never the start of a child, which other requests look for by its sender. So an instance has
//!   one unwritten message or rows, never both: the order of its messages is that of their rows.
//! - **Numbers.** An unwritten message gets the number that follows all others, written or not. As long as there is
//!   one, every row that is enqueued gets its number in the same way.
//! - **Who sees them.** Only requests that say `LeaseView::NotNeeded`; of those, the ones that look at the queue know
//!   of unwritten messages: the claim of turns, the commit of a turn, an enqueueing, a submission, and the list of what
//!   is pending for an instance. Before any other request runs, the group writes all of them, and such a request keeps
//!   none unwritten itself.
//! - **Unwritten to row**, in `tables/orchestrator_queue/unwritten.rs`, all of them together in the order of their
//!   numbers: the group is about to commit; another request has to see the queue; another message comes for the same
//!   instance, or a submission for it; or a claim changes rows of the queue, or hands out after the commit.
//! - **Unwritten to gone**, in `ops/commit_turn`: the commit of the turn that was claimed with it.
//!
//! The sender gets its answer after the commit in any case, so a message that nobody has seen on disk has a sender
//! without an answer.
//!
//! # What goes wrong
//!
//! - **The transaction is rolled back.** Its claims never happened. [`InFlight::forget`] drops their leases and the
//!   unwritten messages, so a commit that comes later finds no lease and is refused as a lost lease. If a job failed
//!   after it had written, or had kept, ended or taken unwritten messages, the group runs the jobs again that it has
//!   not answered, each with a savepoint and with every message written at once, and the writer tries the waiting
//!   claims again. The same happens if unwritten messages cannot be written (a full disk): then the sender fails whose
//!   message it is, and not the group. If the commit or the disk failed, all jobs and waiting claims fail with the
//!   error. The turn itself may have been the cause, so [`CrashCaution::distrust`] keeps its instance from being handed
//!   out early until a turn of it is committed.
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
//! - **The turn takes long.** The writer does not wait beyond the limits below. It writes messages and lease, commits,
//!   and the turn commits in a later transaction as any turn does.
//! - **The turn wants to run an effect in place.** An effect acts on the world. If it ran and the transaction were
//!   rolled back, no record would show that it ran, and the next claim of the turn would run it again, even beside it.
//!   If the process died, its attempt would not be counted. So the engine has the lease stored first
//!   (`Provider::store_lease`): the writer writes the lease and the attempt (`LeaseView::Needed`), commits, and
//!   answers then (`ops/store_lease.rs`). If the transaction is rolled back, the answer is a lost lease or the error
//!   of the commit, and the turn runs no effect. Such a turn takes one more sync, as one that is handed out after the
//!   commit does.
//! - **The turn asks the store something.** The engine has its lease stored first, too. Readers do not see the open
//!   transaction; while [`Uncommitted::any`] holds, `Store::read` as of a claim (`ReadView::OpenTransaction`) goes to
//!   the writer.
//! - **The history is large.** A claim leaves it to the readers, and they do not see the open transaction. So the lease
//!   is stored first here too, and with it everything that the claim saw is committed (`large_histories.rs`).
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
//! **Activities never.** An activity acts on the world like an effect in place, and all of it does. So work is handed
//! out after the commit, and its claims are tried last in a transaction.
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
