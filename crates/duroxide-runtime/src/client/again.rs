//! Doing something once more: dead letters back into their queue, an instance under another id.

use duroxide_core::provider::DeadLetter;
use duroxide_core::{EventKind, WorkItem};

use super::{Client, ClientError};

impl Client {
    /// Puts a dead letter back into its queue, and forgets the letter; returns whether it existed.
    ///
    /// The message is sent before the letter is forgotten: if this process dies between the two, both exist, and the letter can be
    /// deleted. The message is a new one, whose attempts are counted from nothing.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the message cannot be read, `ManagementNotAvailable`, or what the store says.
    pub async fn requeue_dead_letter(&self, id: u64) -> Result<bool, ClientError> {
        let letters = self.admin()?.list_dead_letters(u32::MAX).await?;
        let Some(letter) = letters.into_iter().find(|letter| letter.id == id) else {
            return Ok(false);
        };
        let item = message_of(&letter)?;
        match item {
            WorkItem::ActivityExecute { .. } => self.store.enqueue_for_worker(item).await?,
            other => self.store.enqueue_for_orchestrator(other, None).await?,
        }
        self.admin()?.delete_dead_letter(id).await?;
        tracing::info!(target: "duroxide::runtime", id, instance_id = ?letter.instance_id, "requeued dead letter");
        Ok(true)
    }

    /// Starts a new instance with the handler, the version and the input that the current execution of another one began with. The
    /// other one stays as it is.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::{Client, ClientError};
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let restarted = client.restart_as("order-7", "order-7-again").await;
    /// assert!(matches!(restarted, Err(ClientError::InstanceNotFound { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InstanceNotFound` if the store knows no history of it, `InvalidInput` if the new id is taken or not valid, or what the store
    /// says.
    pub async fn restart_as(&self, instance: &str, new_id: &str) -> Result<(), ClientError> {
        let history = self.store.read(instance).await?;
        let began = history.into_iter().find_map(|event| match event.kind {
            EventKind::OrchestrationStarted {
                name,
                version,
                input,
                ..
            } => Some((name, version, input)),
            _ => None,
        });
        let Some((name, version, input)) = began else {
            return Err(ClientError::InstanceNotFound {
                instance_id: instance.to_owned(),
            });
        };
        if self.store.read_outcome(new_id).await?.is_some() {
            return Err(ClientError::invalid(format!(
                "instance {new_id} exists; choose another id"
            )));
        }
        self.start_orchestration_versioned(new_id, name, version, input)
            .await
    }
}

fn message_of(letter: &DeadLetter) -> Result<WorkItem, ClientError> {
    serde_json::from_str(&letter.payload).map_err(|error| {
        let id = letter.id;
        ClientError::invalid(format!(
            "dead letter {id} cannot be read and cannot be requeued: {error}"
        ))
    })
}
