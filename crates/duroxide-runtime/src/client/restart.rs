//! An instance once more, under another id. In: the id of one that has a history. Out: a start of the other.

use duroxide_core::provider::{InstanceSummary, StartRule, Submission, Submitted};
use duroxide_core::{EventKind, LABELS_MAX, StartExtras, labels_after};

use super::audit::Change;
use super::start::{NewStart, asked_once};
use super::{Client, ClientError};

impl Client {
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
        let submission = self.restart(instance, new_id).await?;
        if let Submitted::Refused(_) = self.submit(submission).await? {
            return Err(ClientError::invalid(format!(
                "instance {new_id} exists; choose another id"
            )));
        }
        self.audit(Change::of("restart", instance).with_detail(new_id));
        Ok(())
    }

    /// The same for the life that a query saw; `false` if the new id is taken or another life has the id.
    pub(super) async fn restart_life(
        &self,
        one: &InstanceSummary,
        new_id: &str,
    ) -> Result<bool, ClientError> {
        let id = one.instance_id.as_str();
        let submission = self.restart(id, new_id).await?;
        // A life that has gone does not come back: what was read since the query saw it was its history.
        if !self.is_still(one).await? {
            return Ok(false);
        }
        if let Submitted::Refused(_) = self.submit(submission).await? {
            return Ok(false);
        }
        self.audit(Change::of("restart", id).with_detail(new_id));
        Ok(true)
    }

    /// The start of another instance as this one began.
    async fn restart(&self, instance: &str, new_id: &str) -> Result<Submission, ClientError> {
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
        let rule = StartRule::MustBeNew;
        Ok(Submission::start(start, None, rule, Vec::new()))
    }
}
