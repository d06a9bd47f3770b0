//! Work on many instances that goes on behind one that fails. In: what the store said about one of them. Out: whether
//! that is about this one alone.

use std::time::Duration;

use duroxide_core::provider::{ProviderAdmin, ProviderError};

/// A duty that nobody has, taken and given back to see whether the store can write.
const PROBE: &str = "duroxide:probe";
const PROBE_FOR: Duration = Duration::from_secs(1);

/// So many instances may fail one after the other; more are no defect of theirs, but of the store.
const FAILURES_MAX: usize = 100;

/// Failures about one instance each, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    in_a_row: usize,
}

impl Failures {
    /// Whether this one is about its instance alone; an error if it is not, and ends the work: the store is closed, or
    /// out of reach, or fails about one instance after the other. What a store cannot read of an instance may be
    /// retryable too, because it fails what shares its transaction.
    pub(crate) async fn is_of_one(
        &mut self,
        admin: &dyn ProviderAdmin,
        error: &ProviderError,
    ) -> Result<(), ProviderError> {
        if error.is_store_closed() {
            return Err(error.clone());
        }
        if !error.is_retryable() {
            return Ok(());
        }
        self.in_a_row += 1;
        if self.in_a_row > FAILURES_MAX {
            return Err(error.clone());
        }
        // A look at no instance, and a write about none: a store that is out of reach does not answer the first one,
        // and one that cannot write, because its disk is full or another program holds its lock, not the second.
        admin.closed_because().await?;
        admin.hold_duty(PROBE, PROBE, PROBE_FOR).await?;
        admin.hold_duty(PROBE, PROBE, Duration::ZERO).await?;
        Ok(())
    }

    /// The store did something.
    pub(crate) fn end(&mut self) {
        self.in_a_row = 0;
    }
}
