//! Sessions, which keep activities on one worker. In: their owners. Out: how many were renewed or removed.

use std::time::Duration;

use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::store::Store;
use crate::text;
use crate::time::duration_ms;

impl Store {
    pub(crate) async fn renew_sessions(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize> {
        let owners: Vec<String> = owners.iter().map(|&owner| text::owned(owner)).collect();
        let call = Call::new("renew_sessions")
            .int(self.expected())
            .texts(owners.iter().map(String::as_str))
            .int(duration_ms(extend_for))
            .int(duration_ms(idle_timeout));
        let renewed: i64 = self.one(call).await?;
        // Negative: another transaction holds one of them. The others are renewed, and the caller asks again.
        usize::try_from(renewed).map_err(|_| PgError::held())
    }

    /// Removes the sessions whose lease ran out and that have no work.
    pub(crate) async fn remove_idle_sessions(&self) -> Result<usize> {
        let call = Call::new("cleanup_sessions").int(self.expected());
        let gone: i64 = self.one(call).await?;
        Ok(usize::try_from(gone).unwrap_or(0))
    }
}
