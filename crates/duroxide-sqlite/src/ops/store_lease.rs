//! Confirms that the lease of a claimed turn is in the tables. Writes nothing: the writer has written the leases of
//! turns in flight before this runs, and it answers after the commit. An expired lease is lost.

use crate::error::Result;
use crate::ops::commit_turn::why_not_held;
use crate::tables::instance_locks;
use crate::token;
use crate::tx::Tx;

pub(crate) fn run(tx: &Tx<'_>, token: &str) -> Result<()> {
    let instance = token::turn(token)?.instance;
    if instance_locks::is_valid(tx, instance, token)? {
        return Ok(());
    }
    Err(why_not_held(tx, instance, token)?)
}
