//! Turns. In: instances with messages, claimed under a lease. Out: one commit per turn, or the claim given back.
//!
//! The files follow the path of a turn: `dispatcher` claims, `leased_turn` keeps the lease and gives the claim in hand
//! (`claim_in_hand`), `turn` decides what to do with it, `sort` puts its messages in order, `run` carries a turn from
//! its code to its commit: `drive` replays and runs the code, `plan` turns the decision into writes, `commit` writes,
//! `after` does what follows and `turn_log` has the log lines and metrics of it. What leaves that path has a file of
//! its own: `without_code` (no handler here), `settled` (nothing to run, nothing to end), `blocked` (the code does not
//! fit, or the store refuses), `poison` (tried too often), `forced` (an end without running code), `rewind` (a failed
//! instance that is retried).

mod after;
mod blocked;
mod claim_in_hand;
mod commit;
mod dispatcher;
mod drive;
mod forced;
mod foreign;
mod from_parent;
mod host;
mod leased_turn;
mod plan;
mod poison;
mod rewind;
mod run;
mod settled;
mod sort;
mod spans;
mod turn;
mod turn_log;
mod without_code;

pub(crate) use dispatcher::dispatch;
