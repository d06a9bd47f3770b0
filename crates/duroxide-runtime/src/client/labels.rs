//! Labels of instances, from outside.

use duroxide_core::provider::{InstanceCount, InstanceQuery, Labelling, ProviderError};
use duroxide_core::{LABELS_MAX, LabelChange, Labels, check_label};

use super::audit::Deed;
use super::{Client, ClientError};

impl Client {
    /// The labels of an instance; none if there is no such instance.
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn labels(&self, instance: &str) -> Result<Labels, ClientError> {
        Ok(self.admin()?.labels(instance).await?)
    }

    /// Sets and removes labels of an instance, all together or none, whether it runs or has ended; returns what it has then. Its
    /// code does not hear of it.
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
    /// `InvalidInput` for a label that is not fit or too many of them, `InstanceNotFound` if no node has begun the instance,
    /// `ManagementNotAvailable`, or what the store says.
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
                self.audit(Deed::of("label", instance).because(&words.join(", ")));
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

    /// How many of the instances that a query admits have each value of a label; the largest group first. Instances without the label
    /// are not counted.
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
