//! Values that only the world outside knows, recorded so that every replay sees the same.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::OrchestrationContext;
use crate::durable::{SYSCALL_GET_KV_VALUE, SYSCALL_NEW_GUID, SYSCALL_UTC_NOW_MS};
use crate::future::DurableFuture;

impl OrchestrationContext {
    /// A fresh random id (UUID v4), the same in every replay.
    #[track_caller]
    pub fn new_guid(&self) -> impl Future<Output = Result<String, String>> + use<> {
        self.call_activity(SYSCALL_NEW_GUID.into(), String::new(), None, None)
    }

    /// The current time, the same in every replay.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    /// use std::time::UNIX_EPOCH;
    ///
    /// async fn example(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ///     let since = ctx.utc_now().await?.duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?;
    ///     Ok(format!("{} s", since.as_secs()))
    /// }
    /// ```
    #[track_caller]
    pub fn utc_now(&self) -> impl Future<Output = Result<SystemTime, String>> + use<> {
        self.call_activity(SYSCALL_UTC_NOW_MS.into(), String::new(), None, None)
            .map(|answer| {
                let ms: u64 = answer?.parse().map_err(|e| format!("utc_now: {e}"))?;
                Ok(UNIX_EPOCH + Duration::from_millis(ms))
            })
    }

    /// A key-value of another instance, as it is now; `None` if the instance or the key does not exist.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let price = ctx.get_kv_value_from_instance("price-list", input.as_str()).await?;
    ///     price.ok_or_else(|| format!("no price for {input}"))
    /// }
    /// ```
    #[track_caller]
    pub fn get_kv_value_from_instance(
        &self,
        instance_id: impl Into<String>,
        key: impl Into<String>,
    ) -> DurableFuture<Result<Option<String>, String>> {
        self.read_foreign_kv(&instance_id.into(), &key.into())
            .map(|answer| {
                serde_json::from_str(&answer?)
                    .map_err(|e| format!("get_kv_value_from_instance deserialization error: {e}"))
            })
    }

    /// A typed key-value of another instance, as it is now.
    #[track_caller]
    pub fn get_kv_value_from_instance_typed<T: DeserializeOwned + Send + 'static>(
        &self,
        instance_id: impl Into<String>,
        key: impl Into<String>,
    ) -> DurableFuture<Result<Option<T>, String>> {
        let wrong = |e| format!("get_kv_value_from_instance_typed deserialization error: {e}");
        self.read_foreign_kv(&instance_id.into(), &key.into())
            .map(move |answer| {
                let value: Option<String> = serde_json::from_str(&answer?).map_err(wrong)?;
                value
                    .map(|text| serde_json::from_str(&text))
                    .transpose()
                    .map_err(wrong)
            })
    }

    #[track_caller]
    fn read_foreign_kv(
        &self,
        instance_id: &str,
        key: &str,
    ) -> DurableFuture<Result<String, String>> {
        let input = serde_json::json!({ "instance_id": instance_id, "key": key }).to_string();
        self.call_activity(SYSCALL_GET_KV_VALUE.into(), input, None, None)
    }
}
