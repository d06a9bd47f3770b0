//! Nodes on this store: each writes its row every few seconds, operators read them.

use std::time::Duration;

use duroxide_core::provider::{NodeInfo, NodeTerm, SeenNode};

use crate::args::Call;
use crate::error::{PgError, Result};
use crate::provider::PostgresProvider;
use crate::text;
use crate::time::shown_ms;

/// Longer than any node is believed in; sums of it stay in range.
const LONGEST_MS: i64 = 1 << 50;

impl PostgresProvider {
    pub(crate) async fn node_announced(&self, node: &NodeInfo, term: NodeTerm) -> Result<()> {
        let json = serde_json::to_string(node).map_err(|error| PgError::Database {
            why: format!("a node cannot be written: {error}"),
        })?;
        let ms = |time: Duration| {
            i64::try_from(time.as_millis()).map_or(LONGEST_MS, |ms| ms.min(LONGEST_MS))
        };
        let (id, info) = (text::owned(&node.id), text::owned(&json));
        let call = Call::new("announce_node")
            .int(self.expected())
            .text(&id)
            .text(&info)
            .int(ms(term.gone_after))
            .int(ms(term.forgotten_after));
        let _: i32 = self.store.one(call).await?;
        Ok(())
    }

    pub(crate) async fn node_forgotten(&self, id: &str) -> Result<()> {
        let id = text::owned(id);
        let _: i32 = self.store.one(Call::new("forget_node").text(&id)).await?;
        Ok(())
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
