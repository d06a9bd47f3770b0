//! Brings an instance into the store as a snapshot tells it: all of it or nothing, and only if nothing of the id is there.

use std::collections::HashSet;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{InstanceSnapshot, Restoring};

use crate::error::Result;
use crate::kill;
use crate::tables::whole_instance::{self, Position};
use crate::tables::{closing, instances};
use crate::tx::{InstanceChange, Tx};
use crate::writer_tx::WriterTx;

pub(crate) fn restore(
    tx: &mut WriterTx<'_>,
    snapshot: &InstanceSnapshot,
    closed: Option<&str>,
) -> Result<Restoring> {
    let instance = &snapshot.instance_id;
    if let Err(why) = snapshot.check() {
        let what = format!("the snapshot of {instance}");
        return Err(Refusal::Unstorable { what, why }.into());
    }
    let reason = closing::reason(tx)?;
    if reason.as_deref() != closed {
        return Ok(Restoring::Unexpected(reason));
    }
    if whole_instance::is_held(tx, instance)? {
        return Ok(Restoring::Exists);
    }
    tx.writer().recent.forget(instance);
    whole_instance::write(tx, snapshot)?;
    kill::point("before_restore");
    tx.effects
        .instance_changed(instance, InstanceChange::Unknown);
    Ok(Restoring::Done)
}

/// Snapshots of an instance and its descendants, parents first, also of those that have not begun. One transaction sees one state.
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
        let why = "no page told it".to_owned();
        Refusal::Unstorable { what, why }.into()
    })
}
