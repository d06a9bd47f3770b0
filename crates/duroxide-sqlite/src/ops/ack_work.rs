//! Completes an activity: the item goes, its completion comes, in one transaction and under a valid lease.

use duroxide_core::provider::rules::Refusal;

use crate::error::{Result, SqliteError};
use crate::tables::orchestrator_queue::NewMessage;
use crate::tables::{orchestrator_queue, sessions, worker_queue};
use crate::token::{self, WorkToken};
use crate::tx::Tx;

pub(crate) fn run(tx: &mut Tx<'_>, token: &str, completion: Option<&NewMessage>) -> Result<()> {
    let WorkToken { id, in_session } = token::work(token)?;
    let session = if in_session {
        worker_queue::session_of(tx, id)?
    } else {
        None
    };
    if !worker_queue::delete_held(tx, id, token)? {
        return Err(why_not_held(tx, id, token)?);
    }
    if let Some(session) = session {
        sessions::touch(tx, &session)?;
    }
    match completion {
        Some(message) => orchestrator_queue::push(tx, message),
        None => Ok(()), // the activity was cancelled, its result is not needed
    }
}

/// Why a token no longer holds its item.
pub(crate) fn why_not_held(tx: &Tx<'_>, id: i64, token: &str) -> Result<SqliteError> {
    Ok(if worker_queue::is_known(tx, id, token)? {
        SqliteError::Contract(Refusal::WorkLockExpired)
    } else {
        SqliteError::Contract(Refusal::InvalidToken)
    })
}
