//! Doing something once more: dead letters back into their queue, an instance under another id.

use duroxide_core::provider::{DeadLetter, Requeue, StartRule, Submission, Submitted};
use duroxide_core::{EventKind, LABELS_MAX, StartExtras, WorkItem, labels_after};

use super::audit::Change;
use super::start::{NewStart, asked_once};
use super::{Client, ClientError};

impl Client {
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
            self.audit(Change::of("requeue-dead-letter", "").because(&detail));
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

    /// Starts a new instance with the handler, the version and the input that the current execution of another one
    /// began with, and with its labels, memo and time limit, which counts anew. The other one stays as it is. One that
    /// was ended before any node had its code has no version; the new instance gets the one that the nodes choose.
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
    /// `InstanceNotFound` if the store knows no history of it, `InvalidInput` if the new id is taken or not valid, or
    /// what the store says.
    pub async fn restart_as(&self, instance: &str, new_id: &str) -> Result<(), ClientError> {
        let history = self.store.read(instance).await?;
        let began = history.iter().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted {
                name,
                version,
                input,
                ..
            } => {
                let extras = StartExtras::recorded_in(&event.kind).for_another_life();
                Some((name.clone(), version.clone(), input.clone(), extras))
            }
            _ => None,
        });
        let Some((orchestration, version, input, extras)) = began else {
            return Err(ClientError::InstanceNotFound {
                instance_id: instance.to_owned(),
            });
        };
        // An instance that ended without its code may have begun without a version: the nodes choose one.
        let version = semver::Version::parse(&version).is_ok().then_some(version);
        let mut labels = labels_after(&history);
        if let Some(admin) = self.store.as_management_capability() {
            // Operator and code may have given more than one instance can begin with: the code's go first.
            let stored = admin.labels(instance).await?;
            labels.retain(|key, _| stored.contains_key(key));
            for (key, value) in stored {
                if labels.contains_key(&key) || labels.len() < LABELS_MAX {
                    labels.insert(key, value);
                }
            }
        }
        let start = NewStart {
            instance: new_id.to_owned(),
            orchestration,
            version,
            input,
            labels,
            extras: asked_once(extras),
        };
        let start = self.start_item(start)?;
        let submission = Submission::start(start, None, StartRule::MustBeNew, Vec::new());
        if let Submitted::Refused(_) = self.submit(submission).await? {
            return Err(ClientError::invalid(format!(
                "instance {new_id} exists; choose another id"
            )));
        }
        self.audit(Change::of("restart", instance).because(new_id));
        Ok(())
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
