//! Labels of instances: they are in the row, which every turn writes in any case.

use duroxide_core::provider::Labelling;
use duroxide_core::{LabelChange, Labels};

use super::error::Result;
use super::pause::{find, replace};
use super::rows::InstanceRow;
use crate::EventStore;

pub(super) async fn of<S: EventStore>(store: &S, instance: &str) -> Result<Labels> {
    let found = find(store, instance).await?;
    Ok(found.map(|found| found.row.labels).unwrap_or_default())
}

pub(super) async fn change<S: EventStore>(
    store: &S,
    instance: &str,
    changes: &[LabelChange],
) -> Result<Labelling> {
    loop {
        let Some(found) = find(store, instance).await? else {
            return Ok(Labelling::NoSuchInstance);
        };
        let outcome = Labelling::of(found.row.labels.clone(), changes);
        let Labelling::Done(labels) = &outcome else {
            return Ok(outcome);
        };
        let row = InstanceRow {
            labels: labels.clone(),
            ..found.row.clone()
        };
        // A turn that wrote the row meanwhile has its say first.
        if replace(store, instance, &found, &row, None).await? {
            return Ok(outcome);
        }
    }
}
