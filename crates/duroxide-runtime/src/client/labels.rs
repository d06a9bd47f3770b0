//! Labels and memos of instances, as clients read and change them. In: an id. Out: what the store keeps; no turn runs.

use duroxide_core::provider::{InstanceCount, InstanceQuery, Labelling, ProviderError};
use duroxide_core::{LABELS_MAX, LabelChange, Labels, StartExtras, check_label};
use serde::de::DeserializeOwned;

use super::audit::Change;
use super::{Client, ClientError};

impl Client {
    /// The memo that an instance was started with; `None` if it has none, or there is no such instance. Read off its
    /// history; lists have it in [`InstanceSummary::memo`](duroxide_core::provider::InstanceSummary::memo).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), duroxide::ClientError> {
    /// use duroxide::Client;
    /// use duroxide::providers::memory::MemoryProvider;
    /// use std::sync::Arc;
    ///
    /// let client = Client::new(Arc::new(MemoryProvider::new()));
    /// assert_eq!(client.memo::<String>("order-7").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the memo is not of this type, else what the store says.
    pub async fn memo<T: DeserializeOwned>(
        &self,
        instance: &str,
    ) -> Result<Option<T>, ClientError> {
        let history = self.store.read(instance).await?;
        let first = history.first();
        let Some(text) = first.and_then(|first| StartExtras::recorded_in(&first.kind).memo) else {
            return Ok(None);
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| ClientError::invalid(format!("the memo does not decode: {error}")))
    }

    /// The labels of an instance; none if there is no such instance.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn labels(&self, instance: &str) -> Result<Labels, ClientError> {
        Ok(self.admin()?.labels(instance).await?)
    }

    /// Sets and removes labels of an instance, all together or none, whether it runs or has ended; returns what it has
    /// then. Its code does not hear of it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::{Client, ClientError, LabelChange};
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let changes = [LabelChange::set("seen-by", "night shift"), LabelChange::remove("urgent")];
    /// let labelled = client.change_labels("order-7", &changes).await;
    /// assert!(matches!(labelled, Err(ClientError::InstanceNotFound { .. })), "no node has begun it");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a label that is not fit or too many of them, `InstanceNotFound` if no node has begun the
    /// instance, `ManagementNotAvailable`, or what the store says.
    pub async fn change_labels(
        &self,
        instance: &str,
        changes: &[LabelChange],
    ) -> Result<Labels, ClientError> {
        for change in changes {
            let value = change.value.as_deref().unwrap_or_default();
            check_label(&change.key, value).map_err(ClientError::invalid)?;
        }
        match self.admin()?.change_labels(instance, changes).await? {
            Some(Labelling::Done(labels)) => {
                let words: Vec<String> = changes.iter().map(in_words).collect();
                self.audit(Change::of("label", instance).with_detail(&words.join(", ")));
                Ok(labels)
            }
            Some(Labelling::NoSuchInstance) => Err(ClientError::InstanceNotFound {
                instance_id: instance.to_owned(),
            }),
            Some(Labelling::TooMany(count)) => Err(ClientError::invalid(format!(
                "instance {instance} would have {count} labels, at most {LABELS_MAX} are allowed"
            ))),
            Some(other) => Err(ClientError::invalid(format!(
                "the store answered {other:?} to a change of labels"
            ))),
            None => Err(ClientError::Provider(ProviderError::permanent(
                "change_labels",
                "this store cannot change labels",
            ))),
        }
    }

    /// How many of the instances that a query admits have each value of a label; the largest group first. Instances
    /// without the label are not counted.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn count_instances_by_label(
        &self,
        query: &InstanceQuery,
        key: &str,
    ) -> Result<Vec<InstanceCount>, ClientError> {
        Ok(self.admin()?.count_instances_by_label(query, key).await?)
    }
}

fn in_words(change: &LabelChange) -> String {
    let key = &change.key;
    match &change.value {
        Some(value) => format!("{key}={value}"),
        None => format!("without {key}"),
    }
}
