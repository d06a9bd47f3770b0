//! Key-values of the instance. Reads are local; writes are recorded and seen by clients when the turn commits.

use std::collections::{BTreeMap, HashMap};
use std::panic::Location;

use serde::{Serialize, de::DeserializeOwned};

use super::OrchestrationContext;
use super::requests::is_reserved_key;
use crate::codec;
use crate::durable::CommandKind;

impl OrchestrationContext {
    /// Sets a key.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let seen = ctx.get_kv_value("seen").unwrap_or_default();
    ///     ctx.set_kv_value("seen", format!("{seen}{input};"));
    ///     Ok(seen)
    /// }
    /// ```
    #[track_caller]
    pub fn set_kv_value(&self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        let entry = cell.next_kv(&key, value);
        let kind = CommandKind::SetKv {
            key: key.clone(),
            value: entry.value.clone(),
            last_updated_at_ms: entry.last_updated_at_ms,
        };
        cell.kv.insert(key, entry);
        cell.record(kind, location);
    }

    /// Sets a key to a value as JSON: structs in the order of their fields, maps in the order of their keys.
    ///
    /// # Panics
    ///
    /// When the value does not serialise, which fails the orchestration.
    #[track_caller]
    pub fn set_kv_value_typed<T: Serialize>(&self, key: impl Into<String>, value: &T) {
        let text = codec::to_json(value)
            .unwrap_or_else(|e| panic!("KV value serialization should not fail: {e}"));
        self.set_kv_value(key, text);
    }

    /// The value of a key.
    #[must_use]
    pub fn get_kv_value(&self, key: &str) -> Option<String> {
        self.shared.cell().kv.get(key).map(|e| e.value.clone())
    }

    /// The value of a key, from JSON.
    ///
    /// # Errors
    ///
    /// When the value does not decode.
    pub fn get_kv_value_typed<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, String> {
        self.get_kv_value(key)
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(|e| format!("KV deserialization error for key '{key}': {e}"))
    }

    /// All keys and values. The order of a `HashMap` differs from run to run: to decide something by it, use
    /// [`get_kv_all_sorted`](Self::get_kv_all_sorted).
    #[must_use]
    pub fn get_kv_all_values(&self) -> HashMap<String, String> {
        let cell = self.shared.cell();
        let own = cell.kv.iter().filter(|(key, _)| !is_reserved_key(key));
        own.map(|(k, e)| (k.clone(), e.value.clone())).collect()
    }

    /// All keys and values, by key: the same order in every replay.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ///     for (shop, price) in ctx.get_kv_all_sorted() {
    ///         ctx.schedule_activity("compare", format!("{shop}: {price}")).await?;
    ///     }
    ///     Ok("compared".to_owned())
    /// }
    /// ```
    #[must_use]
    pub fn get_kv_all_sorted(&self) -> BTreeMap<String, String> {
        let cell = self.shared.cell();
        let own = cell.kv.iter().filter(|(key, _)| !is_reserved_key(key));
        own.map(|(k, e)| (k.clone(), e.value.clone())).collect()
    }

    /// All keys, ascending.
    #[must_use]
    pub fn get_kv_all_keys(&self) -> Vec<String> {
        let cell = self.shared.cell();
        let own = cell.kv.keys().filter(|key| !is_reserved_key(key));
        own.cloned().collect()
    }

    /// How many keys there are.
    #[must_use]
    pub fn get_kv_length(&self) -> usize {
        self.get_kv_all_keys().len()
    }

    /// Removes a key; recorded also when there is none.
    #[track_caller]
    pub fn clear_kv_value(&self, key: impl Into<String>) {
        let key = key.into();
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        cell.kv.remove(&key);
        cell.record(CommandKind::ClearKv { key }, location);
    }

    /// Removes all keys. Replies to clients and the published view stay.
    #[track_caller]
    pub fn clear_all_kv_values(&self) {
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        let kept: Vec<_> = cell
            .kv
            .iter()
            .filter(|(key, _)| is_reserved_key(key))
            .map(|(key, entry)| (key.clone(), entry.value.clone()))
            .collect();
        cell.kv.clear();
        cell.record(CommandKind::ClearAllKv, location);
        drop(cell);
        for (key, value) in kept {
            self.set_kv_value(key, value);
        }
    }

    /// Removes all keys set before a time, those of this turn included; returns how many.
    #[track_caller]
    pub fn prune_kv_values_updated_before(&self, updated_before_ms: u64) -> usize {
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        let old: Vec<String> = cell
            .kv
            .iter()
            .filter(|(key, entry)| {
                entry.last_updated_at_ms < updated_before_ms && !is_reserved_key(key)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in &old {
            cell.kv.remove(key);
            cell.record(CommandKind::ClearKv { key: key.clone() }, location);
        }
        old.len()
    }
}
