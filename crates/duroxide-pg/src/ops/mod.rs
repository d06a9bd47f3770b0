//! One operation, one file. In: decoded arguments. Out: calls, and answers from their rows. The trait impls only
//! delegate here.

pub(crate) mod claim_turns;
pub(crate) mod claim_work;
pub(crate) mod commit_turn;
pub(crate) mod enqueue;
pub(crate) mod plain_turn;
