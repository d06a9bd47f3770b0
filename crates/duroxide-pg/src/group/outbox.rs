//! The outbox of applications: messages that they left in transactions of their own (table `arrivals`). In: that there
//! are some. Out: they are in the queue, in their order.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::error::Result;

/// How many one transaction moves.
const MOVED_MAX: i32 = 256;
/// How long a node waits for another one that moves them, or for a server that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Moves all there is; whether it moved anything.
pub(super) async fn receive(db: Arc<Db>) -> bool {
    let mut moved_any = false;
    loop {
        match receive_some(&db).await {
            Ok(MOVED_MAX) => moved_any = true,
            Ok(moved) if moved >= 0 => return moved_any || moved > 0,
            Ok(_) => tokio::time::sleep(RETRY_AFTER).await,
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
