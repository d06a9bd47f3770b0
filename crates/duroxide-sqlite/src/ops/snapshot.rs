//! Brings an instance into the store as a snapshot tells it: all of it or nothing, and only if nothing of the id is there.

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{InstanceSnapshot, Restoring};

use crate::error::Result;
use crate::kill;
use crate::tables::whole_instance::{self, Position};
use crate::tx::InstanceChange;
use crate::writer_tx::WriterTx;

pub(crate) fn restore(tx: &mut WriterTx<'_>, snapshot: &InstanceSnapshot) -> Result<Restoring> {
    let instance = &snapshot.instance_id;
    if let Err(why) = snapshot.check() {
        let what = format!("the snapshot of {instance}");
        return Err(Refusal::Unstorable { what, why }.into());
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
