//! Nodes on this store: written by each every few seconds, read by operators.

use duroxide_core::provider::{NodeInfo, NodeTerm, SeenNode};

use crate::error::Result;
use crate::tx::{Tx, shown_ms};

/// Keeps what a node says of itself, and forgets those that were gone for too long.
pub(crate) fn announce(tx: &Tx<'_>, id: &str, info: &str, term: NodeTerm) -> Result<()> {
    let ms = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let gone_at = tx.now.saturating_add(ms(term.gone_after));
    let forget_at = gone_at.saturating_add(ms(term.forgotten_after));
    tx.execute(
        "INSERT INTO nodes (id, info, seen_at, gone_at, forget_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (id) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at,
             gone_at = excluded.gone_at, forget_at = excluded.forget_at",
        (id, info, tx.now, gone_at, forget_at),
    )?;
    tx.execute("DELETE FROM nodes WHERE forget_at <= ?1", [tx.now])?;
    Ok(())
}

pub(crate) fn forget(tx: &Tx<'_>, id: &str) -> Result<()> {
    tx.execute("DELETE FROM nodes WHERE id = ?1", [id])?;
    Ok(())
}

/// All that are not forgotten, by name. What cannot be read is left out: a later build may say more.
pub(crate) fn list(tx: &Tx<'_>) -> Result<Vec<SeenNode>> {
    let rows = tx.all(
        "SELECT info, seen_at, gone_at <= ?1 FROM nodes WHERE forget_at > ?1",
        [tx.now],
        |row| {
            let (info, seen_at): (String, i64) = (row.get(0)?, row.get(1)?);
            Ok((info, shown_ms(seen_at), row.get::<_, bool>(2)?))
        },
    )?;
    let seen = |(info, seen_at, is_gone): (String, u64, bool)| {
        let node: NodeInfo = serde_json::from_str(&info).ok()?;
        Some(SeenNode::new(node, seen_at, is_gone))
    };
    let mut nodes: Vec<_> = rows.into_iter().filter_map(seen).collect();
    nodes.sort_by(|a, b| (&a.node.name, &a.node.id).cmp(&(&b.node.name, &b.node.id)));
    Ok(nodes)
}
