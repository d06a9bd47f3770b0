//! The outbox of applications: messages that they left in transactions of their own (table `arrivals`). In: that there
//! are some. Out: they are in the queue, in their order. Never: two moves at once.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::unreadable;
use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::error::{PgError, Result};

/// How many one transaction moves.
const MOVED_MAX: i32 = 256;
/// How long a node waits for another one that moves them, or for a server that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// How long it waits if the table itself cannot be read: nothing of it can be put to rest then.
const RETRY_UNREADABLE: Duration = Duration::from_secs(5);

/// The move from the outbox to the queue, if one is under way.
#[derive(Default)]
pub(super) struct Outbox {
    moving: Option<BoxFuture<'static, Received>>,
}

/// A move has ended.
#[derive(Clone, Copy)]
pub(super) struct Received {
    /// Whether it moved anything.
    pub(super) any: bool,
    /// The last known time of the server before it began.
    pub(super) from: i64,
}

impl Outbox {
    /// There are messages: begins a move, unless one is under way.
    pub(super) fn receive(&mut self, db: &Arc<Db>) {
        if self.moving.is_none() {
            let (db, from) = (Arc::clone(db), db.expected.last());
            self.moving = Some(Box::pin(async move {
                let any = receive(db).await;
                Received { any, from }
            }));
        }
    }

    /// Waits for the end of the move; for ever if none is under way.
    pub(super) async fn received(&mut self) -> Received {
        let received = match &mut self.moving {
            Some(moving) => moving.await,
            None => std::future::pending().await,
        };
        self.moving = None;
        received
    }
}

/// Moves all there is; whether it moved anything.
async fn receive(db: Arc<Db>) -> bool {
    let mut moved_any = false;
    loop {
        match receive_some(&db).await {
            Ok(MOVED_MAX) => moved_any = true,
            Ok(moved) if moved >= 0 => return moved_any || moved > 0,
            Ok(_) => tokio::time::sleep(RETRY_AFTER).await,
            Err(PgError::Unreadable { .. }) if unreadable::rest_arrivals(&db, MOVED_MAX).await => {}
            Err(error @ PgError::Unreadable { .. }) => {
                tracing::error!(target: "duroxide::providers::postgres", code = error.code(), %error, "messages of applications cannot be moved to the queue until their table is repaired");
                tokio::time::sleep(RETRY_UNREADABLE).await;
                return moved_any;
            }
            Err(error) => {
                tracing::debug!(target: "duroxide::providers::postgres", %error, "messages of applications could not be moved to the queue yet");
                tokio::time::sleep(RETRY_AFTER).await;
                return moved_any;
            }
        }
    }
}

async fn receive_some(db: &Db) -> Result<i32> {
    let call = Call::new("receive_arrivals")
        .int(db.expected.now())
        .small(MOVED_MAX);
    let rows = db.transact(&[call]).await?;
    match rows.first().and_then(|rows| rows.first()) {
        Some(row) => Ok(row.try_get(0)?),
        None => Ok(0),
    }
}
