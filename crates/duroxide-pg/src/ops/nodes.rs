//! Nodes on this store: each writes its row every few seconds, operators read them. And duties, which one of them at a
//! time has.

use std::time::Duration;

use duroxide_core::provider::{NodeInfo, NodeTerm, SeenNode};

use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::store::Store;
use crate::text;
use crate::time::shown_ms;

/// Longer than any node is believed in; sums of it stay in range.
const LONGEST_MS: i64 = 1 << 50;

fn in_range(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).map_or(LONGEST_MS, |ms| ms.min(LONGEST_MS))
}

impl Store {
    pub(crate) async fn node_announced(&self, node: &NodeInfo, term: NodeTerm) -> Result<()> {
        let json = serde_json::to_string(node).map_err(|error| PgError::Database {
            why: format!("a node cannot be written: {error}"),
        })?;
        let (id, info) = (text::owned(&node.id), text::owned(&json));
        let call = Call::new("announce_node")
            .int(self.expected())
            .text(&id)
            .text(&info)
            .int(in_range(term.gone_after))
            .int(in_range(term.forgotten_after));
        let _: i32 = self.one(call).await?;
        Ok(())
    }

    pub(crate) async fn node_forgotten(&self, id: &str) -> Result<()> {
        let id = text::owned(id);
        let _: i32 = self.one(Call::new("forget_node").text(&id)).await?;
        Ok(())
    }

    /// Takes or keeps a duty for a while, or gives it back; whether the holder has it.
    pub(crate) async fn duty_held(&self, duty: &str, holder: &str, time: Duration) -> Result<bool> {
        let (duty, holder) = (text::owned(duty), text::owned(holder));
        let call = Call::new("hold_duty")
            .int(self.expected())
            .text(&duty)
            .text(&holder)
            .int(in_range(time));
        self.one(call).await
    }

    /// All that are not forgotten, by name. What cannot be read is left out: a later build may say more.
    pub(crate) async fn nodes(&self) -> Result<Vec<SeenNode>> {
        let rows = self
            .ask(
                "WITH t AS MATERIALIZED (SELECT {now} AS now)
                 SELECT n.info, n.seen_at, n.gone_at <= t.now FROM {s}.nodes AS n CROSS JOIN t WHERE n.forget_at > t.now",
                &[],
            )
            .await?;
        let mut nodes = Vec::with_capacity(rows.len());
        for row in &rows {
            let info = text::shown(row.try_get(0)?);
            if let Ok(node) = serde_json::from_str::<NodeInfo>(&info) {
                nodes.push(SeenNode::new(
                    node,
                    shown_ms(row.try_get(1)?),
                    row.try_get(2)?,
                ));
            }
        }
        nodes.sort_by(|a, b| (&a.node.name, &a.node.id).cmp(&(&b.node.name, &b.node.id)));
        Ok(nodes)
    }
}
