//! Turns. In: instances with messages, claimed under a lease. Out: one commit per turn, or the claim given back.
//!
//! The files follow the path of a turn: `dispatcher` claims, `leased_turn` keeps the lease and gives the claim in hand
//! (`claim_in_hand`), `turn` decides what to do with it, `sort` tells the message that begins an execution from those
//! that it is fed, `run` carries a turn from its code to its commit: `drive` replays and runs the code, `plan` turns
//! what it decided into writes, `commit` writes, `after` does what follows and `turn_log` has the log lines and metrics
//! of it. What leaves that path has a file of its own: `without_code` (no handler here), `nothing_to_run` (messages
//! without effect, a history that does not decode), `blocked` (the code does not fit, or the store refuses), `poison`
//! (tried too often), `forced` (an end without running code), `rewind` (a failed instance that is retried), `give_back`
//! (a claim that ends without a commit). Beside them: `host` answers what the code asks of the world, `from_parent`
//! checks who sent a request to cancel, `foreign` gives a turn to code that was reached from outside, `spans` makes the
//! spans of a committed turn.

mod after;
mod blocked;
mod claim_in_hand;
mod commit;
mod dispatcher;
mod drive;
mod forced;
mod foreign;
mod from_parent;
mod give_back;
mod host;
mod leased_turn;
mod nothing_to_run;
mod plan;
mod poison;
mod rewind;
mod run;
mod sort;
mod spans;
mod turn;
mod turn_log;
mod without_code;

pub(crate) use dispatcher::dispatch;
