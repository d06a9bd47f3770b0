//! Key-values of an instance, as clients read them. In: an id. Out: values, those of the running execution included.
//! Never writes one: only the orchestration does.

use std::collections::HashMap;
use std::time::Duration;

use duroxide_core::is_reserved_key;
use serde::de::DeserializeOwned;

use super::{Client, ClientError};

const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl Client {
    /// The value of a key, as the last commit left it.
    ///
    /// # Errors
    ///
    /// What the store says.
    pub async fn get_kv_value(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ClientError> {
        Ok(self.store.get_kv_value(instance, key).await?)
    }

    /// The value of a key, from JSON.
    ///
    /// # Errors
    ///
    /// What the store says, or `InvalidInput` when the value does not decode.
    pub async fn get_kv_value_typed<T: DeserializeOwned>(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<T>, ClientError> {
        let value = self.get_kv_value(instance, key).await?;
        value.as_deref().map(decode).transpose()
    }

    /// All keys and values, read as one snapshot.
    ///
    /// # Errors
    ///
    /// What the store says.
    pub async fn get_kv_all_values(
        &self,
        instance: &str,
    ) -> Result<HashMap<String, String>, ClientError> {
        let mut values = self.store.get_kv_all_values(instance).await?;
        values.retain(|key, _| !is_reserved_key(key));
        Ok(values)
    }

    /// Waits until a key has a value.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline; permanent store errors at once.
    pub async fn wait_for_kv_value(
        &self,
        instance: &str,
        key: &str,
        timeout: Duration,
    ) -> Result<String, ClientError> {
        self.wait_until(instance, timeout, LONGEST_PAUSE, || {
            self.get_kv_value(instance, key)
        })
        .await
    }

    /// Waits until a key has a value and decodes it from JSON.
    ///
    /// # Errors
    ///
    /// As [`wait_for_kv_value`](Self::wait_for_kv_value), or `InvalidInput` when the value does not decode.
    pub async fn wait_for_kv_value_typed<T: DeserializeOwned>(
        &self,
        instance: &str,
        key: &str,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        decode(&self.wait_for_kv_value(instance, key, timeout).await?)
    }
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, ClientError> {
    serde_json::from_str(text)
        .map_err(|e| ClientError::invalid(format!("KV deserialization error: {e}")))
}
