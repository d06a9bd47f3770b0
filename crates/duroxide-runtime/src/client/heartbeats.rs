//! What activities say about their progress, as the store has it.

use duroxide_core::codec;
use duroxide_core::provider::ScheduledActivityIdentifier;
use serde::de::DeserializeOwned;

use super::{Client, ClientError};
use crate::leases::Heartbeats;

impl Client {
    /// What a call of an activity said last with [`heartbeat`](crate::ActivityContext::heartbeat), whether it still
    /// runs or not. `activity_id` is the scheduling event of its first attempt.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the details are not of this type, else what the store says.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), duroxide::ClientError> {
    /// use duroxide::providers::memory::MemoryProvider;
    /// use duroxide::{Client, ScheduledActivityIdentifier};
    /// use std::sync::Arc;
    ///
    /// let client = Client::new(Arc::new(MemoryProvider::new()));
    /// let call = ScheduledActivityIdentifier { instance: "import-7".into(), execution_id: 1, activity_id: 2 };
    /// assert_eq!(client.last_heartbeat::<u64>(&call).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn last_heartbeat<T: DeserializeOwned>(
        &self,
        call: &ScheduledActivityIdentifier,
    ) -> Result<Option<T>, ClientError> {
        let Some(text) = self.store.last_heartbeat(call).await? else {
            return Ok(None);
        };
        codec::decode(&text).map(Some).map_err(|error| {
            ClientError::invalid(format!("the last heartbeat does not decode: {error}"))
        })
    }

    /// Whether the activity of these heartbeats still has its lease.
    pub(crate) async fn confirm(&self, heartbeats: &Heartbeats) -> Result<(), ClientError> {
        Ok(heartbeats.confirm(self.store.as_ref()).await?)
    }
}
