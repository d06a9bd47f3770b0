//! What activities say about their progress: kept with the renewal of the lease, read by the next attempt. In: a lock
//! token, or a call. Out: whether it was kept, or what was said last.

use std::time::Duration;

use duroxide_core::provider::ScheduledActivityIdentifier;
use tokio_postgres::types::Type;

use crate::calls::verdict::Verdict;
use crate::codec;
use crate::connection::call::Call;
use crate::error::Result;
use crate::store::Store;
use crate::text;
use crate::time::duration_ms;
use crate::token;

impl Store {
    /// Extends the lease and keeps what the activity said; `false` if its execution is gone.
    pub(crate) async fn heartbeat(
        &self,
        lock_token: &str,
        extend_for: Duration,
        call_id: u64,
        details: &str,
    ) -> Result<bool> {
        let held = token::work(lock_token)?;
        let details = text::owned(details);
        let call = Call::new("heartbeat_work")
            .int(self.expected())
            .int(held.id)
            .uuid(held.random)
            .int(duration_ms(extend_for))
            .int(codec::number("activity", call_id)?)
            .text(&details);
        match self.one(call).await? {
            Verdict::Gone => Ok(false),
            verdict => verdict.of_work().map(|()| true),
        }
    }

    pub(crate) async fn last_heartbeat(
        &self,
        call: &ScheduledActivityIdentifier,
    ) -> Result<Option<String>> {
        let id = text::owned(&call.instance);
        let execution = codec::number("execution", call.execution_id)?;
        let call_id = codec::number("activity", call.activity_id)?;
        let rows = self
            .db
            .rows(
                "SELECT details FROM {s}.heartbeats
                 WHERE instance_id = $1 AND execution_id = $2 AND call_id = $3",
                &[
                    (&id, Type::TEXT),
                    (&execution, Type::INT8),
                    (&call_id, Type::INT8),
                ],
            )
            .await?;
        match rows.first() {
            Some(row) => Ok(Some(text::shown(row.try_get(0)?))),
            None => Ok(None),
        }
    }
}
