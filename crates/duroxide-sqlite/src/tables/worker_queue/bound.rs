//! Free items that are bound to sessions, with the leases of the sessions.

use rusqlite::Row;

use crate::error::Result;
use crate::tx::Tx;

/// A free item that is bound to a session, as the index has it, and who holds the session.
pub(crate) struct Bound<'r> {
    pub(crate) id: i64,
    pub(crate) session: &'r str,
    /// `None` if it cannot be read.
    pub(crate) name: Option<&'r str>,
    pub(crate) visible_at: i64,
    /// The worker that holds the session, and until when.
    pub(crate) holder: Option<(String, i64)>,
}

/// Where a walk over bound items goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Row,
    /// With the next name of the session. Items without a name come first and are passed one by one.
    Name,
    Session,
}

/// After what a walk over bound items goes on.
enum WalkAfter {
    Nothing,
    Session(String),
    /// Within a session, after a name.
    Name(String, String),
}

/// Free items with this tag that are bound to a session, by session, name and age. One statement goes on from session
/// to session, and another one begins only where something is to be passed over: the cost follows what is looked at,
/// however many sessions there are.
pub(crate) fn walk_bound(
    tx: &Tx<'_>,
    tag: Option<&str>,
    mut visit: impl FnMut(&Bound<'_>) -> Next,
) -> Result<()> {
    let mut after = WalkAfter::Nothing;
    loop {
        let mut passed_over = None;
        let step = |row: &Row<'_>| {
            let session = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            let name = row.get_ref(2)?;
            let name = name.as_str_or_null().map_err(rusqlite::Error::from)?;
            let worker: Option<String> = row.get(4)?;
            let item = Bound {
                id: row.get(0)?,
                session,
                name,
                visible_at: row.get(3)?,
                holder: worker.zip(row.get(5)?),
            };
            passed_over = match (visit(&item), name) {
                (Next::Row, _) | (Next::Name, None) => return Ok(true),
                (Next::Name, Some(name)) => {
                    Some(WalkAfter::Name(session.to_owned(), name.to_owned()))
                }
                (Next::Session, _) => Some(WalkAfter::Session(session.to_owned())),
            };
            Ok(false)
        };
        walk_bound_after(tx, tag, &after, step)?;
        after = match (passed_over, after) {
            (Some(passed), _) => passed,
            (None, WalkAfter::Name(session, _)) => WalkAfter::Session(session),
            (None, _) => return Ok(()),
        };
    }
}

fn walk_bound_after(
    tx: &Tx<'_>,
    tag: Option<&str>,
    after: &WalkAfter,
    visit: impl FnMut(&Row<'_>) -> Result<bool>,
) -> Result<()> {
    match after {
        WalkAfter::Nothing => tx.walk(
            "SELECT q.id, q.session_id, q.name, q.visible_at, s.worker_id, s.locked_until
             FROM worker_queue AS q INDEXED BY idx_worker_available
             LEFT JOIN sessions AS s ON s.session_id = q.session_id AND s.locked_until > ?2
             WHERE q.locked_until IS NULL AND q.tag IS ?1 AND q.session_id >= ''
             ORDER BY q.session_id, q.name, q.id",
            (tag, tx.now),
            visit,
        ),
        WalkAfter::Session(session) => tx.walk(
            "SELECT q.id, q.session_id, q.name, q.visible_at, s.worker_id, s.locked_until
             FROM worker_queue AS q INDEXED BY idx_worker_available
             LEFT JOIN sessions AS s ON s.session_id = q.session_id AND s.locked_until > ?2
             WHERE q.locked_until IS NULL AND q.tag IS ?1 AND q.session_id > ?3
             ORDER BY q.session_id, q.name, q.id",
            (tag, tx.now, session),
            visit,
        ),
        WalkAfter::Name(session, name) => tx.walk(
            "SELECT q.id, q.session_id, q.name, q.visible_at, s.worker_id, s.locked_until
             FROM worker_queue AS q INDEXED BY idx_worker_available
             LEFT JOIN sessions AS s ON s.session_id = q.session_id AND s.locked_until > ?2
             WHERE q.locked_until IS NULL AND q.tag IS ?1 AND q.session_id = ?3 AND q.name > ?4
             ORDER BY q.name, q.id",
            (tag, tx.now, session, name),
            visit,
        ),
    }
}
