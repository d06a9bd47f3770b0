//! Families as data, and where a page of ids begins. `restore.rs` is the way back.

use std::collections::HashSet;

use duroxide_core::provider::InstanceSnapshot;
use duroxide_core::provider::rules::Refusal;

use crate::error::Result;
use crate::tables::instances;
use crate::tables::whole_instance::{self, Position};
use crate::tx::Tx;

/// Snapshots of an instance and its descendants, parents first, also of those that have not begun. One transaction sees
/// one state.
pub(crate) fn family(tx: &Tx<'_>, root: &str) -> Result<Vec<InstanceSnapshot>> {
    let mut found = vec![root.to_owned()];
    // A parent link that leads in a circle cannot be written by the engine, but a person with a shell can.
    let mut seen = HashSet::from([root.to_owned()]);
    let mut family = Vec::new();
    let mut at = 0;
    while let Some(id) = found.get(at) {
        let snapshot = whole_instance::read(tx, id)?;
        let mut kin = instances::children(tx, id)?;
        for child in snapshot.awaited_children() {
            // One that has begun is a child, or another instance of that id.
            if instances::current_execution(tx, &child)?.is_none() {
                kin.push(child);
            }
        }
        kin.retain(|child| seen.insert(child.clone()));
        if !snapshot.is_empty() {
            family.push(snapshot);
        }
        found.extend(kin);
        at += 1;
    }
    Ok(family)
}

/// Where a page of ids begins.
pub(crate) fn position(after: Option<&str>) -> Result<Position> {
    let Some(text) = after else {
        return Ok(Position::Instance(0));
    };
    Position::parse(text).ok_or_else(|| {
        let what = format!("the position `{text}`");
        let why = "no page returned it".to_owned();
        Refusal::Unstorable { what, why }.into()
    })
}
