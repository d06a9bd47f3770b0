//! Notes that a node cannot go on with an instance, under the lease of the turn that it could not run.

use duroxide_core::provider::BlockedInstance;
use duroxide_core::provider::rules::Refusal;

use crate::error::Result;
use crate::tables::{blocked, instance_locks};
use crate::token;
use crate::tx::Tx;

pub(crate) fn run(tx: &Tx<'_>, token: &str, what: &BlockedInstance, node: &str) -> Result<bool> {
    let instance = token::turn(token)?.instance;
    if !instance_locks::is_valid(tx, instance, token)? {
        return Err(Refusal::InvalidToken.into());
    }
    blocked::note(tx, instance, what, node)
}
