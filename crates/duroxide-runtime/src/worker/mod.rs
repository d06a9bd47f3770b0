//! Activities: claim, run, complete. One claim loop, as many activities at once as there are slots.

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
use sessions::keep_sessions;
pub(crate) use syscalls::with_built_ins;
