//! Changes labels by an operator: all together or none.

use duroxide_core::LabelChange;
use duroxide_core::provider::Labelling;

use crate::error::Result;
use crate::tables::{instances, labels};
use crate::tx::Tx;

pub(crate) fn change(tx: &Tx<'_>, instance: &str, changes: &[LabelChange]) -> Result<Labelling> {
    if instances::current_execution(tx, instance)?.is_none() {
        return Ok(Labelling::NoSuchInstance);
    }
    let outcome = Labelling::of(labels::of(tx, instance)?, changes);
    if let Labelling::Done(_) = outcome {
        labels::change(tx, instance, changes)?;
    }
    Ok(outcome)
}
