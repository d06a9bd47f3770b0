//! Flaws of labels.

use std::collections::HashMap;

use duroxide_core::provider::{InstanceCount, InstanceQuery, Labelling, Provider, ProviderError};
use duroxide_core::{LabelChange, Labels, labels_after};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

impl Mutant {
    pub(super) async fn told_labels(&self, instance: &str) -> Result<Labels> {
        let labels = self.reference().labels(instance).await?;
        Ok(match self.flaw {
            Flaw::LabelsEndWithTheirTurn => {
                let history = self.inner.read(instance).await?;
                labels_after(history.get(1..).unwrap_or_default())
            }
            Flaw::OperatorsLabelsAreForgotten
                if self.reference().latest_execution_id(instance).await? > 1 =>
            {
                labels_after(&self.inner.read(instance).await?)
            }
            Flaw::LabelsOutliveTheInstance => {
                let mut notes = self.notes.lock();
                if !labels.is_empty() {
                    notes.labels.insert(instance.to_owned(), labels);
                }
                notes.labels.get(instance).cloned().unwrap_or_default()
            }
            _ => labels,
        })
    }

    pub(super) async fn all_values(&self, instance: &str) -> Result<HashMap<String, String>> {
        let mut values = self.inner.get_kv_all_values(instance).await?;
        if self.has(Flaw::LabelsAreKeyValues) {
            values.extend(self.reference().labels(instance).await?);
        }
        Ok(values)
    }

    pub(super) async fn relabel(
        &self,
        instance: &str,
        changes: &[LabelChange],
    ) -> Result<Option<Labelling>> {
        match self.flaw {
            Flaw::LabelsAreOnlyTold => {
                let known = self.reference().get_instance_info(instance).await.is_ok();
                let before = self.reference().labels(instance).await?;
                Ok(Some(if known {
                    Labelling::of(before, changes)
                } else {
                    Labelling::NoSuchInstance
                }))
            }
            Flaw::LabelsChangeOneByOne => {
                let mut last = self.reference().change_labels(instance, &[]).await?;
                for change in changes {
                    let one = std::slice::from_ref(change);
                    last = self.reference().change_labels(instance, one).await?;
                }
                Ok(last)
            }
            _ => self.reference().change_labels(instance, changes).await,
        }
    }

    pub(super) async fn count_labels(
        &self,
        query: &InstanceQuery,
        key: &str,
    ) -> Result<Vec<InstanceCount>> {
        let all = InstanceQuery::new();
        let query = match self.flaw {
            Flaw::LabelsOfAllAreCounted => &all,
            _ => query,
        };
        self.reference().count_instances_by_label(query, key).await
    }
}
