//! Notes that a node cannot go on with an instance, under the lease of the turn that it could not run. A history that
//! cannot be read is not looked at: it would cost the requests that share the transaction.

use duroxide_core::provider::BlockedInstance;
use duroxide_core::provider::rules::Refusal;

use crate::damage::Damage;
use crate::error::{Result, SqliteError};
use crate::tables::{blocked, instance_locks};
use crate::token;
use crate::writer_tx::WriterTx;

pub(crate) fn run(
    tx: &WriterTx<'_>,
    token: &str,
    what: &BlockedInstance,
    node: &str,
) -> Result<bool> {
    let instance = token::turn(token)?.instance;
    if !instance_locks::is_valid(tx, instance, token)? {
        return Err(Refusal::InvalidToken.into());
    }
    let damaged = tx.writer().damaged;
    if let Some(Damage::History(_)) = damaged.get(instance) {
        return blocked::note_without_history(tx, what, node);
    }
    let noted = blocked::note(tx, instance, what, node);
    if let Err(SqliteError::Damaged { detail }) = &noted {
        // This transaction is lost; the next note goes without.
        damaged.add(instance, Damage::History(detail.clone()));
    }
    noted
}
