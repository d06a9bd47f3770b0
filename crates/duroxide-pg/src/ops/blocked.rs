//! What nodes noted of instances that they cannot go on with. A function of the schema writes it under the lease of a
//! turn; this file calls it and reads.

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{BlockNote, BlockedInstance};
use tokio_postgres::types::Type;

use crate::codec::unsigned;
use crate::connection::call::Call;
use crate::error::Result;
use crate::ops::query::conditions::BLOCKED;
use crate::store::Store;
use crate::text;
use crate::time::shown_ms;
use crate::token;

impl Store {
    pub(crate) async fn note_block(
        &self,
        lock_token: &str,
        blocked: &BlockedInstance,
        node: &str,
    ) -> Result<bool> {
        let held = token::turn(lock_token)?;
        self.store_lease(held.random).await?;
        let id = text::owned(held.instance);
        let (name, report) = (
            text::owned(&blocked.orchestration_name),
            text::owned(&blocked.report),
        );
        let node = text::owned(node);
        let call = Call::new("note_blocked")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .text(&name)
            .text(&report)
            .int(i64::from(blocked.attempts))
            .text(&node);
        let is_noted: Option<bool> = self.one(call).await?;
        Ok(is_noted.ok_or(Refusal::InvalidToken)?)
    }

    pub(crate) async fn block_note_of(&self, instance: &str) -> Result<Option<BlockNote>> {
        let id = text::owned(instance);
        let sql = format!(
            "SELECT b.execution_id, b.attempts, b.name, b.report, b.node, b.noted_at FROM {{s}}.blocked AS b
             JOIN {{current}} ON i.instance_id = b.instance_id WHERE b.instance_id = $1 AND EXISTS ({BLOCKED})"
        );
        let rows = self.ask_one(&sql, &[(&id, Type::TEXT)]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let attempts = unsigned(row, 1)?;
        let blocked = BlockedInstance {
            instance_id: instance.to_owned(),
            execution_id: unsigned(row, 0)?,
            orchestration_name: text::shown(row.try_get(2)?),
            report: text::shown(row.try_get(3)?),
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        };
        let node = text::shown(row.try_get(4)?);
        Ok(Some(BlockNote::new(
            blocked,
            node,
            shown_ms(row.try_get(5)?),
        )))
    }
}
