//! Nodes on this store: one entry each, written every few seconds.

use duroxide_core::provider::{NodeInfo, NodeTerm, SeenNode};
use serde::{Deserialize, Serialize};

use super::error::Result;
use super::names::NODES;
use super::{ms, rows};
use crate::EventStore;
use crate::atomic::{Batch, Operation};

#[derive(Debug, Serialize, Deserialize)]
struct NodeRow {
    node: NodeInfo,
    seen_at: u64,
    gone_at: u64,
    forget_at: u64,
}

/// Keeps what a node says of itself, and forgets those that were gone for too long.
pub(super) async fn announce<S: EventStore>(
    store: &S,
    node: &NodeInfo,
    term: NodeTerm,
) -> Result<()> {
    let now = store.now_ms();
    let gone_at = now.saturating_add(ms(term.gone_after));
    let row = NodeRow {
        node: node.clone(),
        seen_at: now,
        gone_at,
        forget_at: gone_at.saturating_add(ms(term.forgotten_after)),
    };
    let mut operations = vec![Operation::Put {
        scope: NODES.to_owned(),
        key: node.id.clone(),
        value: rows::encode(&row)?,
    }];
    for entry in store.entries(NODES).await? {
        let read = serde_json::from_slice::<NodeRow>(&entry.value);
        if entry.key != node.id && read.is_ok_and(|row| row.forget_at <= now) {
            operations.push(Operation::Delete {
                scope: NODES.to_owned(),
                key: entry.key,
            });
        }
    }
    store.commit(Batch::of(operations)).await?;
    Ok(())
}

pub(super) async fn forget<S: EventStore>(store: &S, id: &str) -> Result<()> {
    let delete = Operation::Delete {
        scope: NODES.to_owned(),
        key: id.to_owned(),
    };
    store.commit(Batch::of([delete])).await?;
    Ok(())
}

/// All that are not forgotten, by name. What cannot be read is left out: a later build may say more.
pub(super) async fn list<S: EventStore>(store: &S) -> Result<Vec<SeenNode>> {
    let now = store.now_ms();
    let entries = store.entries(NODES).await?.into_iter();
    let rows = entries.filter_map(|it| serde_json::from_slice::<NodeRow>(&it.value).ok());
    let kept = rows.filter(|row| row.forget_at > now);
    let mut nodes: Vec<_> = kept
        .map(|row| SeenNode::new(row.node, row.seen_at, row.gone_at <= now))
        .collect();
    nodes.sort_by(|a, b| (&a.node.name, &a.node.id).cmp(&(&b.node.name, &b.node.id)));
    Ok(nodes)
}
