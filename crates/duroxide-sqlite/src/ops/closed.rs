//! What becomes of requests while the store is closed. In: a step of the writer. Out: the same step, refused while that
//! is so.

use crate::error::Result;
use crate::tables::closing;
use crate::writer_tx::WriterTx;

/// A step that is refused while the store is closed.
pub(crate) fn while_open<T>(
    mut step: impl FnMut(&mut WriterTx<'_>) -> Result<T>,
) -> impl FnMut(&mut WriterTx<'_>) -> Result<T> {
    move |tx: &mut WriterTx<'_>| {
        closing::check(tx)?;
        step(tx)
    }
}
