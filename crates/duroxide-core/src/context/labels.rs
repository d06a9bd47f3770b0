//! Labels: how people find the instance. Changes are recorded and seen by queries when the turn commits.

use std::panic::Location;

use super::OrchestrationContext;
use crate::durable::CommandKind;
use crate::label::{LABELS_MAX, Labels, check_label, recorded_label_key};

impl OrchestrationContext {
    /// Gives this instance a label, in place of one with the same key.
    ///
    /// A key has at most 64 bytes (letters, digits, `.`, `_`, `-`, `/`), a value at most 256 without control
    /// characters, and an instance at most 16 labels. Labels survive continue-as-new, and stay when the instance has
    /// ended.
    ///
    /// # Panics
    ///
    /// When the label is not fit or one too many, which fails the orchestration.
    ///
    /// ```
    /// use duroxide_core::OrchestrationContext;
    ///
    /// async fn order(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let country = ctx.schedule_activity("look_up_country", input).await?;
    ///     ctx.set_label("country", country.as_str());
    ///     Ok(country)
    /// }
    /// ```
    #[track_caller]
    pub fn set_label(&self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        if let Err(why) = check_label(&key, &value) {
            panic!("{why}");
        }
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        let is_new = !cell.labels.all().contains_key(&key);
        let is_one_too_many = is_new && cell.labels.all().len() >= LABELS_MAX;
        if is_one_too_many {
            drop(cell);
            panic!("an instance may have {LABELS_MAX} labels; '{key}' is one more");
        }
        let recorded = recorded_label_key(&key);
        let entry = cell.next_kv(&recorded, value);
        cell.labels.change().insert(key, entry.value.clone());
        let kind = CommandKind::SetKv {
            key: recorded,
            value: entry.value,
            last_updated_at_ms: entry.last_updated_at_ms,
        };
        cell.record(kind, location);
    }

    /// Removes a label; recorded also when there is none.
    ///
    /// # Panics
    ///
    /// If no label can have this key.
    #[track_caller]
    pub fn remove_label(&self, key: &str) {
        if let Err(why) = check_label(key, "") {
            panic!("{why}");
        }
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        cell.labels.change().remove(key);
        let key = recorded_label_key(key);
        cell.record(CommandKind::ClearKv { key }, location);
    }

    /// The labels that the instance was started with and that its code set. What an operator changes is not seen here:
    /// it must not decide what the code does.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.shared.cell().labels.all().clone()
    }
}
