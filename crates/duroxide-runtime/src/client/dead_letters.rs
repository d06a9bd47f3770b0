//! Dead letters, as operators handle them. In: ids of letters, or how many to list. Out: the letters, or each put back
//! into its queue or deleted, with a line in the audit trail.

use duroxide_core::WorkItem;
use duroxide_core::provider::{DeadLetter, Requeue};

use super::audit::Change;
use super::{Client, ClientError};

impl Client {
    /// Dead letters: messages that did not decode or were tried too often.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn list_dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, ClientError> {
        Ok(self.admin()?.list_dead_letters(limit).await?)
    }

    /// One dead letter; `None` if there is none with this number.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn get_dead_letter(&self, id: u64) -> Result<Option<DeadLetter>, ClientError> {
        Ok(self.admin()?.get_dead_letter(id).await?)
    }

    /// How many dead letters there are.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn count_dead_letters(&self) -> Result<u64, ClientError> {
        Ok(self.admin()?.count_dead_letters().await?)
    }

    /// Forgets one dead letter; returns whether it existed.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn delete_dead_letter(&self, id: u64) -> Result<bool, ClientError> {
        let was_there = self.admin()?.delete_dead_letter(id).await?;
        if was_there {
            let detail = format!("dead letter {id}");
            self.audit(Change::of("delete-dead-letter", "").with_detail(&detail));
        }
        Ok(was_there)
    }

    /// Puts a dead letter back into its queue, and forgets it there; returns whether it existed.
    ///
    /// The message is a new one, whose attempts are counted from nothing. It does not reach a later instance of the
    /// same id, and an operation that got its failure is not done again: both are refused. A store that cannot
    /// do it in one step (the default of
    /// [`ProviderAdmin::requeue_dead_letter`](duroxide_core::provider::ProviderAdmin::requeue_dead_letter)) makes
    /// neither check, and the message is sent before the dead letter is forgotten.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the message cannot be read or must not be delivered, `ManagementNotAvailable`, or what the
    /// store says.
    pub async fn requeue_dead_letter(&self, id: u64) -> Result<bool, ClientError> {
        let was_there = match self.admin()?.requeue_dead_letter(id).await? {
            Some(Requeue::Done) => true,
            Some(Requeue::NoSuchDeadLetter) => false,
            Some(Requeue::Refused { why }) => {
                return Err(ClientError::invalid(format!(
                    "dead letter {id} stays: {why}"
                )));
            }
            None => self.send_and_forget(id).await?,
        };
        if was_there {
            tracing::info!(target: "duroxide::runtime", id, "requeued dead letter");
            let detail = format!("dead letter {id}");
            self.audit(Change::of("requeue-dead-letter", "").with_detail(&detail));
        }
        Ok(was_there)
    }

    /// Requeues a dead letter in two steps.
    async fn send_and_forget(&self, id: u64) -> Result<bool, ClientError> {
        let Some(letter) = self.admin()?.get_dead_letter(id).await? else {
            return Ok(false);
        };
        let item = message_of(&letter)?;
        match item {
            WorkItem::ActivityExecute { .. } => self.store.enqueue_for_worker(item).await?,
            other => self.store.enqueue_for_orchestrator(other, None).await?,
        }
        Ok(self.admin()?.delete_dead_letter(id).await?)
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
