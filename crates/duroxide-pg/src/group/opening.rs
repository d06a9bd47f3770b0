//! That this process runs turns, noted in the store (table `openings`). In: its first claim of turns. Out: from when on
//! starts may be handed out early.
//!
//! A process that is listed may have ended uncleanly, and the start that ended it may come again: beside one, starts
//! are stored before they are tried, for [`CAUTION`]. So they are while this process is not listed itself. A process
//! that claims no turns can lose none and writes nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;
use uuid::Uuid;

use super::early::CAUTION;
use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::error::Result;

/// How long the end of a store waits until the end is noted.
const FORGETTING_PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Opening {
    id: Uuid,
    state: State,
}

enum State {
    /// Nobody claimed yet, or the store could not be told; then not before this time again.
    Unnoted(Instant),
    Noting(BoxFuture<'static, Result<bool>>),
    Noted,
}

impl Opening {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            id: Uuid::new_v4(),
            state: State::Unnoted(now),
        }
    }

    /// A dispatcher of this process claims turns.
    pub(super) fn claimed(&mut self, db: &Arc<Db>, now: Instant) {
        if matches!(&self.state, State::Unnoted(from) if *from <= now) {
            self.state = State::Noting(note(Arc::clone(db), self.id).boxed());
        }
    }

    /// From when on starts may be handed out early, once that is known.
    pub(super) async fn starts_from(&mut self) -> Instant {
        let State::Noting(noting) = &mut self.state else {
            return std::future::pending().await;
        };
        let noted = noting.await;
        let now = Instant::now();
        match noted {
            Ok(is_beside_others) => {
                self.state = State::Noted;
                if is_beside_others { now + CAUTION } else { now }
            }
            Err(error) => {
                tracing::debug!(target: "duroxide::providers::postgres", %error, "an opening could not be noted");
                self.state = State::Unnoted(now + CAUTION);
                std::future::pending().await
            }
        }
    }

    /// This process ends cleanly. A server that does not answer soon is not waited for: the next process is careful for
    /// a minute.
    pub(super) async fn forget(self, db: &Db) {
        let forgetting = async {
            match self.state {
                State::Unnoted(_) => return true,
                // The note must not arrive after this.
                State::Noting(noting) => drop(noting.await),
                State::Noted => {}
            }
            let call = [Call::new("forget_opening").uuid(self.id)];
            db.transact(&call).await.is_ok()
        };
        let forgotten = tokio::time::timeout(FORGETTING_PATIENCE, forgetting).await;
        if forgotten != Ok(true) {
            tracing::debug!(target: "duroxide::providers::postgres", "a clean end could not be noted");
        }
    }
}

/// Lists this process; whether others are listed.
async fn note(db: Arc<Db>, id: Uuid) -> Result<bool> {
    let rows = db.transact(&[Call::new("note_opening").uuid(id)]).await?;
    match rows.into_iter().flatten().next() {
        Some(row) => Ok(row.try_get(0)?),
        None => Ok(true),
    }
}
