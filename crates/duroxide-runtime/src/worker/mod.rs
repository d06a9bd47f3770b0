//! Activities. In: work that the store hands out. Out: completions, or the claim given back. One claim loop, as many
//! activities at once as there are slots.
//!
//! The files follow the path of an activity: `dispatcher` claims, `claimed` keeps the lease, `sessions` finds the
//! place, `execute` runs the handler with what `activity_parts` read from the item, `complete` stores the result.
//! Beside them: `limits` (of one attempt), `cancellation` (leases that the store took away), `awaiting` and `syscalls`
//! (activities of the engine itself), `wrong_kind` (what is no activity).

mod activity_parts;
mod awaiting;
mod cancellation;
mod claimed;
mod complete;
mod dispatcher;
mod execute;
mod limits;
mod sessions;
mod syscalls;
mod wrong_kind;

pub(crate) use dispatcher::{can_work, dispatch};
pub(crate) use syscalls::with_built_ins;
