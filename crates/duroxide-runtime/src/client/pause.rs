//! Pausing instances and resuming them. In: an id. Out: whether the store did it, and a line in the audit trail.

use duroxide_core::provider::{Pausing, ProviderError};

use super::audit::Change;
use super::{Client, ClientError};

impl Client {
    /// Pauses an instance: its messages are kept, and no turn and no activity of it begins until
    /// [`resume_instance`](Self::resume_instance). Returns whether that changed anything.
    ///
    /// A turn or an activity that a node has begun finishes. Timers that become due, signals and results wait; so does
    /// a request to cancel. [`terminate_instance`](Self::terminate_instance) ends a paused instance at once. Children
    /// are instances of their own and go on. The pause outlives crashes and continue-as-new, and ends with the
    /// instance.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::{Client, ClientError};
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let paused = client.pause_instance("order-7").await;
    /// assert!(matches!(paused, Err(ClientError::InstanceNotFound { .. })), "no node has begun it");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InstanceNotFound` if no node has begun it, `InvalidInput` if it has ended, `ManagementNotAvailable`, or what
    /// the store says.
    pub async fn pause_instance(&self, instance: &str) -> Result<bool, ClientError> {
        let answer = self.admin()?.pause_instance(instance).await?;
        let changed = answered(answer, instance, "pause")?;
        if changed {
            self.audit(Change::of("pause", instance));
        }
        Ok(changed)
    }

    /// Ends a pause: what waited goes on at once, in its order. Returns whether that changed anything.
    ///
    /// # Errors
    ///
    /// As [`pause_instance`](Self::pause_instance).
    pub async fn resume_instance(&self, instance: &str) -> Result<bool, ClientError> {
        let answer = self.admin()?.resume_instance(instance).await?;
        let changed = answered(answer, instance, "resume")?;
        if changed {
            self.audit(Change::of("resume", instance));
        }
        Ok(changed)
    }
}

fn answered(
    answer: Option<Pausing>,
    instance: &str,
    verb: &'static str,
) -> Result<bool, ClientError> {
    match answer {
        Some(Pausing::Done) => Ok(true),
        Some(Pausing::Unchanged) => Ok(false),
        Some(Pausing::NoSuchInstance) => Err(ClientError::InstanceNotFound {
            instance_id: instance.to_owned(),
        }),
        Some(Pausing::Ended) => Err(ClientError::invalid(format!(
            "instance {instance} has ended; there is nothing to {verb}"
        ))),
        Some(other) => Err(ClientError::invalid(format!(
            "the store answered {other:?} to {verb}"
        ))),
        None => Err(ClientError::Provider(ProviderError::permanent(
            verb,
            "this store cannot pause instances",
        ))),
    }
}
