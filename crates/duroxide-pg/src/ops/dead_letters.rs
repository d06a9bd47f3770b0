//! Dead letters for operators: list and delete. In: a limit or an id. Out: decoded rows. `dead_letter.rs` makes them,
//! `requeue.rs` gives them back to their queue.

use duroxide_core::provider::DeadLetter;
use tokio_postgres::types::Type;

use crate::codec::unsigned;
use crate::error::Result;
use crate::store::Store;
use crate::text::{self, Payload};
use crate::time::shown_ms;

impl Store {
    pub(crate) async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>> {
        let limit = i64::from(limit);
        let rows = self
            .ask(
                "SELECT id, queue, instance_id, payload, reason, set_aside_at FROM {s}.dead_letters ORDER BY id LIMIT $1",
                &[(&limit, Type::INT8)],
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(DeadLetter {
                    id: unsigned(row, 0)?,
                    queue: row.try_get(1)?,
                    instance_id: row.try_get::<_, Option<String>>(2)?.map(text::shown),
                    payload: row.try_get::<_, Payload>(3)?.0,
                    reason: text::shown(row.try_get(4)?),
                    dead_lettered_at_ms: shown_ms(row.try_get(5)?),
                })
            })
            .collect()
    }

    /// Deletes a dead letter; `false` if there is none of this number.
    pub(crate) async fn delete_dead_letter(&self, id: u64) -> Result<bool> {
        let Ok(id) = i64::try_from(id) else {
            return Ok(false);
        };
        let sql = "DELETE FROM {s}.dead_letters WHERE id = $1 RETURNING 1";
        let rows = self.ask(sql, &[(&id, Type::INT8)]).await?;
        Ok(!rows.is_empty())
    }
}
