//! Turns: claim, replay, plan, commit. One claim loop, as many turns at once as there are slots.

mod batch;
mod commit;
mod dispatcher;
mod drive;
mod facts;
mod foreign;
mod host;
mod plan;
mod poison;
mod refused;
mod sticky;
mod turn;

pub(crate) use dispatcher::dispatch;
pub(crate) use sticky::StickyCache;
