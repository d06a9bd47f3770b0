//! Extends the lease of a claimed instance, from now. An expired lease stays expired.

use std::time::Duration;

use crate::error::Result;
use crate::ops::commit_turn::why_not_held;
use crate::tables::instance_locks;
use crate::token;
use crate::tx::Tx;

pub(crate) fn run(tx: &Tx<'_>, token: &str, extend_for: Duration) -> Result<()> {
    let instance = token::turn(token)?.instance;
    if instance_locks::renew(tx, instance, token, tx.later(extend_for))? {
        return Ok(());
    }
    Err(why_not_held(tx, instance, token)?)
}
