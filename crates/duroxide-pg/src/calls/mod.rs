//! What the group sends: one function of the schema, one file. In: decoded arguments. Out: its call, and answers from
//! its rows. Never sends anything.

pub(crate) mod claim_turns;
pub(crate) mod claim_work;
pub(crate) mod commit_turn;
pub(crate) mod enqueue;
pub(crate) mod plain_turn;
pub(crate) mod verdict;
